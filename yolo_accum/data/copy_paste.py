"""Objects of one picture pasted into another one, as the rectangles of their boxes."""

from __future__ import annotations

import cv2
import numpy as np

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.data.hiding import pixels_of, visible_shares
from yolo_accum.data.mosaic import Picture, Scene

MAX_PASTED = 3
"""One to so many objects are pasted."""
NUM_PLACES = 5
"""Places that are drawn for each object; it goes where it hides the least of any other one."""
MAX_SIDE = 0.5
"""Longest side of a pasted object, as a share of the picture's side: a larger one is scaled down."""


def paste_objects(scene: Scene, donor: Picture, size_px: int, config: AugmentConfig, rng: np.random.Generator) -> Scene:
    """Paste one to three objects of another picture at random places, flipped and zoomed at random.

    A box of which less than ``min_visible`` is still to be seen afterwards is dropped, and an object that would be
    smaller than ``min_box_px`` is not pasted.

    Args:
        scene: its picture is written to.
        donor: where the objects come from.
        size_px: side of the picture.
        config: ``scale``, ``fliplr``, ``min_visible``, ``min_box_px``.
        rng: decides everything.
    Source: Ghiasi et al. 2021, arXiv:2012.07177 (with masks); for boxes Dwibedi et al. 2017, arXiv:1708.01642.
    """
    if donor.image is None or not len(donor.labels):
        return scene
    boxes, labels = list(scene.boxes_xyxy_px), list(scene.labels)
    layers = np.zeros((size_px, size_px), dtype=np.uint8)
    """Which paste each pixel shows, from 1; 0 is what was there."""
    layer_of_box = [0] * len(boxes)
    count = min(int(rng.integers(1, MAX_PASTED + 1)), len(donor.labels))
    for layer, number in enumerate(rng.choice(len(donor.labels), count, replace=False), start=1):
        zoom, chance = 1 + config.scale * rng.uniform(-1, 1), rng.random()
        places = rng.random((NUM_PLACES, 2))
        patch, box = _patch(donor, int(number), size_px, zoom, flip=chance < config.fliplr)
        if patch is None or (box[2:] - box[:2] < config.min_box_px).any():
            continue
        height_px, width_px = patch.shape[:2]
        corners = np.floor(places * (size_px - width_px + 1, size_px - height_px + 1)).astype(int)
        left, top = min(corners.tolist(), key=lambda corner: _most_hidden(boxes, corner, width_px, height_px))
        scene.image[top : top + height_px, left : left + width_px] = patch
        layers[top : top + height_px, left : left + width_px] = layer
        boxes.append((box + np.tile((left, top), 2)).astype(np.float32))
        labels.append(donor.labels[number])
        layer_of_box.append(layer)
    visible = [visible_shares(box[None], layers > layer)[0] for box, layer in zip(boxes, layer_of_box, strict=True)]
    keep = np.array(visible) >= config.min_visible
    return Scene(
        scene.image,
        np.array(boxes, dtype=np.float32).reshape(-1, 4)[keep],
        np.array(labels, dtype=np.int64)[keep],
    )


def _patch(
    donor: Picture, number: int, size_px: int, zoom: float, *, flip: bool
) -> tuple[np.ndarray | None, np.ndarray]:
    """The pixels of an object at the size at which it is pasted, and its box in them; None where nothing is left."""
    assert donor.image is not None
    box = donor.boxes_xyxy_px[number] * np.tile(donor.image.shape[1::-1] / donor.size_px, 2)
    rows, columns = pixels_of(np.concatenate([np.floor(box[:2]), np.ceil(box[2:])]))
    crop = donor.image[rows, columns]
    if not crop.size:
        return None, box
    scale = size_px / max(donor.image.shape[:2]) * zoom
    scale = min(scale, MAX_SIDE * size_px / max(crop.shape[:2]))
    width_px, height_px = (max(1, round(side * scale)) for side in crop.shape[1::-1])
    patch = cv2.resize(crop, (width_px, height_px), interpolation=cv2.INTER_LINEAR)
    box = (box - np.tile((columns.start, rows.start), 2)) * np.tile(
        (width_px, height_px) / np.array(crop.shape[1::-1]), 2
    )
    if flip:
        return patch[:, ::-1], np.array([width_px - box[2], box[1], width_px - box[0], box[3]])
    return patch, box


def _most_hidden(boxes: list[np.ndarray], corner: list[int], width_px: int, height_px: int) -> float:
    """The largest share of any box that a rectangle at ``corner`` covers; 0 without boxes."""
    if not boxes:
        return 0.0
    table = np.array(boxes, dtype=np.float64)
    low, high = np.array(corner), np.add(corner, (width_px, height_px))
    sides = (np.minimum(table[:, 2:], high) - np.maximum(table[:, :2], low)).clip(0)
    return float((sides.prod(axis=1) / (table[:, 2:] - table[:, :2]).prod(axis=1)).max())
