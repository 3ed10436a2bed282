"""The predictions file speaks the user's ids and reads back as what was found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_index import make_detections, make_index, perfect_detections

from yolo_accum.errors import UserError
from yolo_accum.metrics.coco import coco_metrics
from yolo_accum.metrics.predictions import read_predictions, write_predictions

INDEX = make_index(
    [[(0, (10, 20, 30, 60))], [], [(1, (5, 5, 60, 60)), (0, (100, 100, 300, 300))]],
    image_ids=("0002", 2, "ö/a-1"),
    class_ids=(10, 40),
)


def test_form_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    found = [
        make_detections(0, [(1, 0.9, (10.00049, 20, 30.5, 60)), (0, 1e-7, (0, 0, 1, 2))]),
        make_detections(1, []),
        make_detections(2, [(0, 0.123456789, (1, 2, 3, 4))]),
    ]
    write_predictions(path, INDEX, found)
    assert json.loads(path.read_text(encoding="utf-8")) == [
        {"image_id": "0002", "category_id": 40, "bbox": [10.0, 20.0, 20.5, 40.0], "score": 0.9},
        {"image_id": "0002", "category_id": 10, "bbox": [0.0, 0.0, 1.0, 2.0], "score": 1e-7},
        {"image_id": "ö/a-1", "category_id": 10, "bbox": [1.0, 2.0, 2.0, 2.0], "score": 0.12345679},
    ]
    assert [item.name for item in tmp_path.iterdir()] == ["predictions.json"]


def test_nothing_found_is_an_empty_list(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    write_predictions(path, INDEX, [make_detections(1, [])])
    assert json.loads(path.read_text()) == []
    assert read_predictions(path, INDEX) == []


def test_reading_back_gives_the_same_numbers(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    found = perfect_detections(INDEX)
    write_predictions(path, INDEX, found)
    again = read_predictions(path, INDEX)
    assert [item.image_index for item in again] == [0, 2]
    for item in again:
        written = found[item.image_index]
        assert np.array_equal(item.scores, written.scores) and np.array_equal(item.labels, written.labels)
        np.testing.assert_allclose(item.boxes_xyxy_px, written.boxes_xyxy_px, atol=1e-3)
    assert coco_metrics(INDEX, again).values["AP"] == pytest.approx(1.0)


def test_reading_sorts_best_first(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    items = [
        {"image_id": 2, "category_id": category, "bbox": [0, 0, left, 5], "score": score}
        for category, left, score in [(10, 1, 0.5), (40, 2, 0.9), (40, 3, 0.5)]
    ]
    path.write_text(json.dumps(items))
    (found,) = read_predictions(path, INDEX)
    assert found.labels.tolist() == [1, 0, 1]
    assert found.boxes_xyxy_px[:, 2].tolist() == [2.0, 1.0, 3.0]


def test_a_failed_write_leaves_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    path.write_text("[]")
    (tmp_path / "predictions.json.part").mkdir()
    with pytest.raises(OSError, match=r"predictions\.json"):
        write_predictions(path, INDEX, perfect_detections(INDEX))
    assert path.read_text() == "[]"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "predictions.json.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left.*predictions\.json"):
        write_predictions(tmp_path / "predictions.json", INDEX, perfect_detections(INDEX))


GOOD = {"image_id": 2, "category_id": 10, "bbox": [0, 0, 5, 5], "score": 0.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a JSON file"),
        ("{}", "this is no list"),
        ("[7]", "prediction 1: an object with image_id"),
        (
            json.dumps([GOOD, {**GOOD, "image_id": "2"}]),
            "prediction 2: image_id '2' is not in the data set, which has '0002'",
        ),
        (json.dumps([{**GOOD, "image_id": [2]}]), r"image_id \[2\]"),
        (json.dumps([{**GOOD, "category_id": 1}]), "category_id 1 is not in the data set, which has 10, 40"),
        (json.dumps([{**GOOD, "bbox": [1, 2, 3]}]), r"bbox \[1, 2, 3\]"),
        (json.dumps([{**GOOD, "bbox": [1, 2, 3, float("nan")]}]), "finite"),
        (json.dumps([{**GOOD, "score": "0.5"}]), "score '0.5'"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "theirs.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        read_predictions(path, INDEX)
    assert "theirs.json" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.json"):
        read_predictions(tmp_path / "absent.json", INDEX)
