"""Precision, recall and F1 of a detector, against recall and against the confidence that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from yolo_accum.metrics.matching import IOU_50, RECALLS, ClassMatches, interpolated_precision

CONFIDENCES = np.linspace(0, 1, 101)
"""Lowest scores at which the curves are read."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Curves:
    """Curves of c classes at IoU 0.5. NaN where something is not defined: a class without objects in the validation
    set, and precision where nothing has that confidence."""

    precision_at_recall: np.ndarray
    """[c, 101] at `RECALLS`."""
    precision: np.ndarray
    """[c, 101] at `CONFIDENCES`."""
    recall: np.ndarray
    """[c, 101]."""
    f1: np.ndarray
    """[c, 101]; 0 where nothing has that confidence."""

    @property
    def mean_f1(self) -> np.ndarray:
        """[101] over the classes that have objects; NaN without any."""
        return mean_of_defined(self.f1)

    @property
    def best_confidence(self) -> float | None:
        """The confidence at which the mean F1 is highest; None where it is not defined, or 0 throughout."""
        mean = self.mean_f1
        return float(CONFIDENCES[np.argmax(mean)]) if len(mean) and np.nanmax(np.append(mean, 0)) > 0 else None


def curves(matches: Sequence[ClassMatches]) -> Curves:
    """The curves of every class."""
    rows = [_class_curves(item) for item in matches]
    precision_at_recall, precision, recall, f1 = (
        np.stack(column) if rows else np.zeros((0, len(RECALLS)))
        for column in (zip(*rows, strict=True) if rows else [()] * 4)
    )
    return Curves(precision_at_recall=precision_at_recall, precision=precision, recall=recall, f1=f1)


def mean_of_defined(values: np.ndarray) -> np.ndarray:
    """[c, k] -> [k]: the mean of the rows, leaving out what is not defined; NaN where nothing is."""
    defined = np.isfinite(values)
    sums, counts = np.where(defined, values, 0).sum(axis=0), defined.sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _class_curves(matches: ClassMatches) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    num_truth = matches.num_truth
    if not num_truth:
        undefined = np.full(len(RECALLS), np.nan)
        return (undefined,) * 4
    hits, ignored = matches.hits[IOU_50], matches.ignored[IOU_50]
    counted = ~ignored
    scores, is_hit = matches.scores[counted], hits[counted]
    # Scores fall, so those of at least a confidence are the first ones. A hair below, as 0.3 of a float32 is not 0.3.
    num_found = np.searchsorted(-scores, -(CONFIDENCES - 1e-6), side="right")
    num_hits = np.concatenate([[0], np.cumsum(is_hit)])[num_found]
    precision = np.where(num_found > 0, num_hits / np.maximum(num_found, 1), np.nan)
    recall = num_hits / num_truth
    f1 = 2 * num_hits / (num_found + num_truth)
    return interpolated_precision(hits, ignored, num_truth), precision, recall, f1
