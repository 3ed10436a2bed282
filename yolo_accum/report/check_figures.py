"""What the objects of a split look like, in the numbers that `check` prints and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from yolo_accum.contracts import DetectionIndex
from yolo_accum.report.label_statistics import SIZE_MARKS_PX, label_statistics

SMALLEST_PX = SIZE_MARKS_PX[0]
"""The finest stride of the detectors: an object with a shorter side lies within one cell."""
LEVELS = ((8, 0.0, 64.0), (16, 64.0, 128.0), (32, 128.0, np.inf))
"""Stride of each level of the detectors, and the sizes of objects that are about four to eight of its cells long."""
QUANTILES = {"min": 0.0, "p5": 0.05, "median": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def split_figures(index: DetectionIndex, imgsz: int) -> dict[str, Any]:
    """Counts, sizes and shapes of a split's objects; crowd regions are counted and otherwise left out.

    Args:
        imgsz: side of the square network input in pixels; sizes of objects are as the network sees them.
    """
    statistics = label_statistics(index, imgsz)
    sizes_px, sides_px = statistics.sizes_px, statistics.sides_px
    shorter_px = sides_px.min(axis=1)
    longer_px = np.maximum(index.widths_px, index.heights_px)
    return {
        "source": index.source,
        "images": len(index),
        "images_without_objects": statistics.num_images_without_objects,
        "boxes": int(statistics.boxes_per_class.sum()),
        "crowd_regions": statistics.num_crowd,
        "classes": index.num_classes,
        "classes_with_boxes": int((statistics.boxes_per_class > 0).sum()),
        "boxes_per_class": [
            {"id": number, "name": name, "boxes": int(count)}
            for number, name, count in zip(index.class_ids, index.class_names, statistics.boxes_per_class, strict=True)
        ],
        "boxes_per_image": {"mean": _mean(statistics.boxes_per_image), **_quantiles(statistics.boxes_per_image)},
        "picture_side_px": _quantiles(longer_px),
        "picture_share_of_input": _mean(index.widths_px * index.heights_px.astype(np.float64) / longer_px**2.0),
        "object_size_px": _quantiles(sizes_px),
        "objects_by_size": _by_size(sizes_px),
        "object_shorter_side_px": _quantiles(shorter_px),
        "objects_under_8_px": int((shorter_px < SMALLEST_PX).sum()),
        "size_histogram_px": _histogram(sizes_px),
        "levels": _levels(sides_px, sizes_px),
        "aspect_ratio": _quantiles(sides_px[:, 0] / sides_px[:, 1]),
        "picture_aspect_ratio": _quantiles(index.widths_px / np.maximum(index.heights_px, 1)),
    }


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _quantiles(values: np.ndarray) -> dict[str, float | None]:
    """Named quantiles, all None where there is no value."""
    if not len(values):
        return dict.fromkeys(QUANTILES)
    levels = np.quantile(values, list(QUANTILES.values()))
    return {name: float(level) for name, level in zip(QUANTILES, levels, strict=True)}


def _by_size(sizes_px: np.ndarray) -> Mapping[str, int]:
    """Objects between the marks of the size scale."""
    counts, _ = np.histogram(sizes_px, [0, *SIZE_MARKS_PX, np.inf])
    lows = (0, *SIZE_MARKS_PX)
    names = [f"{low} to {high} px" for low, high in zip(lows, SIZE_MARKS_PX, strict=False)]
    return {name: int(count) for name, count in zip([*names, f"from {lows[-1]} px"], counts, strict=True)}


def _levels(sides_px: np.ndarray, sizes_px: np.ndarray) -> list[dict[str, Any]]:
    """What an anchor would be for each level: the objects in its range of sizes and their typical box."""
    levels = []
    for stride_px, low_px, high_px in LEVELS:
        mine = sides_px[(sizes_px >= low_px) & (sizes_px < high_px)]
        width_px, height_px = np.median(mine, axis=0).tolist() if len(mine) else (None, None)
        levels.append(
            {"stride_px": stride_px, "objects": len(mine), "median_width_px": width_px, "median_height_px": height_px}
        )
    return levels


def _histogram(sizes_px: np.ndarray) -> dict[str, list[float] | list[int]]:
    """Objects in half octaves of their size; edges[i] to edges[i + 1] holds counts[i]."""
    if not len(sizes_px):
        return {"edges": [], "counts": []}
    low, high = np.floor(2 * np.log2(sizes_px.min())), np.floor(2 * np.log2(sizes_px.max())) + 1
    edges = 2 ** (np.arange(low, high + 1) / 2)
    counts, _ = np.histogram(sizes_px, edges)
    return {"edges": edges.tolist(), "counts": counts.tolist()}
