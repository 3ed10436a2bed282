"""The validation objects as a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_index import make_index

from yolo_accum.errors import UserError
from yolo_accum.metrics.truth import read_truth, write_truth


def test_truth_comes_back_as_it_was(tmp_path: Path) -> None:
    index = make_index(
        [[(1, (10, 20, 30.5, 60)), (0, (1, 2, 3, 4))], [], [(0, (5, 6, 7, 8))]],
        crowd=[[False, True], [], [False]],
        areas_px=[100.5, 2, 3],
        image_ids=("a", 7, "\udcff"),
        class_ids=("x", 3),
        class_names=("<b>", "汉字"),
    )

    write_truth(tmp_path / "truth.json", index)
    again = read_truth(tmp_path / "truth.json")

    for name in ("image_ids", "class_ids", "class_names"):
        assert getattr(again, name) == getattr(index, name)
    assert list(again.image_paths) == list(index.image_paths)
    for name in ("widths_px", "heights_px", "box_starts", "boxes_xyxy_px", "labels", "is_crowd", "areas_px"):
        np.testing.assert_array_equal(getattr(again, name), getattr(index, name))


def test_truth_is_a_coco_file(tmp_path: Path) -> None:
    write_truth(tmp_path / "truth.json", make_index([[(1, (10, 20, 40, 60))]]))

    content = json.loads((tmp_path / "truth.json").read_text())

    assert content["annotations"] == [
        {"id": 1, "image_id": 100, "category_id": 20, "bbox": [10, 20, 30, 40], "area": 1200, "iscrowd": 0}
    ]
    assert content["categories"] == [{"id": 10, "name": "class 0"}, {"id": 20, "name": "class 1"}]


@pytest.mark.parametrize("text", ["", "[]", '{"images": [], "annotations": [{}], "categories": []}'])
def test_another_file_is_refused_by_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "truth.json").write_text(text)

    with pytest.raises(UserError, match=r"truth\.json: not a"):
        read_truth(tmp_path / "truth.json")


def test_no_boxes_no_images(tmp_path: Path) -> None:
    write_truth(tmp_path / "truth.json", make_index([]))

    assert len(read_truth(tmp_path / "truth.json")) == 0
