"""Sizes of the network input in training."""

from __future__ import annotations

from collections import Counter

import pytest

from yolo_accum.data.multi_scale import training_sizes_px, window_size_px


@pytest.mark.parametrize(
    ("imgsz", "share", "sizes"),
    [
        (640, 0.0, [640]),
        (640, 0.04, [640]),  # 25.6 px are less than 32
        (640, 0.05, [608, 640, 672]),
        (320, 0.3, [224, 256, 288, 320, 352, 384, 416]),  # 0.3 x 320 = 96, in floating point a little more or less
        (320, 0.5, list(range(160, 481, 32))),
        (32, 0.9, [32]),
        (64, 0.9, [32, 64, 96]),
    ],
)
def test_sizes_by_hand(imgsz: int, share: float, sizes: list[int]) -> None:
    assert list(training_sizes_px(imgsz, share)) == sizes


def test_all_sizes_come_up_about_equally_often() -> None:
    drawn = Counter(window_size_px(128, 0.25, seed=0, epoch=0, position=position) for position in range(600))
    assert set(drawn) == {96, 128, 160}
    assert min(drawn.values()) > 150


def test_a_size_is_a_function_of_seed_and_first_image() -> None:
    def sizes(seed: int, epoch: int) -> list[int]:
        return [window_size_px(320, 0.5, seed=seed, epoch=epoch, position=64 * window) for window in range(20)]

    assert sizes(1, 0) == sizes(1, 0)
    assert sizes(1, 0) != sizes(2, 0)
    assert sizes(1, 0) != sizes(1, 1)
    assert window_size_px(320, 0.0, seed=1, epoch=2, position=3) == 320
