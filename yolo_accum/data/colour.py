"""Colour changes of training pictures that need OpenCV alone."""

from __future__ import annotations

import cv2
import numpy as np

from yolo_accum.config.schema import AugmentConfig

_HUES = 180
"""OpenCV's 8-bit hue runs over 0..179."""


def jitter_hsv(image: np.ndarray, rng: np.random.Generator, config: AugmentConfig) -> np.ndarray:
    """Turn the hue, scale saturation and brightness of a whole picture.

    Args:
        image: [H, W, 3] uint8, RGB.
        rng: three draws.
    Returns:
        [H, W, 3] uint8; the picture itself when all three gains are 0.
    """
    hue, saturation, value = rng.uniform(-1, 1, size=3) * (config.hsv_h, config.hsv_s, config.hsv_v)
    if hue == saturation == value == 0:
        return image
    levels = np.arange(256)
    # All three channels in one table look-up; hue turns round, the others saturate.
    table = np.stack(
        [
            (levels + round(hue * _HUES)) % _HUES,
            np.minimum(np.rint(levels * (1 + saturation)), 255),
            np.minimum(np.rint(levels * (1 + value)), 255),
        ],
        axis=-1,
    ).astype(np.uint8)
    hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)
    # In place: fresh memory for each step would cost a third more.
    cv2.LUT(hsv, table[None], dst=hsv)
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB, dst=hsv)
