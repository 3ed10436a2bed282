"""The annotations of a COCO JSON as columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.data import findings as found
from yolo_accum.data.findings import FindingKind, FindingLog
from yolo_accum.data.formats.masks import mask_box
from yolo_accum.errors import UserError

Annotation = dict[str, Any]


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

    def column(self, key: str) -> list[Any]:
        return [record.get(key) for record in self.annotations]

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
    rows = _looked_up(path, annotations, "image_id", row_of_id)
    labels = _looked_up(path, annotations, "category_id", label_of_id)
    records = _Records(path=path, annotations=annotations, names=names, rows=rows, log=log)
    is_listed = rows >= 0
    records.report(found.UNKNOWN_IMAGE, ~is_listed, "image_id")
    records.report(found.UNDECLARED_CLASS, is_listed & (labels < 0), "category_id")
    _report_repeated_ids(records)

    boxes, is_box = _boxes(records)
    kept = np.flatnonzero(is_listed & (labels >= 0) & is_box)
    kept_rows = np.zeros(len(annotations), bool)
    kept_rows[kept] = True
    crowd = records.column("iscrowd")
    is_crowd = np.fromiter((value in (1, "1") for value in crowd), bool, len(annotations))
    is_odd = np.fromiter((value not in (None, 0, 1, "0", "1") for value in crowd), bool, len(annotations))
    records.report(found.ODD_CROWD, kept_rows & is_odd, "iscrowd")
    written_areas = records.column("area")
    areas_px = _numbers(written_areas)
    is_given = np.fromiter((value is not None for value in written_areas), bool, len(annotations))
    records.report(found.ODD_AREA, kept_rows & is_given & ~np.isfinite(areas_px), "area")
    return AnnotationTable(
        image_of_box=rows[kept],
        boxes_xyxy_px=boxes[kept],
        labels=labels[kept],
        is_crowd=is_crowd[kept],
        areas_px=areas_px[kept],
        place_of_box=lambda box: records.place(int(kept[box])),
    )


def _looked_up(path: Path, annotations: Sequence[Annotation], key: str, table: Mapping[Any, int]) -> np.ndarray:
    """[a] int64: what ``table`` has for each annotation's ``key``, -1 where it has nothing."""
    try:
        return np.fromiter((table.get(record.get(key), -1) for record in annotations), np.int64, len(annotations))
    except TypeError as error:
        culprit = next(record for record in annotations if isinstance(record.get(key), list | dict))
        raise UserError(
            f"{path}: annotation {culprit.get('id')} has the {key} {culprit[key]!r:.80}; a number or text is needed"
        ) from error


def _report_repeated_ids(records: _Records) -> None:
    ids = [number for number in records.column("id") if isinstance(number, int | str)]
    repeated = {number: count - 1 for number, count in Counter(ids).items() if count > 1}
    num_repeats = sum(repeated.values())
    records.log.add(found.REPEATED_ANNOTATION_ID, records.path, num_repeats, (f"id {number}" for number in repeated))


def _boxes(records: _Records) -> tuple[np.ndarray, np.ndarray]:
    """[a, 4] xyxy and [a] whether there is one; what is wrong with the others is reported."""
    given = records.column("bbox")
    num = len(given)
    is_listed = records.rows >= 0
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
    has_text = holds(str)
    records.report(found.NUMBERS_AS_TEXT, is_listed & is_box & has_text, "bbox")

    is_from_mask, is_bad_mask = np.zeros(num, bool), np.zeros(num, bool)
    for number in np.flatnonzero(is_listed & ~is_four).tolist():
        segmentation = records.annotations[number].get("segmentation")
        if given[number] or not segmentation:
            continue
        try:
            boxes[number] = mask_box(segmentation)
            is_from_mask[number] = True
        except ValueError:
            is_bad_mask[number] = True
    records.report(found.BOX_FROM_MASK, is_from_mask)
    records.report(found.BAD_MASK, is_bad_mask, "segmentation")
    is_box |= is_from_mask
    records.report(found.BAD_BOX, is_listed & ~is_box & ~is_bad_mask, "bbox")
    return boxes, is_box


def _box_values(given: list[list[Any]]) -> tuple[np.ndarray, np.ndarray]:
    """[k, 4] float64 and [k] whether all four were numbers, or text that reads as one."""
    is_number = np.ones(len(given), bool)
    try:
        values = np.array(given, np.float64)
        if values.shape == (len(given), 4):
            return values, is_number
    except (TypeError, ValueError, OverflowError):
        pass  # some box is odd: one by one, to find out which
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
