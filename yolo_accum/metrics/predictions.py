"""Predictions as a COCO results file: a JSON list with the user's own image and category ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from yolo_accum.contracts import DetectionIndex, Detections
from yolo_accum.errors import UserError
from yolo_accum.metrics.whole_file import whole_file

BOX_DECIMALS = 3
"""A thousandth of a pixel moves no AP visibly and halves the file. Scores are written in full: rounding them
would make ties."""


def write_predictions(path: Path, index: DetectionIndex, detections: Sequence[Detections]) -> None:
    """Write ``[{"image_id": 7, "category_id": 1, "bbox": [left, top, width, height], "score": 0.9}, ...]``.

    Boxes are in pixels of the original picture. The file appears under its name only when it is complete.

    Raises:
        OSError: the file cannot be written (names it).
    """
    with whole_file(path) as file:
        _write_items(file, index, detections)


def _write_items(file: TextIO, index: DetectionIndex, detections: Sequence[Detections]) -> None:
    category_ids = [json.dumps(class_id) for class_id in index.class_ids]
    separator = "[\n"
    for item in detections:
        image_id = json.dumps(index.image_ids[item.image_index])
        boxes = item.boxes_xyxy_px.astype(np.float64)
        boxes[:, 2:] -= boxes[:, :2]
        # float32's shortest text that reads back as the same number.
        scores = item.scores.astype(np.float32).astype(str)
        for label, box, score in zip(item.labels, boxes.round(BOX_DECIMALS).tolist(), scores, strict=True):
            ids = f'"image_id":{image_id},"category_id":{category_ids[label]}'
            file.write(f'{separator}{{{ids},"bbox":{box},"score":{score}}}')
            separator = ",\n"
    file.write("[]\n" if separator == "[\n" else "\n]\n")


def read_predictions(path: Path, index: DetectionIndex) -> list[Detections]:
    """Read a COCO results file against the data set that it belongs to.

    Returns:
        One entry an image that has detections, in the order of the index; best first, equal scores in file
        order.
    Raises:
        UserError: not a COCO results file, an image or category id that the data set lacks (a text is not
            taken for a number), a box or score that is not finite. Names the file and the entry.
    """
    try:
        items = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a JSON file ({error})") from error
    if not isinstance(items, list):
        raise UserError(f"{path}: predictions are a JSON list of objects, one a detection; this is no list")
    rows_of_id = {image_id: row for row, image_id in enumerate(index.image_ids)}
    labels_of_id = {class_id: label for label, class_id in enumerate(index.class_ids)}
    columns: dict[int, list[tuple[list[float], float, int]]] = {}
    for number, item in enumerate(items, start=1):
        where = f"{path}, prediction {number}"
        row = _look_up(item, "image_id", rows_of_id, where)
        label = _look_up(item, "category_id", labels_of_id, where)
        box, score = item.get("bbox"), item.get("score")
        if not (isinstance(box, list) and len(box) == 4 and all(map(_is_finite_number, box))):
            raise UserError(f"{where}: bbox {box!r} is not [left, top, width, height] in finite numbers")
        if not _is_finite_number(score):
            raise UserError(f"{where}: score {score!r} is not a finite number")
        columns.setdefault(row, []).append((box, score, label))
    return [_detections(row, columns[row]) for row in sorted(columns)]


def _look_up(item: Any, key: str, known: dict[int | str, int], where: str) -> int:
    if not isinstance(item, dict) or key not in item:
        raise UserError(f"{where}: an object with image_id, category_id, bbox and score is needed")
    value = item[key]
    if isinstance(value, bool) or not isinstance(value, int | str) or value not in known:
        examples = ", ".join(repr(name) for name in list(known)[:3])
        raise UserError(f"{where}: {key} {value!r} is not in the data set, which has {examples} ...")
    return known[value]


def _is_finite_number(value: Any) -> bool:
    # Also no whole number beyond what a float can hold; NaN fails every comparison.
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e30 < value < 1e30


def _detections(row: int, items: list[tuple[list[float], float, int]]) -> Detections:
    boxes = np.array([box for box, _, _ in items], dtype=np.float64)
    boxes[:, 2:] += boxes[:, :2]
    scores = np.array([score for _, score, _ in items], dtype=np.float32)
    labels = np.array([label for _, _, label in items], dtype=np.int64)
    best_first = np.argsort(-scores, kind="stable")
    return Detections(
        boxes_xyxy_px=boxes[best_first].astype(np.float32),
        scores=scores[best_first],
        labels=labels[best_first],
        image_index=row,
    )
