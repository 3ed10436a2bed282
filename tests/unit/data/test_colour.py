"""HSV changes against arithmetic on single colours."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.data import colour
from yolo_accum.data.colour import jitter_hsv
from yolo_accum.data.order import keyed_rng


def one_pixel(red: int, green: int, blue: int) -> np.ndarray:
    return np.array([red, green, blue], dtype=np.uint8).reshape(3, 1, 1)


class Drawn:
    """In place of a generator: what is drawn."""

    def __init__(self, *values: float) -> None:
        self._values = values

    def uniform(self, low: float, high: float, size: int) -> np.ndarray:
        assert size == len(self._values)
        return np.array(self._values)


def test_without_gains_the_picture_stays_what_it_is() -> None:
    planes = one_pixel(10, 200, 30)
    jitter_hsv(planes, keyed_rng(0, 0, 0, 3), AugmentConfig(hsv_h=0, hsv_s=0, hsv_v=0))
    assert planes.ravel().tolist() == [10, 200, 30]


@pytest.mark.parametrize(
    ("hue", "saturation", "value"),
    [
        (0.015, 0.7, 0.4),
        (-0.015, -0.7, 0.4),
        (0.015, 0.7, -0.4),
        (-0.5, -1, -1),
        (0.083, 0, 0),
        (-0.084, 0, 0),
        (0.25, 1, 1),
        (-0.25, 0.2, -0.1),
        (0.5, 0, 0),
        (0.4, -0.3, 0.6),
        (-0.34, 0.9, 0),
        (0, 0.3, 0),
        (0, 0, 0.3),
    ],
)
def test_colours_are_those_of_the_hsv_model(hue: float, saturation: float, value: float) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (3, 20, 30), dtype=np.uint8)
    pixels[:, :5] = pixels[:, :5] // 8 + rng.integers(0, 224, (1, 5, 30), dtype=np.uint8)  # nearly grey
    pixels[:, 5:8] = pixels[:1, 5:8]  # grey
    expected = []
    for rgb in pixels.reshape(3, -1).T / 255:
        h, s, v = colorsys.rgb_to_hsv(*rgb)
        expected.append(
            colorsys.hsv_to_rgb((h + hue) % 1, min(max(s * (1 + saturation), 0), 1), min(v * (1 + value), 1))
        )
    gains = {"hsv_h": 0.5, "hsv_s": 1.0, "hsv_v": 1.0}
    jitter_hsv(pixels, Drawn(2 * hue, saturation, value), AugmentConfig(**gains))  # type: ignore[arg-type]
    error = abs(pixels.reshape(3, -1).T - 255 * np.array(expected))
    # Gains are held in 255ths of the largest one.
    assert error.max() <= (0.51 if saturation == value == 0 else 3.5)
    assert error.mean() < 0.5


def test_a_large_picture_is_the_same_in_strips_as_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    planes = np.random.default_rng(0).integers(0, 256, (3, 33, 20), dtype=np.uint8)
    in_strips = planes.copy()
    jitter_hsv(planes, keyed_rng(0, 0, 0, 3), AugmentConfig())
    monkeypatch.setattr(colour, "STRIP_PIXELS", 7 * 20)
    jitter_hsv(in_strips, keyed_rng(0, 0, 0, 3), AugmentConfig())
    assert np.array_equal(planes, in_strips)


def test_grey_stays_grey_and_black_stays_black() -> None:
    for position in range(8):
        for level in (77, 0):
            planes = one_pixel(level, level, level)
            jitter_hsv(planes, keyed_rng(0, 0, position, 3), AugmentConfig())
            assert len(set(planes.ravel().tolist())) == 1
            assert level or not planes.any()
