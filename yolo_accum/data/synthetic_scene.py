"""Draws one picture of the embedded set `shapes`: textured ground, objects of six kinds, what shows of each.

Everything that reaches a pixel is integer arithmetic (fixed-point polygons, 8-bit blending, bit-exact OpenCV
filters), so the pictures do not depend on the vector units of the machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np

CLASS_NAMES = ("disc", "ring", "block", "triangle", "star", "cross")

MAX_OBJECTS = 25
MAX_HIDDEN = 0.5
"""An object of which more than this share is covered or outside the picture is left out of it."""

_CLASS_COLOURS = ((45, 45, 215), (40, 170, 225), (205, 100, 50), (70, 175, 60), (190, 70, 185), (200, 195, 70))
"""Blue, green, red of what each kind mostly looks like: a hint, as colour is in most real data sets."""
_COLOUR_SPREAD = 35
"""Most that a channel of an object's colour differs from that of its kind."""
_ANY_COLOUR_SHARE = 0.06
"""Objects that have any colour at all, so that shape has to be learnt too."""

_FIXED_POINT_BITS = 4
_LOW_CONTRAST_SHARE = 0.03
_MIN_CONTRAST = 110
"""Sum of absolute colour differences between an object and its surroundings; the low-contrast share is exempt."""


@dataclass(frozen=True, eq=False)
class Scene:
    """One drawn picture and what it shows."""

    image: np.ndarray
    """[H, W, 3] uint8, BGR."""
    boxes_xywh_px: np.ndarray
    """[n, 4] int64, around the visible part of each object."""
    labels: np.ndarray
    """[n] int64, 0..5, places in CLASS_NAMES."""
    areas_px: np.ndarray
    """[n] int64, visible pixels."""


@dataclass(frozen=True, eq=False)
class _Object:
    label: int
    alpha: np.ndarray
    """[h, w] uint8, opacity of its patch."""
    left_px: int
    top_px: int


def draw_scene(rng: np.random.Generator) -> Scene:
    """Draws a picture of 256 to 320 px a side with 0 to 25 objects.

    Args:
        rng: source of every draw; the same state gives the same picture.
    """
    width_px, height_px = (int(side) for side in rng.integers(256, 321, 2))
    image = _ground(rng, width_px, height_px)
    objects, visible = _without_hidden(_place_objects(rng, width_px, height_px), width_px, height_px)
    for item in objects:
        _paint(rng, image, item)
    _add_grain(rng, image)

    boxes = [cv2.boundingRect(mask.astype(np.uint8)) for mask in visible]
    return Scene(
        image=image,
        boxes_xywh_px=np.array(boxes, np.int64).reshape(-1, 4),
        labels=np.array([item.label for item in objects], np.int64),
        areas_px=np.array([np.count_nonzero(mask) for mask in visible], np.int64),
    )


def _num_objects(rng: np.random.Generator) -> int:
    """Heavy-tailed: one picture in 25 has none, half have at most 4, a few in a hundred more than 15."""
    if rng.random() < 0.04:
        return 0
    return min(MAX_OBJECTS, 1 + int(math.exp(rng.normal(1.15, 0.95))))


def _place_objects(rng: np.random.Generator, width_px: int, height_px: int) -> list[_Object]:
    num_objects = _num_objects(rng)
    side_px = min(width_px, height_px)
    crowding = max(1.0, num_objects / 6) ** 0.35
    objects = []
    for _ in range(num_objects):
        extent_px = math.exp(rng.normal(math.log(0.19 * side_px), 0.48)) / crowding
        if rng.random() < 0.05:
            extent_px = rng.uniform(9, 17)
        extent_px = min(max(extent_px, 9.0), 0.4 * side_px)
        label = int(rng.integers(len(CLASS_NAMES)))
        alpha = _shape_alpha(rng, label, extent_px)
        patch_height, patch_width = alpha.shape
        # Most objects lie inside; the margin lets some of them be cut by an edge of the picture.
        margin_px = int(0.35 * extent_px) if rng.random() < 0.12 else 0
        left = int(rng.integers(-margin_px, max(width_px - patch_width + margin_px, 0) + 1))
        top = int(rng.integers(-margin_px, max(height_px - patch_height + margin_px, 0) + 1))
        objects.append(_Object(label=label, alpha=alpha, left_px=left, top_px=top))
    return objects


def _without_hidden(objects: list[_Object], width_px: int, height_px: int) -> tuple[list[_Object], list[np.ndarray]]:
    """Objects in drawing order without those that later ones hide, and the visible mask of each."""
    kept: list[_Object] = []
    visible: list[np.ndarray] = []
    covered = np.zeros((height_px, width_px), bool)
    for item in reversed(objects):
        rows, columns, patch = _clip(item, width_px, height_px)
        solid = np.zeros_like(covered)
        solid[rows, columns] = patch >= 128
        mask = solid & ~covered
        full_area = np.count_nonzero(item.alpha >= 128)
        if np.count_nonzero(mask) >= (1 - MAX_HIDDEN) * full_area:
            kept.append(item)
            visible.append(mask)
            covered |= solid
    return kept[::-1], visible[::-1]


def _clip(item: _Object, width_px: int, height_px: int) -> tuple[slice, slice, np.ndarray]:
    """Rows and columns of the picture that the patch covers, and that part of its opacity."""
    height, width = item.alpha.shape
    top, left = max(item.top_px, 0), max(item.left_px, 0)
    bottom, right = min(item.top_px + height, height_px), min(item.left_px + width, width_px)
    patch = item.alpha[top - item.top_px : bottom - item.top_px, left - item.left_px : right - item.left_px]
    return slice(top, bottom), slice(left, right), patch


def _outlines(rng: np.random.Generator, label: int) -> list[np.ndarray]:
    """Contours of one class within the unit circle; the second one, where there is one, is a hole."""

    def around(radii: np.ndarray, phase: float = 0.0) -> np.ndarray:
        angles = [phase + 2 * math.pi * place / len(radii) for place in range(len(radii))]
        return np.array([[r * math.cos(a), r * math.sin(a)] for r, a in zip(radii, angles, strict=True)])

    name = CLASS_NAMES[label]
    if name == "disc":
        return [around(np.ones(48)) * [1, rng.uniform(0.72, 1)]]
    if name == "ring":
        squash = [1, rng.uniform(0.8, 1)]
        return [around(np.ones(48)) * squash, around(np.full(48, rng.uniform(0.5, 0.62))) * squash]
    if name == "block":
        return [around(np.ones(4), math.pi / 4) * [1, rng.uniform(0.55, 1)]]
    if name == "triangle":
        return [around(np.ones(3), -math.pi / 2) * [rng.uniform(0.75, 1.1), 1]]
    if name == "star":
        return [around(np.tile([1, rng.uniform(0.38, 0.46)], 5), -math.pi / 2)]
    arm = rng.uniform(0.24, 0.34)
    quarter = [[arm, -arm], [1, -arm], [1, arm]]
    turns = [np.array([[c, -s], [s, c]]) for c, s in ((1, 0), (0, 1), (-1, 0), (0, -1))]
    return [np.concatenate([np.array(quarter) @ turn.T for turn in turns]) * 0.95]


def _shape_alpha(rng: np.random.Generator, label: int, extent_px: float) -> np.ndarray:
    """[h, w] uint8: opacity of a randomly turned shape of about ``extent_px``, in its tight patch."""
    outlines = _outlines(rng, label)
    angle = rng.uniform(0, 2 * math.pi)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    radius_px = extent_px / 2
    half_px = math.ceil(1.1 * radius_px) + 2
    fixed = [
        np.rint((outline @ turn.T * radius_px + half_px) * (1 << _FIXED_POINT_BITS)).astype(np.int32)
        for outline in outlines
    ]
    alpha = np.zeros((2 * half_px + 1, 2 * half_px + 1), np.uint8)
    cv2.fillPoly(alpha, fixed, 255, cv2.LINE_AA, _FIXED_POINT_BITS)
    left, top, width, height = cv2.boundingRect(alpha)
    return np.ascontiguousarray(alpha[top : top + height, left : left + width])


def _noise(rng: np.random.Generator, width_px: int, height_px: int, cell_px: int) -> np.ndarray:
    """[H, W] uint8: smooth noise with patches of about ``cell_px``."""
    small = rng.integers(0, 256, (height_px // cell_px + 2, width_px // cell_px + 2), np.uint8)
    return cv2.resize(small, (width_px, height_px), interpolation=cv2.INTER_LINEAR_EXACT)


def _blend(first: np.ndarray, second: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """[..., 3] uint8 from first (alpha 0) to second (alpha 255); alpha is [...] uint8."""
    weight = alpha[..., None].astype(np.int32)
    return ((first * (255 - weight) + second * weight + 127) // 255).astype(np.uint8)


def _colour(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(15, 241, 3)


def _ground(rng: np.random.Generator, width_px: int, height_px: int) -> np.ndarray:
    """[H, W, 3] uint8: two related colours mixed by noise of three scales, sometimes with faint lines."""
    base = rng.integers(60, 196) + rng.integers(-28, 29, 3)
    other = np.clip(base + rng.choice([-1, 1], 3) * rng.integers(10, 45, 3), 0, 255)
    weights = rng.multinomial(8, [0.5, 0.3, 0.2])
    cells_px = (int(rng.integers(70, 130)), int(rng.integers(20, 45)), int(rng.integers(5, 11)))
    mix = np.zeros((height_px, width_px), np.int32)
    for weight, cell_px in zip(weights, cells_px, strict=True):
        mix += int(weight) * _noise(rng, width_px, height_px, cell_px)
    image = _blend(base, other, (mix // 8).astype(np.uint8))
    if rng.random() < 0.4:
        lines = image.copy()
        shade = np.clip(base + int(rng.choice([-30, 30])), 0, 255).tolist()
        for _ in range(int(rng.integers(3, 12))):
            points = rng.integers(-40, 361, (2, 2)).tolist()
            cv2.line(lines, points[0], points[1], shade, int(rng.integers(1, 4)), cv2.LINE_AA)
        image = lines
    return image


def _paint(rng: np.random.Generator, image: np.ndarray, item: _Object) -> None:
    """Draws the object into the picture: a fill with some pattern, most often with an outline."""
    height_px, width_px = image.shape[:2]
    rows, columns, alpha = _clip(item, width_px, height_px)
    under = image[rows, columns]
    ground = under.reshape(-1, 3).astype(np.int64).sum(0) // (under.size // 3)
    first = _object_colour(rng, item.label, ground)
    second = np.clip(first + rng.integers(-60, 61, 3), 0, 255)
    height, width = alpha.shape
    pattern = _pattern(rng, width, height)
    fill = _blend(first, second, pattern)
    if rng.random() < 0.5 and min(height, width) > 24:
        # The rim is what erosion takes away; darker or lighter than the fill.
        inner = cv2.erode(alpha, np.ones((3, 3), np.uint8), iterations=1 + min(height, width) // 50)
        rim = np.clip(first + int(rng.choice([-80, 80])), 0, 255)
        fill = _blend(np.broadcast_to(rim, fill.shape), fill, inner)
    image[rows, columns] = _blend(under, fill, alpha)


def _object_colour(rng: np.random.Generator, label: int, ground: np.ndarray) -> np.ndarray:
    """[3] int64: around the colour of its kind, or any colour; in both cases unlike what lies under it."""
    if rng.random() < _LOW_CONTRAST_SHARE:
        return np.clip(ground + rng.choice([-1, 1], 3) * rng.integers(14, 30, 3), 0, 255)
    any_colour = rng.random() < _ANY_COLOUR_SHARE
    while True:
        around = np.array(_CLASS_COLOURS[label]) + rng.integers(-_COLOUR_SPREAD, _COLOUR_SPREAD + 1, 3)
        colour = _colour(rng) if any_colour else np.clip(around, 0, 255)
        if np.abs(colour - ground).sum() >= _MIN_CONTRAST:
            return colour


def _pattern(rng: np.random.Generator, width: int, height: int) -> np.ndarray:
    """[h, w] uint8 that mixes the two colours of a fill: plain, gradient, stripes, checks or speckles."""
    kind = int(rng.integers(5))
    row, column = np.mgrid[0:height, 0:width]
    cell_px = int(rng.integers(3, 9))
    if kind == 0:
        return np.zeros((height, width), np.uint8)
    if kind == 1:
        return (row * 255 // max(height - 1, 1)).astype(np.uint8)
    if kind == 2:
        return ((row + int(rng.integers(-1, 2)) * column) // cell_px % 2 * 255).astype(np.uint8)
    if kind == 3:
        return ((row // cell_px + column // cell_px) % 2 * 255).astype(np.uint8)
    return _noise(rng, width, height, cell_px)


def _add_grain(rng: np.random.Generator, image: np.ndarray) -> None:
    """Sensor noise, in place; one picture in eight is a little out of focus before it."""
    if rng.random() < 0.125:
        image[:] = cv2.GaussianBlur(image, (3, 3), 0)
    strength = int(rng.integers(2, 9))
    grain = rng.integers(-strength, strength + 1, image.shape, np.int16)
    image[:] = np.clip(image + grain, 0, 255).astype(np.uint8)
