"""What a data set turned out to hold, against what a case says that it holds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.data.images import read_image
from yolo_accum.data.picture_size import read_picture_size
from yolo_accum.data.written_sizes import turned_boxes

TOLERANCE_PX = 0.05
COLOURS = np.array([(220, 40, 40), (40, 90, 230), (40, 200, 80)], float)
"""RGB in which the cases draw class 0, 1 and 2."""
_MAX_COLOUR_DISTANCE = 70

NamedBox = tuple[str, float, float, float, float]
"""Class name, left, top, right, bottom."""


@dataclass(frozen=True, kw_only=True)
class ReadSplit:
    """One COCO JSON that `convert` wrote."""

    pictures: Mapping[str, Sequence[NamedBox]]
    """By absolute path; crowd regions are not among them."""
    class_names: tuple[str, ...]
    class_ids: tuple[int | str, ...]
    num_crowd: int

    @property
    def num_boxes(self) -> int:
        return sum(map(len, self.pictures.values()))

    def picture(self, name: str) -> str | None:
        """The path of the picture that a case calls ``name``."""
        ends = [path for path in self.pictures if path.endswith("/" + name)]
        return ends[0] if len(ends) == 1 else None


def read_split(path: Path) -> ReadSplit:
    """What `convert` made of a split."""
    content = json.loads(path.read_text(encoding="utf-8"))
    names = {item["id"]: item["name"] for item in content["categories"]}
    path_of_id = {item["id"]: str((path.parent / item["file_name"]).resolve().as_posix()) for item in content["images"]}
    pictures: dict[str, list[NamedBox]] = {place: [] for place in path_of_id.values()}
    num_crowd = 0
    for item in content["annotations"]:
        left, top, width, height = item["bbox"]
        if item["iscrowd"]:
            num_crowd += 1
            continue
        box = (names[item["category_id"]], left, top, left + width, top + height)
        pictures[path_of_id[item["image_id"]]].append(box)
    return ReadSplit(pictures=pictures, class_names=tuple(names.values()), class_ids=tuple(names), num_crowd=num_crowd)


def wrong_boxes(
    split: ReadSplit, expected: Mapping[str, Sequence[Sequence[Any]]], classes: Sequence[str], expect: Mapping[str, Any]
) -> Iterator[str]:
    """What is wrong with the boxes of the pictures that a case lists."""
    tolerance_px = float(expect.get("tolerance_px", TOLERANCE_PX))
    for name, boxes in expected.items():
        path = split.picture(name)
        if path is None:
            yield f"{name} is not among the pictures"
            continue
        wanted: list[NamedBox] = [
            (_class_name(label, classes), float(left), float(top), float(right), float(bottom))
            for label, left, top, right, bottom in boxes
        ]
        if expect.get("frame") == "stored":
            wanted = _as_shown(wanted, path)
        if not _same(wanted, split.pictures[path], tolerance_px):
            yield f"{name} has the boxes {list(split.pictures[path])}, expected {wanted}"


def _class_name(label: Any, classes: Sequence[str]) -> str:
    return classes[label] if isinstance(label, int) else str(label)


def _as_shown(boxes: Sequence[NamedBox], path: str) -> list[NamedBox]:
    size = read_picture_size(path)
    if not size.is_turned or not boxes:
        return list(boxes)
    turned = turned_boxes(np.array([box[1:] for box in boxes], float), size).tolist()
    return [(box[0], *sides) for box, sides in zip(boxes, turned, strict=True)]


def _same(wanted: Sequence[NamedBox], found: Sequence[NamedBox], tolerance_px: float) -> bool:
    """Whether both are the same boxes in any order."""
    left = list(found)
    for box in wanted:
        near = (
            other
            for other in left
            if other[0] == box[0] and all(abs(a - b) <= tolerance_px for a, b in zip(box[1:], other[1:], strict=True))
        )
        match = next(near, None)
        if match is None:
            return False
        left.remove(match)
    return not left


def wrong_pixels(split: ReadSplit, case: Mapping[str, Any], classes: Sequence[str]) -> Iterator[str]:
    """Boxes that do not lie on a rectangle of their class's colour in the picture as the product reads it."""
    expect = case.get("expect") or {}
    skipped = {*case.get("skip_pixel_check", ()), *expect.get("luminance_only", ())}
    for name in expect.get("boxes") or {}:
        path = split.picture(name)
        if path is None or name in skipped:
            continue
        image = read_image(path).astype(float)
        for class_name, *sides in split.pictures[path]:
            left, top, right, bottom = _inner(sides)
            if class_name not in classes[: len(COLOURS)] or right <= left or bottom <= top:
                continue
            mean = image[top:bottom, left:right].reshape(-1, 3).mean(0)
            if np.abs(mean - COLOURS[classes.index(class_name)]).max() >= _MAX_COLOUR_DISTANCE:
                yield f"{name}: the pixels in {sides} are {mean.round().tolist()}, not those of {class_name}"


def lowest_contrast(split: ReadSplit, names: Sequence[str]) -> float:
    """Of all boxes of these pictures: difference in grey to the middle of the picture's greys, 0..255."""
    contrasts = [255.0]
    for path in filter(None, map(split.picture, names)):
        grey = read_image(path).astype(float).mean(2)
        for _, *sides in split.pictures[path]:
            left, top, right, bottom = _inner(sides)
            contrasts.append(abs(grey[top:bottom, left:right].mean() - float(np.median(grey))))
    return min(contrasts)


def _inner(sides: Sequence[float]) -> tuple[int, int, int, int]:
    """Whole pixels of a box, without the rim that a lossy format blurs where the box is large enough."""
    left, top = math.ceil(sides[0]), math.ceil(sides[1])
    right, bottom = math.floor(sides[2]), math.floor(sides[3])
    rim = 2 if right - left > 4 and bottom - top > 4 else 0
    return left + rim, top + rim, right - rim, bottom - rim
