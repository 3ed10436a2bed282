"""Sizes of pictures as a description writes them, against those of the files.

The file is right: a description is often written by hand, or for a picture that was resized afterwards. One
difference has a meaning, though. A tool that does not know EXIF shows a turned photograph as it is stored; then the
size that it writes is that of the stored picture, and so are its boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.data import findings as found
from yolo_accum.data.findings import FindingLog
from yolo_accum.data.images import UnreadableImageError
from yolo_accum.data.picture_size import PictureSize

WrittenSize = tuple[float | None, float | None]
"""Width and height in pixels; None where nothing usable is written."""

MAX_SIDE_PX = 2**30
"""No picture that can be read is wider or higher."""


def written_px(value: Any) -> float | None:
    """A side as written, None where it is missing or says nothing: the picture itself is asked anyway."""
    try:
        side = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return side if 0 < side <= MAX_SIDE_PX else None


def is_pixels(value: Any) -> bool:
    """Whether a value of a JSON is a side as it should be: a whole number from 1 to 2^30, not as text."""
    return type(value) in (int, float) and 1 <= value <= MAX_SIDE_PX and value % 1 == 0


def compare_sizes(
    source: Path,
    names: Sequence[str],
    written: Sequence[WrittenSize],
    sizes: Sequence[PictureSize | UnreadableImageError | None],
    log: FindingLog,
) -> list[int]:
    """Reports pictures of another size than written.

    Returns:
        numbers of the pictures that were described as they are stored, without their EXIF turn.
    """
    differing, stored = [], []
    for image, (name, (width, height), size) in enumerate(zip(names, written, sizes, strict=True)):
        if not isinstance(size, PictureSize) or width is None or height is None:
            continue
        if (width, height) == size[:2]:
            continue
        if size.is_turned and (height, width) == size[:2]:
            stored.append(image)
        else:
            differing.append(f"{name} is {size.width_px} x {size.height_px} px, written {width:g} x {height:g}")
    log.add(found.WRONG_SIZE, source, len(differing), differing)
    log.add(found.STORED_FRAME, source, len(stored), (names[image] for image in stored))
    return stored


def turned_boxes(boxes_xyxy_px: np.ndarray, size: PictureSize) -> np.ndarray:
    """[k, 4] boxes in a picture as it is stored -> the same objects in the picture as it is shown.

    Args:
        boxes_xyxy_px: pixels of the stored picture.
        size: of the shown picture, which an EXIF tag turns by a quarter (orientation 5 to 8).
    """
    left, top, right, bottom = boxes_xyxy_px.T  # stored x runs along the shown y and the other way round
    if size.orientation in (6, 7):
        left_shown, right_shown = size.width_px - bottom, size.width_px - top
    else:
        left_shown, right_shown = top, bottom
    if size.orientation in (7, 8):
        top_shown, bottom_shown = size.height_px - right, size.height_px - left
    else:
        top_shown, bottom_shown = left, right
    return np.stack([left_shown, top_shown, right_shown, bottom_shown], axis=1)
