"""Affine maps of pictures and of their boxes.

A map is [2, 3] float64: ``output = map[:, :2] @ point + map[:, 2]``, points on pixel edges (see contracts). All
geometry of a sample is one such map a picture, so that every pixel is interpolated once.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from yolo_accum.config.schema import AugmentConfig


@dataclass(frozen=True, kw_only=True, eq=False)
class Warp:
    """How a whole network input is turned, zoomed, sheared, shifted and flipped."""

    linear: np.ndarray
    """[2, 2], without the flips."""
    shift_px: np.ndarray
    """[2], of the output's centre."""
    flip_x: bool
    flip_y: bool

    def place(self, scale: float, origin_px: np.ndarray, anchor_px: np.ndarray, size_px: int) -> np.ndarray:
        """The map of one picture.

        Args:
            scale: original pixels to unwarped pixels.
            origin_px: [2], where the original's corner lies unwarped, the warp's fixed point being (0, 0).
            anchor_px: [2], where the fixed point comes to lie in the output before flipping.
            size_px: side of the output.
        Returns:
            [2, 3], original pixels to output pixels.
        """
        affine = np.empty((2, 3))
        affine[:, :2] = self.linear * scale
        affine[:, 2] = self.linear @ origin_px + anchor_px
        for axis, is_flipped in enumerate((self.flip_x, self.flip_y)):
            if is_flipped:  # x -> size - x
                affine[axis] = -affine[axis]
                affine[axis, 2] += size_px
        return affine


def draw_warp(rng: np.random.Generator, config: AugmentConfig, size_px: int, strength: float = 1.0) -> Warp:
    """Draw a warp; always the same number of draws, so that changing one option leaves the rest as it was.

    Args:
        strength: factor on rotation, shear, zoom and shift (not on the flips).
    """
    angle, zoom, shear_x, shear_y, shift_x, shift_y = rng.uniform(-strength, strength, size=6)
    chance_x, chance_y = rng.random(2)
    radians = np.deg2rad(config.degrees * angle)
    cos, sin = np.cos(radians), np.sin(radians)
    shears = np.tan(np.deg2rad(config.shear * np.array([shear_x, shear_y])))
    rotation = np.array([[cos, sin], [-sin, cos]])
    # One shear after the other: the determinant stays 1, no two angles can fold the picture into a line.
    shear = np.array([[1 + shears[0] * shears[1], shears[0]], [shears[1], 1.0]])
    return Warp(
        linear=(1 + config.scale * zoom) * shear @ rotation,
        shift_px=config.translate * size_px * np.array([shift_x, shift_y]),
        flip_x=bool(chance_x < config.fliplr),
        flip_y=bool(chance_y < config.flipud),
    )


def transform_boxes(boxes_xyxy_px: np.ndarray, affine: np.ndarray) -> np.ndarray:
    """The upright boxes that enclose the mapped ones.

    Args:
        boxes_xyxy_px: [N, 4].
        affine: [2, 3].
    Returns:
        [N, 4] float64, not clipped.
    """
    # A linear map of an interval reaches its ends at the interval's ends: min and max part by part.
    low, high = boxes_xyxy_px[:, :2], boxes_xyxy_px[:, 2:]
    positive, negative = np.maximum(affine[:, :2], 0).T, np.minimum(affine[:, :2], 0).T
    return np.hstack([low @ positive + high @ negative + affine[:, 2], high @ positive + low @ negative + affine[:, 2]])


def visible_boxes(
    boxes_xyxy_px: np.ndarray, size_px: int, min_visible: float, min_sides_px: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Clip boxes to a square and choose the ones worth training on.

    Args:
        boxes_xyxy_px: [N, 4], before clipping.
        min_visible: smallest share of a box's area that has to be left.
        min_sides_px: [N, 2], smallest width and height that have to be left.
    Returns:
        [N, 4] float32, clipped, and [N] bool, the chosen ones: all of these have a positive size in float32.
    """
    clipped = boxes_xyxy_px.clip(0, size_px)
    sides = clipped[:, 2:] - clipped[:, :2]
    areas = (boxes_xyxy_px[:, 2:] - boxes_xyxy_px[:, :2]).prod(axis=1)
    rounded = clipped.astype(np.float32)
    # The rounding of the maps must not drop a box whose side is exactly the smallest one.
    keep = (sides >= min_sides_px - 1e-6).all(axis=1) & (sides.prod(axis=1) >= min_visible * areas * (1 - 1e-9))
    keep &= (rounded[:, 2:] > rounded[:, :2]).all(axis=1)
    return rounded, keep


def paste(canvas: np.ndarray, image: np.ndarray, affine: np.ndarray) -> None:
    """Draw a mapped picture into an output, touching no other pixel.

    Args:
        canvas: [S, S, 3] uint8, written to.
        image: [h, w, 3] uint8.
        affine: [2, 3], picture pixels to canvas pixels.
    """
    height_px, width_px = image.shape[:2]
    corners = np.array([[0, 0], [width_px, 0], [width_px, height_px], [0, height_px]]) @ affine[:, :2].T + affine[:, 2]
    # A pixel belongs to the picture when its centre does; two pictures with a common edge then share no pixel.
    left, top = np.maximum(np.ceil(corners.min(axis=0) - 0.5), 0).astype(int)
    right, bottom = np.minimum(np.ceil(corners.max(axis=0) - 0.5), canvas.shape[1::-1]).astype(int)
    if right <= left or bottom <= top:
        return
    region = canvas[top:bottom, left:right]
    # OpenCV counts from pixel centres: shift by half a pixel on either side, and by the region's corner.
    centred = affine.copy()
    centred[:, 2] += affine[:, :2].sum(axis=1) / 2 - 0.5 - (left, top)
    shape = (right - left, bottom - top)
    is_upright = affine[0, 1] == 0 and affine[1, 0] == 0
    # An upright picture covers its region wholly and is drawn in place.
    target = region if is_upright else None
    warped = cv2.warpAffine(image, centred, shape, dst=target, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    if not is_upright:
        mask = np.zeros(shape[::-1], dtype=np.uint8)
        fixed_point_bits = 8
        outline = np.rint((corners - (left + 0.5, top + 0.5)) * (1 << fixed_point_bits)).astype(np.int32)
        cv2.fillConvexPoly(mask, outline, 255, shift=fixed_point_bits)
        cv2.copyTo(warped, mask, region)
