"""The photometric extras are decided by the generator that is passed in, by nothing else."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest

from yolo_accum.data.augment import Photometric
from yolo_accum.data.order import keyed_rng

PICTURE = np.random.default_rng(0).integers(60, 200, (48, 64, 3), dtype=np.uint8)


def test_probability_zero_leaves_the_picture() -> None:
    assert Photometric(0)(PICTURE, keyed_rng(0, 0, 0, 4)) is PICTURE


def test_the_key_decides_and_nothing_that_came_before() -> None:
    first = Photometric(0.5)
    results = [first(PICTURE, keyed_rng(0, 0, position, 4)) for position in range(12)]
    second = pickle.loads(pickle.dumps(first))
    np.random.seed(99)  # noqa: NPY002  the library must not listen to it
    random.seed(99)
    for position in reversed(range(12)):
        assert np.array_equal(second(PICTURE, keyed_rng(0, 0, position, 4)), results[position])
    assert len({result.tobytes() for result in results}) > 8


def test_the_picture_itself_is_not_written_to() -> None:
    before = PICTURE.copy()
    result = Photometric(1)(PICTURE, keyed_rng(0, 0, 0, 4))
    assert np.array_equal(PICTURE, before)
    assert result.shape == PICTURE.shape
    assert result.dtype == np.uint8


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_pictures_change_as_often_as_the_probability_says(probability: float) -> None:
    photometric = Photometric(probability)
    num_changed = sum(photometric(PICTURE, keyed_rng(0, 0, position, 4)) is not PICTURE for position in range(300))
    expected = 300 * (1 - (1 - probability) ** 5)
    assert abs(num_changed - expected) < 5 * np.sqrt(expected * (1 - probability) ** 5)
