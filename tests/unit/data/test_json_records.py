"""Large JSON lists against Python's own reader, and annotations that are plain against the same read one by one."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from yolo_accum.data.findings import FindingLog
from yolo_accum.data.formats import coco_annotations
from yolo_accum.data.formats.coco_annotations import read_annotations
from yolo_accum.data.formats.json_records import Records, read_json


class Point(msgspec.Struct):
    x: float


@pytest.mark.parametrize(
    "text",
    [
        '{"list": [{"x": 1, "deep": [[1, 2], {"y": null}]}, {"x": 2.5, "t": "ü\\n\\ud83d\\ude00"}], "other": [1, NaN]}',
        '\ufeff {"list": [], "other": {"a": [{}]}}',
        '{"list": [{"x": 1}], "list": [{"x": 2}, {"x": 3}]}',
        '{"other": 1}',
    ],
)
def test_records_are_what_json_reads(text: str) -> None:
    found = read_json(text.encode(), ("list",))
    expected = json.loads(text.removeprefix("\ufeff"))
    assert list(found) == list(expected)
    assert repr(found.get("other")) == repr(expected.get("other"))  # NaN is no equal of itself
    if "list" in expected:
        assert list(found["list"]) == expected["list"] == found["list"][:]
        assert [found["list"][place] for place in range(len(found["list"]))] == expected["list"]


@pytest.mark.parametrize(
    "text", ['{"list": [{"x": NaN}]}', '{"list": [1]}', '{"list": 5}', "[]", '{"list": [{"x": 1e999}]}']
)
def test_what_is_not_plain_is_read_by_python(text: str) -> None:
    content = json.loads(text)
    found = read_json(text.encode(), ("list",))
    if isinstance(content, dict) and isinstance(found["list"], Records):
        assert repr(list(found["list"])) == repr(content["list"])
    else:
        assert repr(found) == repr(content)


@pytest.mark.parametrize("text", [b'{"list": [{"x": 1},]}', b'{"list": [{"x": 1}', b'{"list": [{"x": "\xff"}]}', b""])
def test_faults_are_those_of_python(text: bytes) -> None:
    with pytest.raises(ValueError) as found:
        read_json(text, ("list",))
    with pytest.raises(ValueError) as expected:
        json.loads(text.decode("utf-8-sig"))
    assert str(found.value) == str(expected.value)


def test_plain_records_have_a_form() -> None:
    records = read_json(b'{"list": [{"x": 1}, {"x": 2, "y": []}, {"x": "3"}, {}]}', ("list",))["list"]
    assert records.plain(slice(0, 2), Point) == [Point(1), Point(2)]
    assert records.plain(slice(1, 3), Point) is None and records.plain(slice(3, 4), Point) is None


def annotations(rng: random.Random) -> list[dict[str, Any]]:
    """Plain ones for the most part, odd ones in a few places."""
    made: list[dict[str, Any]] = []
    for number in range(60):
        box = [rng.randrange(50), rng.random() * 50, rng.randrange(1, 9), rng.random() * 9 + 1]
        made.append({"id": number, "image_id": rng.randrange(6), "category_id": rng.randrange(4), "bbox": box})
        made[-1] |= rng.choice(
            [{}, {"iscrowd": 1}, {"iscrowd": 0, "area": 12.5}, {"area": 7}, {"segmentation": [[1, 2]]}]
        )
    odd = [
        {"bbox": ["1", 2, 3, 4]},
        {"bbox": None, "segmentation": [[1, 1, 5, 1, 5, 7]]},
        {"bbox": [1, 2, 3]},
        {"bbox": [True, 2, 3, 4]},
        {"iscrowd": 7},
        {"iscrowd": "1"},
        {"area": "wide"},
        {"area": None},
        {"category_id": 99},
        {"image_id": None},
        {"image_id": 2.0},
        {"id": 3},
        {"id": "three"},
        {"id": None},
        {"bbox": [1, 2, 1e308, 1e308]},
    ]
    for place, change in zip(rng.sample(range(60), len(odd)), odd, strict=True):
        made[place] |= change
    return made


@pytest.mark.parametrize("seed", range(20))
def test_annotations_are_the_same_in_pieces(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = annotations(random.Random(seed))
    records = read_json(json.dumps({"annotations": made}).encode(), ("annotations",))["annotations"]
    assert isinstance(records, Records)
    outcomes = []
    for given, num in ((made, 1000), (records, 1000), (records, 7), (records, 1)):
        monkeypatch.setattr(coco_annotations, "CHUNK_RECORDS", num)
        log = FindingLog()
        names, rows, labels = [f"{n}.jpg" for n in range(5)], {n: n for n in range(5)}, {n: n for n in range(4)}
        table = read_annotations(Path("x.json"), given, names, rows, labels, log)
        outcomes.append((table, log.findings, [table.place_of_box(box) for box in range(len(table.labels))]))
    first, findings, places = outcomes[0]
    assert len({finding.kind.code for finding in findings}) > 3
    for table, others, their_places in outcomes[1:]:
        assert others == findings and their_places == places
        for name in ("image_of_box", "boxes_xyxy_px", "labels", "is_crowd", "areas_px"):
            np.testing.assert_array_equal(getattr(table, name), getattr(first, name))


def test_no_annotation_at_all() -> None:
    records = read_json(b'{"annotations": []}', ("annotations",))["annotations"]
    table = read_annotations(Path("x.json"), records, ["a"], {1: 0}, {1: 0}, FindingLog())
    assert table.boxes_xyxy_px.shape == (0, 4) and table.labels.dtype == np.int64
