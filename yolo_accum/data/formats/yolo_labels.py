"""The rows of YOLO label files as columns."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from yolo_accum.data import findings as found
from yolo_accum.data.findings import FindingKind, FindingLog
from yolo_accum.errors import UserError

_BOX_COLUMNS = 5
_MIN_OUTLINE_COLUMNS = 7
"""A class and three points."""

_LOWEST, _HIGHEST = -0.5, 1.5
"""Edges beyond these are taken for pixels: nobody labels an object that is half a picture outside."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelRows:
    """b boxes, in the order of the pictures and of the lines."""

    image_of_box: np.ndarray
    """[b] int64."""
    labels: np.ndarray
    """[b] int64, 0..c-1."""
    boxes_xyxy_norm: np.ndarray
    """[b, 4] float64, fractions of the picture's size; may hold values that are no finite numbers."""
    place_of_box: Callable[[int], str]


def read_labels(source: Path, paths: Sequence[str | None], num_classes: int, log: FindingLog) -> LabelRows:
    """Reads the label file of each picture, None for a picture without one.

    Every row is read by its own length: five columns are a box, an odd number of seven or more an outline, of which
    the enclosing box is taken.

    Args:
        source: the data YAML; files are named relative to its folder.
        paths: n label files.
        num_classes: the classes are 0 to this less one.
        log: takes the findings.
    Raises:
        UserError: a file cannot be read.
    """
    images: list[int] = []
    lines: list[int] = []
    texts: list[str] = []
    fields: list[str | float] = []
    is_outline: list[bool] = []
    for image, path in enumerate(paths):
        for number, text in enumerate(_lines(path), 1):
            columns: Sequence[str | float] = text.split()
            if not columns:
                continue
            outline = len(columns) != _BOX_COLUMNS
            if outline:
                columns = _box_of_outline(columns)
            images.append(image)
            lines.append(number)
            texts.append(text)
            fields += columns
            is_outline.append(outline)

    values, is_good = _values(fields)
    label = np.where(np.isfinite(values[:, 0]), values[:, 0], -0.5)
    is_good &= label == np.floor(label)
    with np.errstate(invalid="ignore"):  # infinities are refused where the boxes of all formats are checked
        half = values[:, 3:] / 2
        corners = np.concatenate([values[:, 1:3] - half, values[:, 1:3] + half], axis=1)
    is_in_pixels = is_good & ((corners < _LOWEST) | (corners > _HIGHEST)).any(1)
    is_declared = (label >= 0) & (label < num_classes)

    def place(row: int) -> str:
        path = paths[images[row]]
        assert path is not None
        return f"{os.path.relpath(path, source.parent)} line {lines[row]}"

    def show(row: int) -> str:
        return f"{place(row)} with {len(texts[row].split())} columns: {texts[row].strip()!r:.60}"

    def report(kind: FindingKind, affected: np.ndarray, describe: Callable[[int], str], note: str = "") -> None:
        rows = np.flatnonzero(affected).tolist()
        log.add(kind, source, len(rows), map(describe, rows), note)

    report(found.BAD_ROW, ~is_good, show)
    report(found.NOT_FRACTIONS, is_in_pixels, show)
    report(found.CLASS_OUT_OF_RANGE, is_good & ~is_declared, show, f"the classes are 0 to {num_classes - 1}")
    report(found.POLYGON_ROW, is_good & np.array(is_outline, bool), place)
    kept = np.flatnonzero(is_good & is_declared & ~is_in_pixels)
    return LabelRows(
        image_of_box=np.array(images, np.int64)[kept],
        labels=label[kept].astype(np.int64),
        boxes_xyxy_norm=corners[kept],
        place_of_box=lambda box: place(int(kept[box])),
    )


def _lines(path: str | None) -> list[str]:
    if path is None:
        return []
    try:
        return Path(path).read_bytes().decode("utf-8-sig", "replace").splitlines()
    except OSError as error:
        raise UserError(f"the label file {path} cannot be read: {error.strerror or error}") from error


def _box_of_outline(columns: Sequence[str | float]) -> list[str | float]:
    """Class, centre and size of the box around an outline; five fields that are no numbers where it is none."""
    if len(columns) >= _MIN_OUTLINE_COLUMNS and len(columns) % 2 == 1:
        try:
            points = np.array(columns[1:], np.float64).reshape(-1, 2)
        except ValueError:
            points = None
        if points is not None:
            low, high = points.min(0), points.max(0)
            return [columns[0], *((low + high) / 2).tolist(), *(high - low).tolist()]
    return ["?"] * _BOX_COLUMNS


def _values(fields: list[str | float]) -> tuple[np.ndarray, np.ndarray]:
    """[b, 5] float64 and [b] whether all five were numbers."""
    num_rows = len(fields) // _BOX_COLUMNS
    is_good = np.ones(num_rows, bool)
    with contextlib.suppress(ValueError):
        return np.array(fields, np.float64).reshape(num_rows, _BOX_COLUMNS), is_good
    # Some field is no number: row by row, to find out which.
    values = np.zeros((num_rows, _BOX_COLUMNS))
    for row in range(num_rows):
        try:
            values[row] = [float(field) for field in fields[_BOX_COLUMNS * row : _BOX_COLUMNS * (row + 1)]]
        except ValueError:
            is_good[row] = False
    return values, is_good
