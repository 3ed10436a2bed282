"""Small pictures on disk whose objects are rectangles of one colour, and the index that describes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from yolo_accum.contracts import DetectionIndex, StringTable

BACKGROUND = (0, 0, 0)
CLASS_COLOURS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0))
"""RGB of the objects of class 0, 1, 2, 3."""

Object = tuple[int, tuple[int, int, int, int]]
"""Label and (left, top, right, bottom)."""


def draw_picture(size_px: tuple[int, int], objects: Sequence[Object]) -> np.ndarray:
    """[H, W, 3] uint8 RGB: the objects on black."""
    image = np.full((size_px[1], size_px[0], 3), BACKGROUND, dtype=np.uint8)
    for label, (left, top, right, bottom) in objects:
        image[top:bottom, left:right] = CLASS_COLOURS[label]
    return image


def write_picture_index(
    folder: Path,
    pictures: Sequence[tuple[tuple[int, int], Sequence[Object]]],
    *,
    crowd: Sequence[bool] | None = None,
    suffix: str = ".png",
) -> DetectionIndex:
    """Write pictures given as ((width, height), objects) and index them.

    Args:
        crowd: one flag for each object of all pictures.
    """
    paths = [folder / f"{number:03d}{suffix}" for number in range(len(pictures))]
    for path, (size_px, objects) in zip(paths, pictures, strict=True):
        _, encoded = cv2.imencode(suffix, draw_picture(size_px, objects)[..., ::-1])
        path.write_bytes(encoded.tobytes())
    boxes = np.array([box for _, objects in pictures for _, box in objects], dtype=np.float64).reshape(-1, 4)
    return DetectionIndex(
        source=folder / "index.json",
        image_paths=StringTable([str(path) for path in paths]),
        image_ids=tuple(range(len(pictures))),
        widths_px=np.array([size_px[0] for size_px, _ in pictures], dtype=np.int32),
        heights_px=np.array([size_px[1] for size_px, _ in pictures], dtype=np.int32),
        box_starts=np.cumsum([0] + [len(objects) for _, objects in pictures]).astype(np.int64),
        boxes_xyxy_px=boxes,
        labels=np.array([label for _, objects in pictures for label, _ in objects], dtype=np.int32),
        is_crowd=np.array(crowd if crowd is not None else [False] * len(boxes), dtype=bool),
        areas_px=(boxes[:, 2:] - boxes[:, :2]).prod(axis=1),
        class_names=("red", "green", "blue", "yellow"),
        class_ids=(1, 2, 3, 4),
    )


def random_pictures(num_pictures: int, seed: int = 0) -> list[tuple[tuple[int, int], list[Object]]]:
    """Pictures of 40 to 120 px with none to five objects each, at least 3 px long."""
    rng = np.random.default_rng(seed)
    pictures = []
    for _ in range(num_pictures):
        width_px, height_px = (int(side) for side in rng.integers(40, 121, size=2))
        objects: list[Object] = []
        for _ in range(rng.integers(0, 6)):
            left, top = int(rng.integers(0, width_px - 3)), int(rng.integers(0, height_px - 3))
            right, bottom = int(rng.integers(left + 3, width_px + 1)), int(rng.integers(top + 3, height_px + 1))
            objects.append((int(rng.integers(4)), (left, top, right, bottom)))
        pictures.append(((width_px, height_px), objects))
    return pictures


def enclosing_box(mask: np.ndarray) -> tuple[int, int, int, int] | None:
    """(left, top, right, bottom) of the True pixels of [H, W], on pixel edges; None without any."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def is_colour(image: np.ndarray, label: int) -> np.ndarray:
    """[3, H, W] uint8 -> [H, W] bool: pixels that are nearer to a class's colour than to black or padding."""
    colour = np.array(CLASS_COLOURS[label], dtype=bool)
    return ((image > 127) == colour[:, None, None]).all(axis=0)
