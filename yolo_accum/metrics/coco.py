"""The COCO numbers of a set of detections. The only module that imports pycocotools and hotcoco.

Both libraries are asked for the same thing, the precision and recall tables of COCO's protocol; the averages
over those tables are taken here, once. Image, category and annotation ids inside the evaluators are our own
consecutive numbers from 1: a user's id may be text, may repeat (annotations) or be 0, which COCO's matching
would take for "unmatched".
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import hotcoco
import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from yolo_accum.contracts import METRIC_NAMES, DetectionIndex, Detections

Evaluator = Literal["hotcoco", "pycocotools"]

IOU_50, IOU_75 = 0, 5
"""Places of the IoU thresholds 0.50 and 0.75 among COCO's ten."""
AREAS = ("all", "small", "medium", "large")
"""COCO's object sizes by area in pixels of the original picture, split at 32 x 32 and 96 x 96."""


@dataclass(frozen=True, kw_only=True)
class ClassMetrics:
    """What one class reached. None where the validation set holds no object of the class."""

    name: str
    class_id: int | str
    """As the user wrote it."""
    num_boxes: int
    """Objects in the validation set, crowd regions not counted."""
    ap: float | None
    ap50: float | None
    ap_by_size: Mapping[str, float | None]
    """AP of its ``small``, ``medium`` and ``large`` objects."""


@dataclass(frozen=True, kw_only=True)
class CocoMetrics:
    """The twelve COCO numbers and the AP of every class."""

    values: Mapping[str, float | None]
    """By the names in ``METRIC_NAMES``, 0..1; None where no object of that kind exists."""
    per_class: tuple[ClassMetrics, ...]
    """In the order of the labels."""
    max_det: int
    """Detections counted an image and class in every number but AR_1 and AR_10."""
    num_images: int
    num_boxes: int
    """Objects, crowd regions not counted."""
    num_crowd: int
    """Crowd regions: detections inside them count neither as found nor as false."""
    num_detections: int
    num_images_above_max_det: int
    """Images with more objects than ``max_det``: not all of them can be found."""

    def defined(self) -> dict[str, float]:
        """The twelve numbers without those that are undefined on this validation set."""
        return {name: value for name, value in self.values.items() if value is not None}

    def to_json(self) -> dict[str, object]:
        """Plain numbers, texts, lists and dicts; None (JSON null) stands for "no such object"."""
        return {
            **self.values,
            "per_class": [
                {
                    "name": item.name,
                    "id": item.class_id,
                    "boxes": item.num_boxes,
                    "AP": item.ap,
                    "AP50": item.ap50,
                    **{f"AP_{size}": ap for size, ap in item.ap_by_size.items()},
                }
                for item in self.per_class
            ],
            "max_det": self.max_det,
            "images": self.num_images,
            "boxes": self.num_boxes,
            "crowd_regions": self.num_crowd,
            "detections": self.num_detections,
            "images_above_max_det": self.num_images_above_max_det,
        }


class _Boxes(NamedTuple):
    """The rows that an evaluator is given: ground truth, or detections in the order of images, best first."""

    image_ids: np.ndarray
    """[n] int64, from 1."""
    category_ids: np.ndarray
    """[n] int64, from 1."""
    boxes_xywh_px: np.ndarray
    """[n, 4] float64, left, top, width, height."""
    scores: np.ndarray
    """[n] float64; 1 for ground truth."""
    areas_px: np.ndarray
    """[n] float64."""
    is_crowd: np.ndarray
    """[n] bool."""


class _Task(NamedTuple):
    """What an evaluator is asked."""

    truth: _Boxes
    found: _Boxes
    num_images: int
    num_classes: int
    limits: list[int]
    """Detections counted an image and class, ascending."""


class _Tables(NamedTuple):
    """COCO's result tables; -1 where no object of that kind exists."""

    precision: np.ndarray
    """[10 IoU thresholds, 101 recalls, c classes, 4 sizes, detection limits]."""
    recall: np.ndarray
    """[10 IoU thresholds, c classes, 4 sizes, detection limits]."""


def coco_metrics(
    index: DetectionIndex,
    detections: Sequence[Detections],
    *,
    evaluator: Evaluator = "hotcoco",
    max_det: int = 100,
) -> CocoMetrics:
    """The twelve COCO numbers over all images of the index, and AP and AP50 of every class.

    Args:
        index: the ground truth; the limits between small, medium and large apply to its ``areas_px``.
        detections: at most one entry an image, in any order; an image without an entry has no detections.
        evaluator: library that matches detections and objects; both give the same numbers.
        max_det: detections counted an image and class, the best ones, also in AP. (pycocotools' own summary
            takes AP at 100 whatever the limit.) AR_1 and AR_10 count at most 1 and 10.
    Raises:
        ValueError: ``detections`` names an image twice, or a row, label or number that cannot be.
    Source: the protocol of Lin et al. 2014, arXiv:1405.0312, as in pycocotools.
    """
    _check_detections(index, detections)
    task = _Task(
        truth=_truth_rows(index),
        found=_detection_rows(detections),
        num_images=len(index),
        num_classes=index.num_classes,
        # Ascending without repetition: with max_det below 10, AR_10 and AR_max are the same number.
        limits=sorted({1, min(10, max_det), max_det}),
    )
    tables = _EVALUATORS[evaluator](task)
    boxes_per_class = np.bincount(index.labels[~index.is_crowd], minlength=index.num_classes)
    boxes_per_image = np.diff(np.concatenate([[0], np.cumsum(~index.is_crowd)])[index.box_starts])
    return CocoMetrics(
        values=_summary(tables, task.limits.index(min(10, max_det))),
        per_class=tuple(
            ClassMetrics(
                name=index.class_names[label],
                class_id=index.class_ids[label],
                num_boxes=int(boxes_per_class[label]),
                ap=_mean_of_defined(tables.precision[:, :, label, 0, -1]),
                ap50=_mean_of_defined(tables.precision[IOU_50, :, label, 0, -1]),
                ap_by_size={
                    size: _mean_of_defined(tables.precision[:, :, label, place, -1])
                    for place, size in enumerate(AREAS[1:], start=1)
                },
            )
            for label in range(index.num_classes)
        ),
        max_det=max_det,
        num_images=len(index),
        num_boxes=int(boxes_per_class.sum()),
        num_crowd=int(index.is_crowd.sum()),
        num_detections=len(task.found.scores),
        num_images_above_max_det=int((boxes_per_image > max_det).sum()),
    )


def _check_detections(index: DetectionIndex, detections: Sequence[Detections]) -> None:
    seen = np.zeros(len(index), dtype=bool)
    for item in detections:
        row, labels = item.image_index, item.labels
        if not 0 <= row < len(index):
            raise ValueError(f"detections of image row {row}: the index has rows 0..{len(index) - 1}")
        image = f"detections of image {index.image_ids[row]!r}"
        if seen[row]:
            raise ValueError(f"{image} come twice: one entry an image is allowed")
        seen[row] = True
        if len(labels) and (labels.min() < 0 or labels.max() >= index.num_classes):
            raise ValueError(f"{image}: a label outside 0..{index.num_classes - 1}")
        if not (np.isfinite(item.boxes_xyxy_px).all() and np.isfinite(item.scores).all()):
            raise ValueError(f"{image}: a box or score is not a finite number")


def _truth_rows(index: DetectionIndex) -> _Boxes:
    boxes_per_image = np.diff(index.box_starts)
    boxes_xywh_px = index.boxes_xyxy_px.astype(np.float64)
    boxes_xywh_px[:, 2:] -= boxes_xywh_px[:, :2]
    return _Boxes(
        image_ids=np.repeat(np.arange(1, len(index) + 1), boxes_per_image),
        category_ids=index.labels.astype(np.int64) + 1,
        boxes_xywh_px=boxes_xywh_px,
        scores=np.ones(index.num_boxes),
        areas_px=index.areas_px.astype(np.float64),
        is_crowd=index.is_crowd,
    )


def _detection_rows(detections: Sequence[Detections]) -> _Boxes:
    # COCO ranks equal scores in this order, so it must not depend on which replica was first.
    ordered = sorted((item for item in detections if len(item.scores)), key=lambda item: item.image_index)
    counts = [len(item.scores) for item in ordered]
    total = sum(counts)
    boxes_xywh_px = np.empty((total, 4))
    if ordered:
        np.concatenate([item.boxes_xyxy_px for item in ordered], out=boxes_xywh_px)
        boxes_xywh_px[:, 2:] -= boxes_xywh_px[:, :2]
    return _Boxes(
        image_ids=np.repeat([item.image_index + 1 for item in ordered], counts).astype(np.int64),
        category_ids=np.concatenate([np.zeros(0, np.int64), *(item.labels for item in ordered)]) + 1,
        boxes_xywh_px=boxes_xywh_px,
        scores=np.concatenate([np.zeros(0), *(item.scores for item in ordered)]),
        areas_px=boxes_xywh_px[:, 2] * boxes_xywh_px[:, 3],
        is_crowd=np.zeros(total, dtype=bool),
    )


def _hotcoco_tables(task: _Task) -> _Tables:
    truth, found = task.truth, task.found
    truth_set = hotcoco.COCO.from_arrays(
        [{"id": image} for image in range(1, task.num_images + 1)],
        [{"id": category, "name": str(category)} for category in range(1, task.num_classes + 1)],
        image_ids=truth.image_ids,
        category_ids=truth.category_ids,
        boxes=truth.boxes_xywh_px,
        area=truth.areas_px,
        iscrowd=truth.is_crowd,
    )
    found_set = truth_set.load_res(
        np.column_stack([found.image_ids, found.boxes_xywh_px, found.scores, found.category_ids])
    )
    return _tables(hotcoco.COCOeval(truth_set, found_set, "bbox"), task.limits)


def _pycocotools_tables(task: _Task) -> _Tables:
    with contextlib.redirect_stdout(io.StringIO()):
        truth_set = _pycocotools_set(task.truth, task.num_images, task.num_classes)
        found_set = _pycocotools_set(task.found, task.num_images, task.num_classes)
        return _tables(COCOeval(truth_set, found_set, "bbox"), task.limits)


def _tables(evaluation: Any, limits: list[int]) -> _Tables:
    evaluation.params.maxDets = limits
    evaluation.evaluate()
    evaluation.accumulate()
    return _Tables(evaluation.eval["precision"], evaluation.eval["recall"])


def _pycocotools_set(rows: _Boxes, num_images: int, num_classes: int) -> COCO:
    # Not through COCO.loadRes, which fails on an empty list.
    data = COCO()
    data.dataset = {
        "images": [{"id": image} for image in range(1, num_images + 1)],
        "categories": [{"id": category} for category in range(1, num_classes + 1)],
        "annotations": [
            {
                "id": number,
                "image_id": image,
                "category_id": category,
                "bbox": box,
                "score": score,
                "area": area,
                "iscrowd": int(crowd),
            }
            for number, (image, category, box, score, area, crowd) in enumerate(
                zip(*(column.tolist() for column in rows), strict=True), start=1
            )
        ],
    }
    data.createIndex()
    return data


_EVALUATORS: Mapping[Evaluator, Callable[[_Task], _Tables]] = {
    "hotcoco": _hotcoco_tables,
    "pycocotools": _pycocotools_tables,
}


def _summary(tables: _Tables, limit_10: int) -> dict[str, float | None]:
    """The twelve averages; ``limit_10`` is the place of the limit of AR_10."""
    precision, recall = tables
    sizes = range(1, len(AREAS))
    values = (
        precision[:, :, :, 0, -1],
        precision[IOU_50, :, :, 0, -1],
        precision[IOU_75, :, :, 0, -1],
        *(precision[:, :, :, size, -1] for size in sizes),
        recall[:, :, 0, 0],
        recall[:, :, 0, limit_10],
        recall[:, :, 0, -1],
        *(recall[:, :, size, -1] for size in sizes),
    )
    return {name: _mean_of_defined(table) for name, table in zip(METRIC_NAMES, values, strict=True)}


def _mean_of_defined(table: np.ndarray) -> float | None:
    defined = table[table > -1]
    return float(defined.mean()) if defined.size else None
