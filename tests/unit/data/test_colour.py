"""HSV changes against arithmetic on single colours."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.data.colour import jitter_hsv
from yolo_accum.data.order import keyed_rng


def one_pixel(red: int, green: int, blue: int) -> np.ndarray:
    return np.array([[[red, green, blue]]], dtype=np.uint8)


def test_without_gains_the_picture_itself_comes_back() -> None:
    image = one_pixel(10, 200, 30)
    assert jitter_hsv(image, keyed_rng(0, 0, 0, 3), AugmentConfig(hsv_h=0, hsv_s=0, hsv_v=0)) is image


@pytest.mark.parametrize("colour", [(200, 40, 40), (40, 180, 90), (30, 60, 220), (120, 110, 100), (0, 0, 0)])
@pytest.mark.parametrize("position", range(8))
def test_hue_turns_and_the_others_scale(colour: tuple[int, int, int], position: int) -> None:
    config = AugmentConfig(hsv_h=0.3, hsv_s=0.5, hsv_v=0.5)
    hue, saturation, value = keyed_rng(0, 0, position, 3).uniform(-1, 1, size=3) * (0.3, 0.5, 0.5)
    h, s, v = colorsys.rgb_to_hsv(*(level / 255 for level in colour))
    expected = colorsys.hsv_to_rgb((h + hue) % 1, min(s * (1 + saturation), 1), min(v * (1 + value), 1))
    result = jitter_hsv(one_pixel(*colour), keyed_rng(0, 0, position, 3), config)
    # OpenCV stores hue in steps of two degrees, 255 / 60 levels of a primary each.
    np.testing.assert_allclose(result[0, 0], np.array(expected) * 255, atol=9)


def test_grey_stays_grey_and_black_stays_black() -> None:
    result = jitter_hsv(one_pixel(77, 77, 77), keyed_rng(0, 0, 1, 3), AugmentConfig())
    assert len(set(result[0, 0].tolist())) == 1
    assert jitter_hsv(one_pixel(0, 0, 0), keyed_rng(0, 0, 1, 3), AugmentConfig()).max() == 0
