"""Boxes of formats that are read a record at a time, gathered into the columns of a split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.build_index import RawSplit, build_index
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import FindingKind, FindingLog
from yolo_accum.data.picture_size import read_picture_sizes
from yolo_accum.data.written_sizes import WrittenSize

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


class BoxRows:
    """What a reader finds, picture by picture.

    Args:
        source: the file or folder that describes the split.
    """

    def __init__(self, source: Path) -> None:
        self._source = source
        self._image: list[int] = []
        self._box: list[Box] = []
        self._class: list[str] = []
        self._place: list[str] = []
        self._oddities: dict[FindingKind, list[str]] = {}

    def add(self, image: int, class_name: str, box: Box, place: str) -> None:
        """An object of picture number ``image``; ``place`` says where it is written."""
        self._image.append(image)
        self._class.append(class_name)
        self._box.append(box)
        self._place.append(place)

    def note(self, kind: FindingKind, place: str) -> None:
        """Something odd, to be reported with all others of its kind."""
        self._oddities.setdefault(kind, []).append(place)

    @property
    def class_names(self) -> set[str]:
        """Of all objects so far."""
        return set(self._class)

    def index(
        self,
        *,
        paths: Sequence[str | None],
        names: Sequence[str],
        image_ids: Sequence[int | str],
        written_sizes: Sequence[WrittenSize],
        classes: Classes,
        log: FindingLog,
        reference: Classes | None,
    ) -> DetectionIndex:
        """The split; what was noted, and objects of a class that is not among ``classes``, go into ``log``."""
        for kind, places in self._oddities.items():
            log.add(kind, self._source, len(places), places)
        label_of = {name: label for label, name in enumerate(classes.names)}
        labels = np.array([label_of.get(name, -1) for name in self._class], np.int64)
        undeclared = np.flatnonzero(labels < 0).tolist()
        log.add(
            found.UNDECLARED_CLASS,
            self._source,
            len(undeclared),
            (f"{self._place[row]}: {self._class[row]!r}" for row in undeclared),
        )
        kept = np.flatnonzero(labels >= 0)
        sizes = iter(read_picture_sizes([path for path in paths if path is not None]))
        raw = RawSplit(
            source=self._source,
            paths=[path or "" for path in paths],
            image_ids=image_ids,
            names=names,
            sizes=[None if path is None else next(sizes) for path in paths],
            image_of_box=np.array(self._image, np.int64)[kept],
            boxes_xyxy_px=np.array(self._box, np.float64).reshape(-1, 4)[kept],
            labels=labels[kept],
            is_crowd=np.zeros(len(kept), bool),
            areas_px=np.full(len(kept), np.nan),
            place_of_box=lambda box: self._place[int(kept[box])],
            classes=classes,
            written_sizes=written_sizes,
        )
        return build_index(raw, log, reference)


def turned_box(box: Box, degrees: float, pivot: tuple[float, float]) -> Box:
    """The box around a box that is turned clockwise (as seen on the screen) around a point."""
    if not degrees:
        return box
    left, top, right, bottom = box
    x, y = np.array([left, right, right, left]) - pivot[0], np.array([top, top, bottom, bottom]) - pivot[1]
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return enclosing_box(np.stack([pivot[0] + x * cosine - y * sine, pivot[1] + x * sine + y * cosine], axis=1))


def enclosing_box(points: np.ndarray) -> Box:
    """[k, 2] points, k at least 1 -> the box around them."""
    (left, top), (right, bottom) = points.min(0).tolist(), points.max(0).tolist()
    return left, top, right, bottom


def numbered(names: Sequence[str]) -> Classes:
    """Classes of a format that has names alone, numbered from 1 as COCO's are."""
    return Classes(names=tuple(names), ids=tuple(range(1, len(names) + 1)))
