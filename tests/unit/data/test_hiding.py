"""What is hidden, and which boxes are left."""

from __future__ import annotations

import numpy as np
import pytest

from yolo_accum.contracts import PAD_VALUE
from yolo_accum.data.hiding import MAX_HOLES, cut_out, visible_shares
from yolo_accum.data.order import keyed_rng


def test_visible_shares_by_hand() -> None:
    is_hidden = np.zeros((20, 20), dtype=bool)
    is_hidden[5:15, 5:10] = True
    boxes = np.array([[5, 5, 10, 15], [0, 0, 20, 20], [0, 0, 5, 5], [8.0, 5, 12.0, 10], [9.7, 3, 9.9, 3.2]])
    np.testing.assert_allclose(visible_shares(boxes, is_hidden), [0, 0.875, 1, 0.5, 1])
    assert visible_shares(boxes[:0], is_hidden).shape == (0,)


def test_holes_are_grey_and_boxes_that_are_hidden_too_far_are_dropped() -> None:
    image = np.full((100, 100, 3), 7, dtype=np.uint8)
    boxes = np.array([[x, y, x + 10, y + 10] for x in range(0, 100, 10) for y in range(0, 100, 10)], dtype=np.float32)
    num_dropped = []
    for position in range(60):
        hidden, keep = cut_out(image, boxes, 0.4, keyed_rng(0, 0, position, 8))
        is_grey = (hidden == PAD_VALUE).all(axis=2)
        assert ((hidden == 7).all(axis=2) | is_grey).all()
        assert 0 < is_grey.mean() <= MAX_HOLES * 0.27**2
        # Independently: blocks of 10 x 10 pixels.
        shares = 1 - is_grey.reshape(10, 10, 10, 10).mean(axis=(1, 3)).T.ravel()
        assert keep.tolist() == (shares >= 0.4).tolist()
        num_dropped.append(int((~keep).sum()))
    assert min(num_dropped) == 0 and max(num_dropped) > 3
    assert (image == 7).all()


def test_it_is_a_function_of_the_generator() -> None:
    image = np.arange(64 * 64 * 3, dtype=np.uint8).reshape(64, 64, 3)
    one, two, other = (cut_out(image, np.zeros((0, 4)), 0.1, keyed_rng(0, 0, n, 8))[0] for n in (1, 1, 2))
    assert np.array_equal(one, two) and not np.array_equal(one, other)


@pytest.mark.parametrize("min_visible", [0.0, 1.0])
def test_the_ends_of_the_rule(min_visible: float) -> None:
    """0 keeps every box, 1 only those that nothing touches."""
    boxes = np.array([[0, 0, 64, 64], [0, 0, 1, 1]], dtype=np.float32)
    _, keep = cut_out(np.zeros((64, 64, 3), np.uint8), boxes, min_visible, keyed_rng(0, 0, 3, 8))
    assert keep[0] == (min_visible == 0)
