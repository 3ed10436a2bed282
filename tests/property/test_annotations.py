"""Whatever a description holds, every box of the index is valid and every picture and box is accounted for."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_sets import write_picture

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import FindingLog
from yolo_accum.data.formats.coco import read_coco
from yolo_accum.data.formats.yolo import read_yolo
from yolo_accum.errors import UserError

SIZES_PX = ((40, 30), (1, 1), (7, 90))
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

sides = st.one_of(
    st.floats(-60, 150),
    st.integers(-10, 100),
    st.sampled_from([0, 1e-9, 1e300, float("nan"), float("inf"), "12.5", "x", None, True]),
)
image_ids = st.one_of(st.integers(0, 2), st.sampled_from([99, "0", None, 1.0]))
annotations = st.fixed_dictionaries(
    {"image_id": image_ids, "category_id": st.sampled_from([1, 7, 7, 8])},
    optional={
        "id": st.one_of(st.integers(0, 3), st.text(max_size=3)),
        "bbox": st.one_of(
            st.lists(sides, min_size=4, max_size=4),
            st.lists(sides, max_size=5),
            st.sampled_from([None, {}, "4 numbers"]),
        ),
        "segmentation": st.one_of(
            st.lists(st.lists(st.floats(-50, 120), min_size=6, max_size=8), max_size=2),
            st.just({"size": [30, 40], "counts": [100, 5, 1095]}),
        ),
        "iscrowd": st.sampled_from([0, 1, "1", None, 2]),
        "area": sides,
    },
)


def check(index: DetectionIndex, num_pictures: int, num_boxes: int, log: FindingLog) -> None:
    """Valid boxes, and what was given is what there is plus what the findings count as left out."""
    widths, heights = (np.repeat(side, np.diff(index.box_starts)) for side in (index.widths_px, index.heights_px))
    left, top, right, bottom = index.boxes_xyxy_px.T
    assert np.isfinite(index.boxes_xyxy_px).all() and (left >= 0).all() and (top >= 0).all()
    assert (right > left).all() and (bottom > top).all() and (right <= widths).all() and (bottom <= heights).all()
    assert (index.areas_px > 0).all() and np.isfinite(index.areas_px).all()
    assert len(index) == num_pictures
    counts: Counter[str] = Counter()
    for finding in log.findings:
        counts[finding.kind.code] += finding.count
    lost = (
        "unknown-image undeclared-class bad-box bad-mask not-finite zero-size outside duplicate-box bad-row "
        "inverted-box tiny-box not-fractions class-out-of-range"
    )
    # An annotation may have two faults, so what is counted is at least what is lost.
    assert num_boxes - index.num_boxes <= sum(counts[code] for code in lost.split())
    if not any(counts[code] for code in lost.split()):
        assert index.num_boxes == num_boxes


@SETTINGS
@given(st.lists(annotations, max_size=12))
def test_coco(records: list[Mapping[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, size_px in enumerate(SIZES_PX):
            write_picture(folder / f"{number}.png", *size_px)
        content = {
            "images": [{"id": number, "file_name": f"{number}.png"} for number in range(len(SIZES_PX))],
            "annotations": records,
            "categories": [{"id": 1, "name": "cat"}, {"id": 7, "name": "dog"}],
        }
        path = folder / "train.json"
        path.write_text(json.dumps(content))
        log = FindingLog()
        check(read_coco(path, log, folders=[folder]), len(SIZES_PX), len(records), log)


fractions = st.one_of(st.floats(-0.2, 1.2).map(str), st.sampled_from(["0", "1", "nan", "1e400", "x", "-3", "0.5,0.5"]))
rows = st.one_of(
    st.tuples(st.sampled_from(["0", "1", "1.0", "2", "-1", "cat"]), st.lists(fractions, min_size=3, max_size=8)).map(
        lambda row: " ".join([row[0], *row[1]])
    ),
    st.sampled_from(["", "   ", "\t"]),
)


@SETTINGS
@given(st.lists(rows, max_size=10), st.sampled_from(["\n", "\r\n"]))
def test_yolo(lines: list[str], end: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, size_px in enumerate(SIZES_PX):
            write_picture(folder / "images" / f"{number}.png", *size_px)
        (folder / "labels").mkdir()
        (folder / "labels" / "0.txt").write_bytes(end.join(lines).encode())
        log = FindingLog()
        index = read_yolo(
            folder / "data.yaml", log, entries=[folder / "images"], classes=Classes(names=("cat", "dog"), ids=(0, 1))
        )
        check(index, len(SIZES_PX), sum(bool(line.split()) for line in lines), log)


@SETTINGS
@given(st.binary(max_size=60))
def test_any_bytes_are_a_sentence_and_never_another_failure(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "train.json"
        path.write_bytes(data)
        try:
            read_coco(path, FindingLog(), folders=[Path(name)])
        except UserError as error:
            assert "train.json" in str(error)
