"""Parts of a picture that something hides, and the boxes that are left of what was there."""

from __future__ import annotations

import numpy as np

from yolo_accum.contracts import PAD_VALUE

MAX_HOLES = 4
"""Cutout hides one to so many rectangles."""
HOLE_SIDES = (0.05, 0.25)
"""Sides of these rectangles, as shares of the picture's side."""


def pixels_of(box_xyxy_px: np.ndarray) -> tuple[slice, slice]:
    """Rows and columns of the pixels whose centres lie in a box, at least one each way."""
    left, top, right, bottom = np.ceil(box_xyxy_px - 0.5).astype(int).tolist()
    return slice(top, max(bottom, top + 1)), slice(left, max(right, left + 1))


def visible_shares(boxes_xyxy_px: np.ndarray, is_hidden: np.ndarray) -> np.ndarray:
    """The share of each box that is not hidden.

    Args:
        boxes_xyxy_px: [N, 4], within the picture.
        is_hidden: [H, W] bool.
    Returns:
        [N] float64 in 0..1.
    """
    return np.array([1.0 - is_hidden[pixels_of(box)].mean() for box in boxes_xyxy_px], dtype=np.float64)


def cut_out(
    image: np.ndarray, boxes_xyxy_px: np.ndarray, min_visible: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Hide one to four rectangles of a picture in grey.

    Args:
        image: [S, S, 3] uint8; not written to.
        boxes_xyxy_px: [N, 4], within the picture.
        min_visible: a box is kept when at least this share of it is still to be seen.
        rng: decides everything; always the same number of draws.
    Returns:
        [S, S, 3] uint8, and [N] bool, the boxes that are kept. A box keeps its size: what is hidden of an object is
        still a part of it.
    Source: DeVries and Taylor 2017, arXiv:1708.04552; Zhong et al. 2017, arXiv:1708.04896, for detection.
    """
    height_px, width_px = image.shape[:2]
    num_holes = int(rng.integers(1, MAX_HOLES + 1))
    centres = rng.random((MAX_HOLES, 2)) * (width_px, height_px)
    sides = rng.uniform(*HOLE_SIDES, size=(MAX_HOLES, 2)) * (width_px, height_px)
    corners = np.concatenate([centres - sides / 2, centres + sides / 2], axis=1)
    corners = corners.clip(0, (width_px, height_px, width_px, height_px))
    is_hidden = np.zeros((height_px, width_px), dtype=bool)
    image = image.copy()
    for hole in corners[:num_holes]:
        pixels = pixels_of(hole)
        is_hidden[pixels] = True
        image[pixels] = PAD_VALUE
    return image, visible_shares(boxes_xyxy_px, is_hidden) >= min_visible
