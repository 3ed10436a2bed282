"""What objects of a class are taken for, and what is found where there is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from yolo_accum.contracts import DetectionIndex, Detections
from yolo_accum.metrics.matching import overlap

MIN_IOU = 0.5


def confusion_matrix(index: DetectionIndex, detections: Sequence[Detections], *, conf: float) -> np.ndarray:
    """Count pairs of object and detection whatever their classes.

    In every image the pair of the highest IoU is taken first, then the next of what is left, down to an IoU of 0.5;
    of equal overlaps the better score. Detections that pair with nothing and lie half or more in a crowd region (of
    any class) are not counted.

    Args:
        index: the ground truth.
        detections: at most one entry an image.
        conf: lowest score of a detection that counts.
    Returns:
        [c + 1, c + 1] int64: true class by class of the detection; the last row counts false alarms, the last column
        what was missed.
    """
    background = index.num_classes
    matrix = np.zeros((background + 1, background + 1), dtype=np.int64)
    found = {item.image_index: item for item in detections}
    for image in range(len(index)):
        rows = index.rows(image)
        labels, is_crowd = index.labels[rows], index.is_crowd[rows]
        boxes, found_labels = np.zeros((0, 4)), np.zeros(0, dtype=np.int64)
        if image in found:
            counted = found[image].scores >= conf
            boxes = found[image].boxes_xyxy_px[counted].astype(np.float64)
            found_labels = found[image].labels[counted]
        overlaps = overlap(boxes, index.boxes_xyxy_px[rows], is_crowd)
        pairs = _pairs(np.where(is_crowd, 0.0, overlaps))
        paired_found, paired_truth = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        np.add.at(matrix, (labels[paired_truth], found_labels[paired_found]), 1)

        missed = ~is_crowd
        missed[paired_truth] = False
        np.add.at(matrix[:, background], labels[missed], 1)
        false = np.max(np.where(is_crowd, overlaps, 0.0), axis=1, initial=0) < MIN_IOU
        false[paired_found] = False
        np.add.at(matrix[background], found_labels[false], 1)
    return matrix


def _pairs(overlaps: np.ndarray) -> list[tuple[int, int]]:
    """Places (row, column) of [d, g], each row and column at most once, the highest overlaps first."""
    rows, columns = np.nonzero(overlaps >= MIN_IOU)
    order = np.argsort(-overlaps[rows, columns], kind="stable")
    pairs: list[tuple[int, int]] = []
    used_rows: set[int] = set()
    used_columns: set[int] = set()
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if row not in used_rows and column not in used_columns:
            used_rows.add(row)
            used_columns.add(column)
            pairs.append((row, column))
    return pairs
