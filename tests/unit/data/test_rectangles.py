"""Rectangular batches: every picture once, in a shape that holds its batch and a margin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from picture_index import write_picture_index

from yolo_accum.data.dataset import EvalDataset
from yolo_accum.data.rectangles import rectangular_batches


def test_batches_by_hand(tmp_path: Path) -> None:
    sizes = [(100, 100), (200, 50), (50, 200), (160, 80), (90, 100)]
    index = write_picture_index(tmp_path, [(size, []) for size in sizes])
    found = rectangular_batches(index, 128, 2)
    # Height over width: 1, 0.25, 4, 0.5, 1.11. Scaled to 128: 128 x 128, 128 x 32, 32 x 128, 128 x 64, 115 x 128.
    assert found.rows.tolist() == [1, 3, 0, 4, 2]
    assert found.shapes_px.tolist() == [[128, 128], [96, 128], [128, 64], [96, 128], [128, 128]]


def test_a_rectangular_input_is_the_top_left_part_of_the_square_one(tmp_path: Path) -> None:
    index = write_picture_index(tmp_path, [((90, 20), [(0, (10, 5, 50, 18))]), ((31, 97), [(1, (3, 5, 20, 90))])])
    rectangles = rectangular_batches(index, 96, 1)
    for row in range(2):
        square, rectangle = EvalDataset(index, 96)[row], EvalDataset(index, 96, rectangles)[row]
        height_px, width_px = rectangle.image.shape[1:]
        assert (height_px, width_px) == ((64, 96), (96, 64))[row]
        assert np.array_equal(rectangle.image, square.image[:, :height_px, :width_px])
        assert (square.image[:, height_px:] == 114).all() and (square.image[:, :, width_px:] == 114).all()
        assert np.array_equal(rectangle.boxes_xyxy_px, square.boxes_xyxy_px)
        assert rectangle.letterbox == square.letterbox
