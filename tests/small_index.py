"""Data set indexes and detections for tests, from plain lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from yolo_accum.contracts import DetectionIndex, Detections, StringTable

Box = tuple[float, float, float, float]


def make_index(
    objects: Sequence[Sequence[tuple[int, Box]]],
    *,
    num_classes: int = 2,
    crowd: Sequence[Sequence[bool]] | None = None,
    areas_px: Sequence[float] | None = None,
    image_ids: Sequence[int | str] | None = None,
    class_ids: Sequence[int | str] | None = None,
    class_names: Sequence[str] | None = None,
    size_px: tuple[int, int] = (640, 480),
) -> DetectionIndex:
    """An index of pictures of one size: for each image its objects as (label, (left, top, right, bottom))."""
    boxes = np.array([box for image in objects for _, box in image], dtype=np.float64).reshape(-1, 4)
    sides = boxes[:, 2:] - boxes[:, :2]
    flags = [flag for image in crowd for flag in image] if crowd is not None else [False] * len(boxes)
    num_images = len(objects)
    return DetectionIndex(
        source=Path("small.json"),
        image_paths=StringTable([f"/pictures/{row}.jpg" for row in range(num_images)]),
        image_ids=tuple(image_ids) if image_ids is not None else tuple(range(100, 100 + num_images)),
        widths_px=np.full(num_images, size_px[0], dtype=np.int32),
        heights_px=np.full(num_images, size_px[1], dtype=np.int32),
        box_starts=np.concatenate([[0], np.cumsum([len(image) for image in objects])]).astype(np.int64),
        boxes_xyxy_px=boxes,
        labels=np.array([label for image in objects for label, _ in image], dtype=np.int32),
        is_crowd=np.array(flags, dtype=bool),
        areas_px=np.array(areas_px, dtype=np.float64) if areas_px is not None else sides.prod(axis=1),
        class_names=tuple(class_names or (f"class {label}" for label in range(num_classes))),
        class_ids=tuple(class_ids or (10 * (label + 1) for label in range(num_classes))),
    )


def make_detections(image: int, found: Sequence[tuple[int, float, Box]]) -> Detections:
    """Detections of one image from (label, score, (left, top, right, bottom)), as ordered."""
    return Detections(
        boxes_xyxy_px=np.array([box for _, _, box in found], dtype=np.float32).reshape(-1, 4),
        scores=np.array([score for _, score, _ in found], dtype=np.float32),
        labels=np.array([label for label, _, _ in found], dtype=np.int64),
        image_index=image,
    )


def perfect_detections(index: DetectionIndex) -> list[Detections]:
    """Every object found where it is, with falling scores; crowd regions are not detected."""
    result = []
    for image in range(len(index)):
        rows = np.arange(index.num_boxes)[index.rows(image)]
        rows = rows[~index.is_crowd[rows]]
        result.append(
            make_detections(
                image,
                [
                    (int(index.labels[row]), 0.9 - 0.001 * place, tuple(index.boxes_xyxy_px[row]))
                    for place, row in enumerate(rows)
                ],
            )
        )
    return result
