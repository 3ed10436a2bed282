"""Orders of an epoch: every image once, or as often as its repeat factor says."""

from __future__ import annotations

import numpy as np
import pytest
from picture_index import Object, write_picture_index

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.order import epoch_order
from yolo_accum.data.sampling import ImageOrder, image_order, repeat_factors


def index_of(labels: list[list[int]], tmp_path_factory: pytest.TempPathFactory, **options: object) -> DetectionIndex:
    objects: list[list[Object]] = [[(label, (0, 0, 4, 4)) for label in row] for row in labels]
    pictures = [((8, 8), row) for row in objects]
    return write_picture_index(tmp_path_factory.mktemp("pictures"), pictures, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> DetectionIndex:
    """16 images: class 0 on all but the last, class 1 on four, class 2 on one, which has class 1 too."""
    return index_of([[0, 0], *[[0]] * 10, *[[0, 1]] * 3, [0, 1, 2], []], tmp_path_factory)


def test_repeat_factors_by_hand(index: DetectionIndex) -> None:
    """Threshold 1/2; shares 15/16, 4/16 and 1/16: factors 1, sqrt(2) and sqrt(8)."""
    expected = [1.0] * 11 + [2**0.5] * 3 + [8**0.5] + [1.0]
    np.testing.assert_allclose(repeat_factors(index, 0.5), expected)
    assert (repeat_factors(index, 1 / 16) == 1).all()


def test_crowd_regions_do_not_count(tmp_path_factory: pytest.TempPathFactory) -> None:
    index = index_of([[0], [0], [0], [1]], tmp_path_factory, crowd=[False, False, False, True])
    assert (repeat_factors(index, 0.5) == 1).all()


def test_every_epoch_has_the_same_length_and_shows_every_image_floor_or_ceil_times(index: DetectionIndex) -> None:
    order = image_order(index, seed=3, balance=0.5)
    factors = repeat_factors(index, 0.5)
    # 15 x 1 + 2 whole; parts behind the point: 3 x 0.4142 + 0.8284 = 2.07, rounded down
    assert order.num_positions == 15 + 2 + 2
    for epoch in range(40):
        counts = order.counts(epoch)
        assert counts.sum() == order.num_positions == len(order.rows(epoch))
        assert (np.bincount(order.rows(epoch), minlength=16) == counts).all()
        assert (counts >= np.floor(factors)).all() and (counts <= np.ceil(factors)).all()


def test_in_the_long_run_images_come_as_often_as_their_factors_say(index: DetectionIndex) -> None:
    order = image_order(index, seed=0, balance=0.5)
    mean = np.mean([order.counts(epoch) for epoch in range(3000)], axis=0)
    # Rounding down takes 2 of 2.07 parts.
    factors = repeat_factors(index, 0.5)
    expected = np.floor(factors) + (factors - np.floor(factors)) * 2 / (3 * (2**0.5 - 1) + 8**0.5 - 2)
    np.testing.assert_allclose(mean, expected, atol=0.03)


def test_an_order_is_a_function_of_seed_and_epoch(index: DetectionIndex) -> None:
    one, two = image_order(index, seed=5, balance=0.5), image_order(index, seed=5, balance=0.5)
    late = [one.rows(epoch).tolist() for epoch in (7, 2, 7, 0, 1, 3, 4, 5, 6, 7)]
    assert late[0] == late[2] == late[-1] == two.rows(7).tolist()
    assert one.rows(0).tolist() != one.rows(1).tolist()
    assert one.rows(0).tolist() != image_order(index, seed=6, balance=0.5).rows(0).tolist()
    with pytest.raises(ValueError, match="read-only"):
        one.rows(0)[0] = 1


@pytest.mark.parametrize("factors", [None, np.ones(9)])
def test_without_factors_it_is_the_order_of_the_epoch(factors: np.ndarray | None) -> None:
    order = ImageOrder(3, 9, factors)
    assert order.num_positions == 9 and not order.is_balanced
    assert order.rows(4).tolist() == epoch_order(3, 4, 9).tolist()
    assert order.counts(4).tolist() == [1] * 9


@pytest.mark.parametrize("factors", [np.array([2.5]), np.array([3.0]), np.array([1.9, 1.9, 1.9, 1.3])])
def test_edge_sizes(factors: np.ndarray) -> None:
    order = ImageOrder(0, len(factors), factors)
    whole = int(np.floor(factors).sum())
    assert order.num_positions == whole + int((factors - np.floor(factors)).sum())
    assert all(len(order.rows(epoch)) == order.num_positions for epoch in range(20))
