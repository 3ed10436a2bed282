"""Sizes of the network input in training: one for all, or one drawn for each window."""

from __future__ import annotations

from yolo_accum.data.order import Stream, keyed_rng

STRIDE_PX = 32
"""Sides of the network input are multiples of this."""


def training_sizes_px(imgsz: int, multi_scale: float) -> range:
    """The sides that may come up: multiples of 32 from (1 - multi_scale) to (1 + multi_scale) times ``imgsz``.

    Args:
        imgsz: pixels, a multiple of 32; always among them.
        multi_scale: share, 0..0.9.
    """
    # Rounded inwards; the tiny number keeps 0.3 * 320 = 96.00000000000001 what it is.
    steps = int(imgsz * multi_scale / STRIDE_PX + 1e-9)
    smallest = max(STRIDE_PX, imgsz - steps * STRIDE_PX)
    return range(smallest, imgsz + steps * STRIDE_PX + 1, STRIDE_PX)


def window_size_px(imgsz: int, multi_scale: float, *, seed: int, epoch: int, position: int) -> int:
    """The side of all images of a window, in pixels.

    It depends on the window's first image alone (its epoch and its place in the order), so that every way of cutting
    the window into micro-batches and over replicas sees the same sizes.
    """
    sizes = training_sizes_px(imgsz, multi_scale)
    if len(sizes) == 1:
        return imgsz
    return int(keyed_rng(seed, epoch, position, Stream.MULTI_SCALE).choice(sizes))
