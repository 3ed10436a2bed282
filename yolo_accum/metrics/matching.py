"""Which detections hit an object, by COCO's rules: the ground of every curve, and of what an image costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from yolo_accum.contracts import DetectionIndex, Detections

IOU_THRESHOLDS = np.linspace(0.5, 0.95, 10)
"""COCO's ten."""
IOU_50 = 0
"""Place of 0.50 among them."""
RECALLS = np.linspace(0, 1, 101)
"""Where COCO reads a precision-recall curve."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassMatches:
    """The detections of one class: N of them, best first."""

    scores: np.ndarray
    """[N] float64, falling; equal scores in the order of the images."""
    images: np.ndarray
    """[N] int64, rows of the index."""
    hits: np.ndarray
    """[10, N] bool: the detection is the one that an object is given to, by IoU threshold."""
    ignored: np.ndarray
    """[10, N] bool: the detection lies in a crowd region and counts neither as found nor as false."""
    truth_per_image: np.ndarray
    """[n] int64: objects of the class in every image, crowd regions not counted."""

    @property
    def num_truth(self) -> int:
        return int(self.truth_per_image.sum())


def match(index: DetectionIndex, detections: Sequence[Detections], *, max_det: int = 100) -> list[ClassMatches]:
    """Give objects to detections, class by class and image by image, the best detection first.

    Args:
        index: the ground truth.
        detections: at most one entry an image; boxes best first.
        max_det: detections counted an image and class, the best ones.
    Returns:
        one entry a class.
    Source: the protocol of Lin et al. 2014, arXiv:1405.0312; AP of these matches is that of `coco_metrics`.
    """
    columns: list[list[tuple[np.ndarray, int, np.ndarray, np.ndarray]]] = [[] for _ in range(index.num_classes)]
    truth = np.zeros((index.num_classes, len(index)), dtype=np.int64)
    image_of_box = np.repeat(np.arange(len(index)), np.diff(index.box_starts))
    np.add.at(truth, (index.labels[~index.is_crowd], image_of_box[~index.is_crowd]), 1)
    for found in sorted(detections, key=lambda item: item.image_index):
        rows = index.rows(found.image_index)
        for label in np.unique(found.labels):
            mine, of_class = found.labels == label, index.labels[rows] == label
            scores = found.scores[mine][:max_det]
            hits, ignored = _match_image(
                found.boxes_xyxy_px[mine][:max_det].astype(np.float64),
                index.boxes_xyxy_px[rows][of_class],
                index.is_crowd[rows][of_class],
            )
            columns[label].append((scores, found.image_index, hits, ignored))
    return [_class_matches(entries, truth[label]) for label, entries in enumerate(columns)]


def _class_matches(
    entries: list[tuple[np.ndarray, int, np.ndarray, np.ndarray]], truth_per_image: np.ndarray
) -> ClassMatches:
    nothing = np.zeros((len(IOU_THRESHOLDS), 0), dtype=bool)
    scores = np.concatenate([np.zeros(0), *(entry[0] for entry in entries)])
    best_first = np.argsort(-scores, kind="stable")
    return ClassMatches(
        scores=scores[best_first],
        images=np.repeat([entry[1] for entry in entries], [len(entry[0]) for entry in entries])[best_first].astype(
            np.int64
        ),
        hits=np.concatenate([nothing, *(entry[2] for entry in entries)], axis=1)[:, best_first],
        ignored=np.concatenate([nothing, *(entry[3] for entry in entries)], axis=1)[:, best_first],
        truth_per_image=truth_per_image,
    )


def _match_image(found: np.ndarray, truth: np.ndarray, is_crowd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hits and ignored detections, [10, d] each, of [d, 4] detections, best first, among [g, 4] objects."""
    hits = np.zeros((len(IOU_THRESHOLDS), len(found)), dtype=bool)
    ignored = hits.copy()
    overlaps = overlap(found, truth, is_crowd)
    thresholds = np.minimum(IOU_THRESHOLDS, 1 - 1e-10)[:, None]
    is_free = np.repeat(~is_crowd[None], len(IOU_THRESHOLDS), axis=0)
    for place in np.flatnonzero((overlaps >= thresholds[0]).any(axis=1)):
        enough = overlaps[place] >= thresholds
        candidates = enough & is_free
        is_hit = candidates.any(axis=1)
        # Of equal overlaps the last object is taken, as pycocotools does.
        values = np.where(candidates, overlaps[place], -1.0)[:, ::-1]
        taken = len(truth) - 1 - values.argmax(axis=1)
        is_free[is_hit, taken[is_hit]] = False
        hits[:, place] = is_hit
        ignored[:, place] = ~is_hit & (enough & is_crowd).any(axis=1)
    return hits, ignored


def overlap(found: np.ndarray, truth: np.ndarray, is_crowd: np.ndarray) -> np.ndarray:
    """IoU of every detection with every object; with a crowd region, the share of the detection inside it.

    Args:
        found: [d, 4] xyxy.
        truth: [g, 4] xyxy, same units.
        is_crowd: [g] bool.
    Returns:
        [d, g] in 0..1.
    """
    top_left = np.maximum(found[:, None, :2], truth[None, :, :2])
    bottom_right = np.minimum(found[:, None, 2:], truth[None, :, 2:])
    shared = (bottom_right - top_left).clip(min=0).prod(axis=2)
    found_area, truth_area = ((boxes[:, 2:] - boxes[:, :2]).prod(axis=1) for boxes in (found, truth))
    union = np.where(is_crowd, found_area[:, None], found_area[:, None] + truth_area - shared)
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def interpolated_precision(hits: np.ndarray, ignored: np.ndarray, num_truth: int) -> np.ndarray:
    """COCO's precision-recall curve.

    Args:
        hits: [..., N] bool, best detection first.
        ignored: [..., N] bool, likewise.
        num_truth: objects; at least 1.
    Returns:
        [..., 101]: the highest precision at or beyond each of `RECALLS`, 0 where that recall is not reached.
    """
    found = np.cumsum(hits, axis=-1)
    false = np.cumsum(~hits & ~ignored, axis=-1)
    precision = found / np.maximum(found + false, 1)
    precision = np.maximum.accumulate(precision[..., ::-1], axis=-1)[..., ::-1]
    recall = found / num_truth
    curves = np.zeros((*hits.shape[:-1], len(RECALLS)))
    for place in np.ndindex(hits.shape[:-1]):
        reached = np.searchsorted(recall[place], RECALLS, side="left")
        inside = reached < hits.shape[-1]
        curves[place][inside] = precision[place][reached[inside]]
    return curves
