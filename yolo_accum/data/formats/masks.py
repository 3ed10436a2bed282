"""The enclosing box of a COCO segmentation: polygons, run lengths in plain or compressed form."""

from __future__ import annotations

from typing import Any

import numpy as np


def mask_box(segmentation: Any) -> tuple[float, float, float, float]:
    """Left, top, right, bottom in pixels of what a segmentation covers.

    Args:
        segmentation: a list of polygons [x1, y1, x2, y2, ...], one such polygon, or {"size": [height, width],
            "counts": run lengths as a list or in COCO's compressed text}.
    Raises:
        ValueError: it is none of these, or covers nothing.
    """
    if isinstance(segmentation, dict):
        return _run_length_box(segmentation)
    if isinstance(segmentation, list) and segmentation:
        polygons = segmentation if isinstance(segmentation[0], list) else [segmentation]
        return _polygon_box(polygons)
    raise ValueError("a mask is a list of polygons or an object with size and counts")


def _polygon_box(polygons: list[Any]) -> tuple[float, float, float, float]:
    try:
        points = np.concatenate([np.asarray(polygon, np.float64).reshape(-1, 2) for polygon in polygons])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError("a polygon is a list of numbers x1, y1, x2, y2, ...") from error
    if not len(points):
        raise ValueError("the polygons have no points")
    (left, top), (right, bottom) = points.min(0).tolist(), points.max(0).tolist()
    return left, top, right, bottom


def _run_length_box(mask: dict[str, Any]) -> tuple[float, float, float, float]:
    try:
        height, width = (int(side) for side in mask["size"])
        counts = mask["counts"]
        runs = np.array(_decompress(counts) if isinstance(counts, str) else counts, np.int64).reshape(-1)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError("a run-length mask has size [height, width] and counts") from error
    ends = np.cumsum(runs)
    if height < 1 or (runs < 0).any() or not len(runs) or ends[-1] != height * width:
        raise ValueError("the run lengths do not add up to height times width")
    # Runs go down the columns, background first.
    starts, ends = (ends - runs)[1::2], ends[1::2]
    starts, ends = starts[ends > starts], ends[ends > starts]
    if not len(starts):
        raise ValueError("the mask is empty")
    first_column, last_column = starts // height, (ends - 1) // height
    spans = last_column > first_column  # such a run covers a bottom and a top, so the whole height is in the box
    top = np.where(spans, 0, starts % height).min()
    bottom = np.where(spans, height, (ends - 1) % height + 1).max()
    return float(first_column.min()), float(top), float(last_column.max() + 1), float(bottom)


def _decompress(text: str) -> list[int]:
    """COCO's compressed counts: 5 bits a character, least significant first, each from the third on as a difference.

    Source: the mask format of the COCO API (Lin et al. 2014, arXiv:1405.0312).
    """
    runs: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64:
            raise ValueError(f"{character!r} is no character of compressed counts")
        value |= (bits & 0x1F) << shift
        shift += 5
        if not bits & 0x20:
            if bits & 0x10:  # the sign
                value -= 1 << shift
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    if shift:
        raise ValueError("the compressed counts end in the middle of a number")
    return runs
