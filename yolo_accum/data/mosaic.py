"""Mosaics and single pictures as training scenes, each picture warped once, straight to its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.contracts import PAD_VALUE
from yolo_accum.data.geometry import Warp, mirror, mirror_boxes, paste, transform_boxes, visible_boxes

NUM_TILES = 4

_TILE_CORNERS = ((-1, -1), (0, -1), (-1, 0), (0, 0))
"""[4, 2]: where a tile's left top corner lies from the common corner, in sides of the tile."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """A training picture with its boxes, both before any augmentation."""

    image: np.ndarray | None
    """[h, w, 3] uint8, RGB, of any size (the whole picture is meant); None where it could not be read."""
    width_px: int
    """Of the original, the unit of the boxes."""
    height_px: int
    boxes_xyxy_px: np.ndarray
    """[N, 4] float64."""
    labels: np.ndarray
    """[N]."""

    @property
    def size_px(self) -> np.ndarray:
        """[2]: width and height of the original."""
        return np.array([self.width_px, self.height_px], dtype=np.float64)

    @property
    def longer_px(self) -> int:
        """Of the original's two sides."""
        return max(self.width_px, self.height_px)


@dataclass(frozen=True, eq=False)
class Scene:
    """What a training sample shows."""

    image: np.ndarray
    """[S, S, 3] uint8, RGB."""
    boxes_xyxy_px: np.ndarray
    """[N, 4] float32."""
    labels: np.ndarray
    """[N] int64."""
    flip_x: bool = False
    """Whether picture and boxes are still to be mirrored, left to right: ``flipped`` does it."""
    flip_y: bool = False


def flipped(scene: Scene) -> Scene:
    """The scene with its flips done; its picture is written to."""
    boxes = mirror_boxes(scene.boxes_xyxy_px, scene.image.shape[0], scene.flip_x, scene.flip_y)
    return Scene(mirror(scene.image, scene.flip_x, scene.flip_y), boxes, scene.labels)


def first_closed_epoch(num_epochs: int, close_mosaic: int) -> int | None:
    """The epoch (0-based) from which on pictures are shown whole: at most half of all epochs; None for never.

    Source: Ge et al. 2021, arXiv:2107.08430, section 2.1.
    """
    num_closed = min(close_mosaic, num_epochs // 2)
    return num_epochs - num_closed if num_closed else None


def mosaic_closed(epoch: int, num_epochs: int, close_mosaic: int) -> bool:
    """Whether an epoch (0-based) is one of the last ones, which show whole pictures."""
    first = first_closed_epoch(num_epochs, close_mosaic)
    return first is not None and epoch >= first


def mosaic_scene(
    pictures: Sequence[Picture], warp: Warp, size_px: int, config: AugmentConfig, rng: np.random.Generator
) -> Scene:
    """Four pictures round a common corner, each at its letterbox scale, warped as a whole.

    Unwarped, the common corner lies anywhere in the middle square of a canvas of twice the side, as in YOLOv4's
    mosaic; that canvas is never made.

    Args:
        pictures: left top, right top, left bottom, right bottom.
        rng: two draws, for the common corner.
    Source: Bochkovskiy et al. 2020, arXiv:2004.10934, section 3.3.
    """
    corner_px = warp.linear @ rng.uniform(-size_px / 2, size_px / 2, size=2) + size_px / 2 + warp.shift_px
    affines = []
    for (tile_x, tile_y), picture in zip(_TILE_CORNERS, pictures, strict=True):
        scale = size_px / picture.longer_px
        origin_px = (tile_x * scale * picture.width_px, tile_y * scale * picture.height_px)
        affines.append(warp.place(scale, origin_px, corner_px.tolist()))
    return _draw(pictures, affines, warp, size_px, config)


def single_scene(picture: Picture, warp: Warp, size_px: int, config: AugmentConfig) -> Scene:
    """One picture, letterboxed at the top left as in evaluation and warped about its own centre."""
    scale = size_px / picture.longer_px
    centre_px = scale * picture.size_px / 2
    affine = warp.place(scale, (-centre_px).tolist(), (centre_px + warp.shift_px).tolist())
    return _draw([picture], [affine], warp, size_px, config)


def blend(scene: Scene, other: Scene, share: float) -> Scene:
    """Both scenes, their flips done, through one another, the first with the given share; all boxes count fully.

    Source: Zhang et al. 2018, arXiv:1710.09412; for detection Zhang et al. 2019, arXiv:1902.04103, section 3.1.
    """
    return Scene(
        cv2.addWeighted(scene.image, share, other.image, 1 - share, 0),
        np.concatenate([scene.boxes_xyxy_px, other.boxes_xyxy_px]),
        np.concatenate([scene.labels, other.labels]),
    )


def _draw(
    pictures: Sequence[Picture], affines: Sequence[np.ndarray], warp: Warp, size_px: int, config: AugmentConfig
) -> Scene:
    """Draw every picture by its map from original to output pixels; flips are left to be done."""
    canvas = np.full((size_px, size_px, 3), PAD_VALUE, dtype=np.uint8)
    shown, maps = [], []
    for picture, affine in zip(pictures, affines, strict=True):
        if picture.image is None:
            continue
        height_px, width_px = picture.image.shape[:2]
        from_original = np.array([width_px / picture.width_px, height_px / picture.height_px, 1.0])
        maps.append(paste(canvas, picture.image, affine / from_original) * from_original)
        shown.append(picture)
    if not shown:
        return Scene(canvas, np.zeros((0, 4), dtype=np.float32), np.zeros(0, dtype=np.int64), warp.flip_x, warp.flip_y)
    counts = [len(picture.labels) for picture in shown]
    boxes = np.concatenate([picture.boxes_xyxy_px for picture in shown])
    # An object that the plain letterbox shows smaller than the limit is a small object, not a cut one: it stays.
    scales = np.repeat([size_px / picture.longer_px for picture in shown], counts)
    min_sides_px = np.minimum((boxes[:, 2:] - boxes[:, :2]) * scales[:, None], config.min_box_px)
    mapped = transform_boxes(boxes, np.repeat(np.array(maps), counts, axis=0))
    boxes, keep = visible_boxes(mapped, size_px, config.min_visible, min_sides_px)
    labels = np.concatenate([picture.labels for picture in shown])[keep]
    return Scene(canvas, boxes[keep], labels.astype(np.int64), warp.flip_x, warp.flip_y)
