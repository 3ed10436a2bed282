"""Label statistics against numbers counted by hand."""

from __future__ import annotations

import numpy as np
from small_index import make_index

from yolo_accum.report.label_statistics import label_statistics


def test_numbers_by_hand() -> None:
    """Pictures of 640 x 480 in a network input of 320: everything is half as large."""
    index = make_index(
        [[(0, (0, 0, 64, 16)), (2, (320, 240, 640, 480))], [], [(2, (0, 0, 640, 480)), (0, (160, 120, 480, 360))]],
        num_classes=3,
        crowd=[[False, False], [], [True, False]],
    )
    statistics = label_statistics(index, 320)
    assert statistics.num_crowd == 1
    assert statistics.boxes_per_class.tolist() == [2, 0, 1]
    assert statistics.boxes_per_image.tolist() == [2, 0, 1]
    assert statistics.num_images_without_objects == 1
    assert statistics.sides_px.tolist() == [[32, 8], [160, 120], [160, 120]]
    assert statistics.sizes_px[0] == 16
    np.testing.assert_allclose(statistics.centres_norm, [[0.05, 8 / 480], [0.75, 0.75], [0.5, 0.5]])


def test_without_objects() -> None:
    statistics = label_statistics(make_index([[], []]), 640)
    assert statistics.boxes_per_image.tolist() == [0, 0] and statistics.sizes_px.shape == (0,)
