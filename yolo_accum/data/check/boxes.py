"""Findings about boxes of one picture that nearly coincide: objects annotated twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.findings import FindingLog, Mark

MIN_IOU = 0.9
"""Two boxes of which at least so much is common are taken for one object."""


def report_coinciding_boxes(index: DetectionIndex, log: FindingLog) -> None:
    """Tells pairs of boxes that nearly coincide, apart for those of one class and of two."""
    pairs = np.concatenate([np.zeros((0, 2), np.int64), *_coinciding(index)])
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    is_same = index.labels[pairs[:, 0]] == index.labels[pairs[:, 1]]
    for kind, chosen in ((found.COINCIDING_BOXES, pairs[is_same]), (found.TWO_CLASSES, pairs[~is_same])):
        places = (_describe(index, *pair.tolist()) for pair in chosen)
        marks = (_mark(index, *pair.tolist()) for pair in chosen)
        log.add(kind, index.source, len(chosen), places, marks=marks)


def _coinciding(index: DetectionIndex) -> Iterator[np.ndarray]:
    """Parts of all pairs [k, 2] of rows; a picture of n boxes costs n^2 / 2 comparisons."""
    image_of_box = np.repeat(np.arange(len(index)), np.diff(index.box_starts))
    last_of_image = index.box_starts[1:][image_of_box] - 1
    areas = (index.boxes_xyxy_px[:, 2:] - index.boxes_xyxy_px[:, :2]).prod(axis=1)
    rows = np.flatnonzero(~index.is_crowd)
    step = 1
    while len(rows := rows[rows + step <= last_of_image[rows]]):
        others = rows + step
        first, second = index.boxes_xyxy_px[rows], index.boxes_xyxy_px[others]
        sides = np.minimum(first[:, 2:], second[:, 2:]) - np.maximum(first[:, :2], second[:, :2])
        common = sides.clip(0).prod(axis=1)
        is_pair = (common >= MIN_IOU * (areas[rows] + areas[others] - common)) & ~index.is_crowd[others]
        yield np.column_stack([rows[is_pair], others[is_pair]])
        step += 1


def _describe(index: DetectionIndex, row: int, other: int) -> str:
    box = ", ".join(f"{side:.0f}" for side in index.boxes_xyxy_px[row])
    return f"{index.image_paths[_image(index, row)]}: {_names(index, row, other)} at [{box}] px"


def _mark(index: DetectionIndex, row: int, other: int) -> Mark:
    left, top, right, bottom = index.boxes_xyxy_px[other].tolist()
    return Mark(
        picture=index.image_paths[_image(index, row)],
        box_xyxy_px=(left, top, right, bottom),
        label=_names(index, row, other),
    )


def _names(index: DetectionIndex, row: int, other: int) -> str:
    return " and ".join(dict.fromkeys(index.class_names[index.labels[place]] for place in (row, other)))


def _image(index: DetectionIndex, row: int) -> int:
    return int(np.searchsorted(index.box_starts, row, "right")) - 1
