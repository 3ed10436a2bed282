"""The annotations of a COCO JSON as columns."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from yolo_accum.data import findings as found
from yolo_accum.data.findings import FindingKind, FindingLog
from yolo_accum.data.formats.json_records import Records
from yolo_accum.data.formats.masks import mask_box
from yolo_accum.errors import UserError

Annotation = dict[str, Any]

CHUNK_RECORDS = 10_000
"""Annotations that are Python objects at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotationTable:
    """b boxes of listed images and declared categories, in the order of the file; see ``RawSplit``."""

    image_of_box: np.ndarray
    boxes_xyxy_px: np.ndarray
    labels: np.ndarray
    is_crowd: np.ndarray
    areas_px: np.ndarray
    place_of_box: Callable[[int], str]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Records:
    """The annotations of a file, with what it takes to speak of them."""

    path: Path
    annotations: Sequence[Annotation]
    names: Sequence[str]
    """File name of each image row."""
    rows: np.ndarray
    """[a] image row of each annotation, -1 for none."""
    log: FindingLog

    def place(self, number: int) -> str:
        record = self.annotations[number]
        called = f"annotation {record['id']}" if "id" in record else f"annotation number {number + 1}"
        return f"{called} of {self.names[self.rows[number]]}" if self.rows[number] >= 0 else called

    def report(self, kind: FindingKind, is_affected: np.ndarray, key: str = "") -> None:
        """Adds a finding; with ``key``, the value found there is shown."""
        numbers = np.flatnonzero(is_affected).tolist()

        def describe(number: int) -> str:
            value = f": {key} {self.annotations[number].get(key)!r:.80}" if key else ""
            return self.place(number) + value

        self.log.add(kind, self.path, len(numbers), (describe(number) for number in numbers))


class _Plain(msgspec.Struct, gc=False):
    """An annotation as nearly all are."""

    image_id: int | str
    category_id: int | str
    bbox: tuple[float, float, float, float]
    id: int | str | None = None
    iscrowd: int = 0
    area: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class _Columns:
    """What k annotations say, and what is odd about each."""

    rows: np.ndarray
    """[k] int64: image row, -1 for none."""
    labels: np.ndarray
    """[k] int64, -1 for none."""
    boxes_xyxy_px: np.ndarray
    """[k, 4] float64."""
    areas_px: np.ndarray
    """[k] float64, nan where there is no number."""
    is_crowd: np.ndarray
    """[k] bool, as all that follow."""
    is_box: np.ndarray
    """Whether there is a box."""
    has_text: np.ndarray
    """Whether a box has numbers written as text."""
    is_from_mask: np.ndarray
    is_bad_mask: np.ndarray
    is_odd_crowd: np.ndarray
    is_odd_area: np.ndarray


def read_annotations(
    path: Path,
    annotations: Sequence[Annotation],
    names: Sequence[str],
    row_of_id: Mapping[int | str, int],
    label_of_id: Mapping[int | str, int],
    log: FindingLog,
) -> AnnotationTable:
    """Reads boxes, or boxes around masks where there are none.

    Args:
        path: the JSON, for messages.
        annotations: its records.
        names: file name of each image row.
        row_of_id: image row by image id.
        label_of_id: label by category id.
        log: takes the findings.
    Raises:
        UserError: an image or category id is neither number nor text.
    """
    columns, ids = _columns(path, annotations, row_of_id, label_of_id)
    records = _Records(path=path, annotations=annotations, names=names, rows=columns.rows, log=log)
    is_listed = columns.rows >= 0
    is_kept = is_listed & (columns.labels >= 0) & columns.is_box
    records.report(found.UNKNOWN_IMAGE, ~is_listed, "image_id")
    records.report(found.UNDECLARED_CLASS, is_listed & (columns.labels < 0), "category_id")
    _report_repeated_ids(path, ids, log)
    records.report(found.NUMBERS_AS_TEXT, is_listed & columns.is_box & columns.has_text, "bbox")
    records.report(found.BOX_FROM_MASK, is_listed & columns.is_from_mask)
    records.report(found.BAD_MASK, is_listed & columns.is_bad_mask, "segmentation")
    records.report(found.BAD_BOX, is_listed & ~columns.is_box & ~columns.is_bad_mask, "bbox")
    records.report(found.ODD_CROWD, is_kept & columns.is_odd_crowd, "iscrowd")
    records.report(found.ODD_AREA, is_kept & columns.is_odd_area, "area")
    kept = np.flatnonzero(is_kept)
    return AnnotationTable(
        image_of_box=columns.rows[kept],
        boxes_xyxy_px=columns.boxes_xyxy_px[kept],
        labels=columns.labels[kept],
        is_crowd=columns.is_crowd[kept],
        areas_px=columns.areas_px[kept],
        place_of_box=lambda box: records.place(int(kept[box])),
    )


def _columns(
    path: Path,
    annotations: Sequence[Annotation],
    row_of_id: Mapping[int | str, int],
    label_of_id: Mapping[int | str, int],
) -> tuple[_Columns, list[np.ndarray | list[Any]]]:
    """All annotations, and their ids in pieces."""
    pieces: list[_Columns] = []
    ids: list[np.ndarray | list[Any]] = []
    for start in range(0, max(1, len(annotations)), CHUNK_RECORDS):
        place = slice(start, start + CHUNK_RECORDS)
        plain = annotations.plain(place, _Plain) if isinstance(annotations, Records) else None
        if plain is not None and {record.iscrowd for record in plain} <= {0, 1}:
            pieces.append(_plain_columns(plain, row_of_id, label_of_id))
            ids.append(_id_column([record.id for record in plain]))
        else:
            chunk = annotations[place]
            rows = _looked_up(path, chunk, "image_id", row_of_id)
            labels = _looked_up(path, chunk, "category_id", label_of_id)
            pieces.append(_odd_columns(chunk, rows, labels))
            ids.append([record["id"] for record in chunk if isinstance(record.get("id"), int | str)])
    joined = {item.name: np.concatenate([getattr(piece, item.name) for piece in pieces]) for item in fields(_Columns)}
    return _Columns(**joined), ids


def _plain_columns(
    records: Sequence[_Plain], row_of_id: Mapping[int | str, int], label_of_id: Mapping[int | str, int]
) -> _Columns:
    num = len(records)
    boxes = np.array([record.bbox for record in records], np.float64).reshape(num, 4)
    with np.errstate(over="ignore"):
        boxes[:, 2:] += boxes[:, :2]
    areas = [np.nan if record.area is None else record.area for record in records]
    none = np.zeros(num, bool)
    return _Columns(
        rows=np.array([row_of_id.get(record.image_id, -1) for record in records], np.int64),
        labels=np.array([label_of_id.get(record.category_id, -1) for record in records], np.int64),
        boxes_xyxy_px=boxes,
        areas_px=np.array(areas, np.float64),
        is_crowd=np.array([record.iscrowd for record in records], bool),
        is_box=np.ones(num, bool),
        has_text=none,
        is_from_mask=none,
        is_bad_mask=none,
        is_odd_crowd=none,
        is_odd_area=none,
    )


def _odd_columns(records: Sequence[Annotation], rows: np.ndarray, labels: np.ndarray) -> _Columns:
    """The same of annotations of which at least one is not plain."""
    num = len(records)
    given: list[Any] = [record.get("bbox") for record in records]
    is_four = np.fromiter((type(box) is list and len(box) == 4 for box in given), bool, num)
    boxes = np.zeros((num, 4))
    boxes[is_four], is_number = _box_values([box for box, four in zip(given, is_four, strict=True) if four])
    with np.errstate(invalid="ignore", over="ignore"):  # infinities are refused where all boxes are checked
        boxes[:, 2:] += boxes[:, :2]
    is_box = is_four.copy()
    is_box[is_four] = is_number

    def holds(kind: type) -> np.ndarray:
        return np.fromiter(
            (four and kind in map(type, box) for box, four in zip(given, is_four, strict=True)), bool, num
        )

    is_box &= ~holds(bool)  # true would otherwise be the number 1
    is_from_mask, is_bad_mask = np.zeros(num, bool), np.zeros(num, bool)
    for number in np.flatnonzero((rows >= 0) & ~is_four).tolist():
        segmentation = records[number].get("segmentation")
        if given[number] or not segmentation:
            continue
        try:
            boxes[number] = mask_box(segmentation)
            is_from_mask[number] = True
        except ValueError:
            is_bad_mask[number] = True
    crowd = [record.get("iscrowd") for record in records]
    written_areas = [record.get("area") for record in records]
    areas_px = _numbers(written_areas)
    is_given = np.fromiter((value is not None for value in written_areas), bool, num)
    return _Columns(
        rows=rows,
        labels=labels,
        boxes_xyxy_px=boxes,
        areas_px=areas_px,
        is_crowd=np.fromiter((value in (1, "1") for value in crowd), bool, num),
        is_box=is_box | is_from_mask,
        has_text=holds(str),
        is_from_mask=is_from_mask,
        is_bad_mask=is_bad_mask,
        is_odd_crowd=np.fromiter((value not in (None, 0, 1, "0", "1") for value in crowd), bool, num),
        is_odd_area=is_given & ~np.isfinite(areas_px),
    )


def _id_column(ids: list[Any]) -> np.ndarray | list[Any]:
    """As numbers where all are, which takes a fifth of the memory."""
    try:
        return np.array(ids, np.int64) if set(map(type, ids)) == {int} else ids
    except OverflowError:
        return ids


def _report_repeated_ids(path: Path, pieces: Sequence[np.ndarray | list[Any]], log: FindingLog) -> None:
    numbers = [piece for piece in pieces if isinstance(piece, np.ndarray)]
    if len(numbers) == len(pieces) and len(np.unique(np.concatenate(numbers))) == sum(map(len, numbers)):
        return
    given = chain.from_iterable(piece.tolist() if isinstance(piece, np.ndarray) else piece for piece in pieces)
    counts = Counter(number for number in given if number is not None)
    repeated = {number: count - 1 for number, count in counts.items() if count > 1}
    log.add(found.REPEATED_ANNOTATION_ID, path, sum(repeated.values()), (f"id {number}" for number in repeated))


def _looked_up(path: Path, annotations: Sequence[Annotation], key: str, table: Mapping[Any, int]) -> np.ndarray:
    """[a] int64: what ``table`` has for each annotation's ``key``, -1 where it has nothing."""
    try:
        return np.fromiter((table.get(record.get(key), -1) for record in annotations), np.int64, len(annotations))
    except TypeError as error:
        culprit = next(record for record in annotations if isinstance(record.get(key), list | dict))
        raise UserError(
            f"{path}: annotation {culprit.get('id')} has the {key} {culprit[key]!r:.80}; a number or text is needed"
        ) from error


def _box_values(given: list[list[Any]]) -> tuple[np.ndarray, np.ndarray]:
    """[k, 4] float64 and [k] whether all four were numbers, or text that reads as one."""
    is_number = np.ones(len(given), bool)
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        values = np.array(given, np.float64)
        if values.shape == (len(given), 4):
            return values, is_number
    # Some box is odd: one by one, to find out which.
    values = np.zeros((len(given), 4))
    for place, box in enumerate(given):
        try:
            values[place] = [float(side) for side in box]
        except (TypeError, ValueError, OverflowError):
            is_number[place] = False
    return values, is_number


def _numbers(values: list[Any]) -> np.ndarray:
    """[n] float64, nan where there is no number."""
    try:
        return np.array(values, np.float64).reshape(len(values))
    except (TypeError, ValueError, OverflowError):
        return np.array([_number(value) for value in values])


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan
