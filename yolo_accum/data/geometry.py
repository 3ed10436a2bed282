"""Affine maps of pictures and of their boxes.

A map is [2, 3] float64: ``output = map[:, :2] @ point + map[:, 2]``, points on pixel edges (see contracts). All
geometry of a sample is one such map a picture, so that every pixel is interpolated once; flips only move pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np

from yolo_accum.config.schema import AugmentConfig

MIN_RESIZED_PX = 32
"""A part of a picture whose sides are shorter, before or after, is warped: whole pixels would distort it visibly."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Warp:
    """How a whole network input is turned, zoomed, sheared, shifted and flipped."""

    linear: np.ndarray
    """[2, 2], without the flips."""
    shift_px: np.ndarray
    """[2], of the output's centre."""
    flip_x: bool
    """Whether the finished output is mirrored, left to right."""
    flip_y: bool

    def place(self, scale: float, origin_px: Sequence[float], anchor_px: Sequence[float]) -> np.ndarray:
        """The map of one picture, before the flips.

        Args:
            scale: original pixels to unwarped pixels.
            origin_px: [2], where the original's corner lies unwarped, the warp's fixed point being (0, 0).
            anchor_px: [2], where the fixed point comes to lie in the output.
        Returns:
            [2, 3], original pixels to output pixels.
        """
        # Plain numbers: for so few of them numpy takes five times as long.
        (x_x, x_y), (y_x, y_y) = self.linear.tolist()
        (x, y), (anchor_x, anchor_y) = origin_px, anchor_px
        return np.array(
            [
                [x_x * scale, x_y * scale, x_x * x + x_y * y + anchor_x],
                [y_x * scale, y_y * scale, y_x * x + y_y * y + anchor_y],
            ]
        )


def draw_warp(rng: np.random.Generator, config: AugmentConfig, size_px: int, strength: float = 1.0) -> Warp:
    """Draw a warp; always the same number of draws, so that changing one option leaves the rest as it was.

    Args:
        strength: factor on rotation, shear, zoom and shift (not on the flips).
    """
    angle, zoom, *shears, shift_x, shift_y = rng.uniform(-strength, strength, size=6).tolist()
    chance_x, chance_y = rng.random(2).tolist()
    cos, sin = math.cos(math.radians(config.degrees * angle)), math.sin(math.radians(config.degrees * angle))
    tan_x, tan_y = (math.tan(math.radians(config.shear * shear)) for shear in shears)
    rotation = np.array([[cos, sin], [-sin, cos]])
    # One shear after the other: the determinant stays 1, no two angles can fold the picture into a line.
    shear = np.array([[1 + tan_x * tan_y, tan_x], [tan_y, 1.0]])
    return Warp(
        linear=(1 + config.scale * zoom) * shear @ rotation,
        shift_px=config.translate * size_px * np.array([shift_x, shift_y]),
        flip_x=chance_x < config.fliplr,
        flip_y=chance_y < config.flipud,
    )


def transform_boxes(boxes_xyxy_px: np.ndarray, affine: np.ndarray) -> np.ndarray:
    """The upright boxes that enclose the mapped ones.

    Args:
        boxes_xyxy_px: [N, 4].
        affine: [2, 3], or [N, 2, 3], one for each box.
    Returns:
        [N, 4] float64, not clipped.
    """
    # A linear map of an interval reaches its ends at the interval's ends: min and max part by part.
    low, high = boxes_xyxy_px[:, None, :2], boxes_xyxy_px[:, None, 2:]
    linear, shift = affine[..., :2], affine[..., 2]
    from_low, from_high = linear * low, linear * high
    ends = np.empty((len(boxes_xyxy_px), 4))
    np.add(np.minimum(from_low, from_high).sum(axis=2), shift, out=ends[:, :2])
    np.add(np.maximum(from_low, from_high).sum(axis=2), shift, out=ends[:, 2:])
    return ends


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


def mirror(image: np.ndarray, flip_x: bool, flip_y: bool) -> np.ndarray:
    """A picture flipped left to right, upside down, or both.

    Args:
        image: [H, W, 3] uint8; written to, or returned as it is.
    """
    if not flip_x:
        return cv2.flip(image, 0, dst=image) if flip_y else image
    # OpenCV turns rows of single bytes with vector instructions, but not those of three: a seventh of the time.
    planes = cv2.split(image)
    mirror_planes(planes, flip_x, flip_y)
    return cv2.merge(planes, dst=image)


def mirror_planes(planes: Iterable[np.ndarray], flip_x: bool, flip_y: bool) -> None:
    """The same for planes, [H, W] uint8 each, in place."""
    if flip_x or flip_y:
        for plane in planes:
            cv2.flip(plane, int(flip_x) - 2 * int(flip_x and flip_y), dst=plane)


def mirror_boxes(boxes_xyxy_px: np.ndarray, size_px: int, flip_x: bool, flip_y: bool) -> np.ndarray:
    """[N, 4] boxes of a square picture after ``mirror``."""
    for axis, is_flipped in enumerate((flip_x, flip_y)):
        if is_flipped:
            boxes_xyxy_px = boxes_xyxy_px.copy()
            boxes_xyxy_px[:, [axis, axis + 2]] = size_px - boxes_xyxy_px[:, [axis + 2, axis]]
    return boxes_xyxy_px


def paste(canvas: np.ndarray, image: np.ndarray, affine: np.ndarray) -> np.ndarray:
    """Draw a mapped picture into an output, touching no other pixel.

    A picture that is neither turned nor sheared nor flipped is resized, which takes a quarter of a warp's time. That
    needs whole pixels on either side, so the part in view is moved and stretched by up to half a pixel at its edges.

    Args:
        canvas: [S, S, 3] uint8, written to.
        image: [h, w, 3] uint8.
        affine: [2, 3], picture pixels to canvas pixels.
    Returns:
        [2, 3], the map by which the picture was drawn: boxes have to be mapped by this one.
    """
    (scale_x, turn_x, shift_x), (turn_y, scale_y, shift_y) = affine.tolist()
    if turn_x == turn_y == 0 and scale_x > 0 and scale_y > 0:
        x = _part_in_view(scale_x, shift_x, image.shape[1], canvas.shape[1])
        y = _part_in_view(scale_y, shift_y, image.shape[0], canvas.shape[0])
        if x.is_resizable and y.is_resizable:
            target = canvas[y.low : y.high, x.low : x.high]
            source = image[y.first : y.last, x.first : x.last]
            cv2.resize(source, (x.high - x.low, y.high - y.low), dst=target, interpolation=cv2.INTER_LINEAR)
            return np.array([[x.scale, 0, x.low - x.scale * x.first], [0, y.scale, y.low - y.scale * y.first]])
    _warp(canvas, image, affine)
    return affine


class _Part(NamedTuple):
    """Along one axis, the pixels ``first..last`` of a picture that are shown at ``low..high`` of the output."""

    low: int
    high: int
    first: int
    last: int

    @property
    def scale(self) -> float:
        return (self.high - self.low) / (self.last - self.first)

    @property
    def is_resizable(self) -> bool:
        return min(self.high - self.low, self.last - self.first) >= MIN_RESIZED_PX


def _part_in_view(scale: float, shift_px: float, num_source_px: int, num_target_px: int) -> _Part:
    """The part of ``output = scale * point + shift`` that lies in the output, on both sides in whole pixels."""
    # A pixel belongs to the picture when its centre does; two pictures with a common edge then share no pixel.
    low, high = math.ceil(shift_px - 0.5), math.ceil(scale * num_source_px + shift_px - 0.5)
    first, last = 0, num_source_px
    if low < 0:
        low, first = 0, round(-shift_px / scale)
    if high > num_target_px:
        high, last = num_target_px, round((num_target_px - shift_px) / scale)
    return _Part(low, high, first, last)


def _warp(canvas: np.ndarray, image: np.ndarray, affine: np.ndarray) -> None:
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
