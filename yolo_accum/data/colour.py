"""Colour changes of training pictures that need OpenCV alone."""

from __future__ import annotations

import threading

import cv2
import numpy as np

from yolo_accum.config.schema import AugmentConfig

STRIP_PIXELS = 320 * 640
"""Pixels that are worked on at a time: with the scratch planes they stay in a processor's caches."""

_NUM_SCRATCH = 10
_SECTORS = 6
"""Of the colour circle, 60 degrees each: from one primary or mixture of two to the next."""
_thread = threading.local()


def jitter_hsv(planes: np.ndarray, rng: np.random.Generator, config: AugmentConfig) -> None:
    """Turn the hue, scale saturation and brightness of a whole picture, in place.

    This is the HSV model of ``colorsys``, computed on red, green and blue: turning the hue keeps the largest and the
    smallest of the three and moves the others between them. No picture in HSV is made, so that hue is not rounded to
    OpenCV's two degrees and the time is half of that of conversions there and back.

    Args:
        planes: [3, H, W] uint8, RGB; written to.
        rng: three draws.
    """
    hue, saturation, value = (rng.uniform(-1, 1, size=3) * (config.hsv_h, config.hsv_s, config.hsv_v)).tolist()
    if hue == saturation == value == 0:
        return
    _, height_px, width_px = planes.shape
    num_rows = min(height_px, max(1, STRIP_PIXELS // width_px))
    scratch = _scratch(_NUM_SCRATCH * num_rows * width_px).reshape(_NUM_SCRATCH, num_rows, width_px)
    for start in range(0, height_px, num_rows):
        strip = planes[:, start : start + num_rows]
        work = scratch[:, : strip.shape[1]]
        highest, lowest = _turn_hue(strip, hue * _SECTORS, work)
        _scale(strip, highest, lowest, 1 + saturation, 1 + value, work[2:])


def _scratch(num_bytes: int) -> np.ndarray:
    """Memory of this thread that is used again: fresh pages for each picture would cost a tenth more."""
    memory: np.ndarray | None = getattr(_thread, "memory", None)
    if memory is None or len(memory) < num_bytes:
        _thread.memory = memory = np.empty(num_bytes, dtype=np.uint8)
    return memory[:num_bytes]


def _turn_hue(planes: np.ndarray, sectors: float, scratch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Turn the hue, in place.

    Args:
        planes: [3, H, W] uint8.
        sectors: -3..3.
        scratch: [10, H, W] uint8.
    Returns:
        [H, W] the largest and [H, W] the smallest of the three, which stay what they were: the first two of
        ``scratch``.
    """
    highest, lowest, reach, slack, *changes = scratch
    red, green, blue = planes
    cv2.max(cv2.max(red, green, dst=highest), blue, dst=highest)
    cv2.min(cv2.min(red, green, dst=lowest), blue, dst=lowest)
    whole = round(sectors)
    if whole:
        _turn_whole_sectors(planes, whole, highest, lowest)
    part = sectors - whole
    if part:
        cv2.convertScaleAbs(cv2.subtract(highest, lowest, dst=reach), dst=reach, alpha=abs(part))
        # Round the circle a channel falls as soon as its neighbour is highest, and rises as soon as that is lowest. A
        # neighbour that is still on its way there, but nearer than ``reach``, leaves the rest of ``reach`` to it.
        # (Differences of uint8 end at 0.) At most half a sector is turned, so only one of the two comes up.
        near_highest, near_lowest = cv2.subtract(highest, reach, dst=slack), cv2.add(lowest, reach, dst=reach)
        falls = [cv2.subtract(plane, near_highest, dst=fall) for plane, fall in zip(planes, changes[:3], strict=True)]
        rises = [cv2.subtract(near_lowest, plane, dst=rise) for plane, rise in zip(planes, changes[3:], strict=True)]
        for channel, plane in enumerate(planes):
            neighbour = (channel + (1 if part > 0 else 2)) % 3
            cv2.max(cv2.subtract(plane, falls[neighbour], dst=plane), lowest, dst=plane)
            cv2.min(cv2.add(plane, rises[neighbour], dst=plane), highest, dst=plane)
    return highest, lowest


def _turn_whole_sectors(planes: np.ndarray, whole: int, highest: np.ndarray, lowest: np.ndarray) -> None:
    """Three sectors replace each channel by its complement; two pass it on to the next channel."""
    if whole % 2:
        for plane in planes:
            cv2.add(cv2.subtract(highest, plane, dst=plane), lowest, dst=plane)
        whole -= 3
    if whole:
        planes[...] = np.roll(planes, whole // 2, axis=0)


def _scale(
    planes: np.ndarray, highest: np.ndarray, lowest: np.ndarray, saturation: float, value: float, scratch: np.ndarray
) -> None:
    """Scale saturation and brightness, each up to its maximum, in place.

    With V = ``highest`` and c a channel, both in 0..1, the result is V' - g (V - c), where V' = min(value V, 1) and
    g = min(saturation V' / V, V' / (V - lowest)).

    Args:
        planes: [3, H, W] uint8.
        highest: [H, W] uint8, the largest of the three.
        lowest: [H, W] uint8, the smallest; written to.
        saturation: factor, at least 0.
        value: likewise.
        scratch: at least three times [H, W] uint8.
    """
    if saturation <= 1 and value <= 1:
        for plane in planes:
            cv2.addWeighted(plane, value * saturation, highest, value * (1 - saturation), 0, dst=plane)
        return
    # g in 255ths of the largest one that there can be, where uint8 ends.
    gain, distance, scaled = scratch[:3]
    unit = 255 / (saturation * value)
    cv2.convertScaleAbs(highest, dst=scaled, alpha=value)
    if saturation > 1:
        cv2.divide(scaled, cv2.subtract(highest, lowest, dst=distance), dst=gain, scale=unit)
    if value > 1:
        # Less than the largest only where brightness reaches its end.
        light = cv2.divide(scaled, highest, dst=lowest, scale=unit * saturation)
        gain = cv2.min(gain, light, dst=gain) if saturation > 1 else light
    for plane in planes:
        cv2.subtract(highest, plane, dst=distance)
        cv2.multiply(distance, gain, dst=distance, scale=1 / unit)
        cv2.subtract(scaled, distance, dst=plane)
