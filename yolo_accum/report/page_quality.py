"""What a detector reached, in the page of its run: curves, classes, confusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from yolo_accum.report import page_charts
from yolo_accum.report.page_charts import Chart

MAX_NAMED_LINES = 7
"""With more classes than colours, the classes' lines are faint and one can be picked."""
MAX_CELLS_OF_CONFUSION = 100
"""Classes of a confusion matrix that can still be read; with more, those with the most confusions are shown."""
MEAN = "mean of the classes"
NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True, eq=False)
class Quality:
    """What was measured on the validation images; c classes. NaN where a number is not defined."""

    metrics: Mapping[str, Any]
    """Content of ``metrics.json``."""
    class_names: Sequence[str]
    recalls: np.ndarray
    """[k]."""
    confidences: np.ndarray
    """[k]."""
    precision_at_recall: np.ndarray
    """[c + 1, k] at IoU 0.5; the last row is the mean of the classes that have objects."""
    precision: np.ndarray
    """[c + 1, k] by confidence."""
    recall: np.ndarray
    """[c + 1, k]."""
    f1: np.ndarray
    """[c + 1, k]."""
    best_confidence: float | None
    """Where the mean F1 is highest."""
    confusion: np.ndarray
    """[c + 1, c + 1]: true class by class of the detection; the last row holds false alarms, the last column misses."""
    conf: float
    """Lowest score of a detection in ``confusion``."""


def quality_charts(quality: Quality) -> dict[str, Chart]:
    """Charts by key."""
    best = quality.best_confidence
    f1_note = "" if best is None else f"The mean is highest, {np.nanmax(quality.f1[-1]):.3f}, at {best:.2f}."
    return {
        "precision_recall": page_charts.lines(
            "Precision and recall",
            "recall",
            "precision",
            quality.recalls,
            _lines(quality, quality.precision_at_recall),
            note="At IoU 0.5.",
        ),
        "f1": page_charts.lines(
            "F1 by confidence",
            "lowest confidence",
            "F1",
            quality.confidences,
            _lines(quality, quality.f1),
            note=f1_note,
        ),
        "precision": page_charts.lines(
            "Precision by confidence",
            "lowest confidence",
            "precision",
            quality.confidences,
            _lines(quality, quality.precision),
        ),
        "recall": page_charts.lines(
            "Recall by confidence", "lowest confidence", "recall", quality.confidences, _lines(quality, quality.recall)
        ),
        "classes": class_bars(quality.metrics),
        "confusion": _confusion(quality),
    }


def highlights(quality: Quality) -> list[str]:
    """Classes of which a reader may pick one: those with objects, where there are too many to name them all."""
    drawn = _drawn(quality)
    return [quality.class_names[row] for row in drawn] if len(drawn) > MAX_NAMED_LINES else []


def class_rows(metrics: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The entries of ``per_class`` in ``metrics.json``, those with objects first."""
    rows = list(metrics.get("per_class", ()))
    return sorted(rows, key=lambda row: row.get("AP") is None)


def _drawn(quality: Quality) -> list[int]:
    return [int(row) for row in np.flatnonzero(np.isfinite(quality.f1[:-1]).any(axis=1))]


def _lines(quality: Quality, values: np.ndarray) -> list[dict[str, Any]]:
    drawn = _drawn(quality)
    faint = len(drawn) > MAX_NAMED_LINES
    lines = [
        {"name": quality.class_names[row], "y": values[row], "colour": place, "faint": faint}
        for place, row in enumerate(drawn)
    ]
    if len(drawn) == 1:
        return lines
    return [*lines, {"name": MEAN, "y": values[-1], "colour": 0 if faint else 5, "dash": 0 if faint else 1}]


def class_bars(metrics: Mapping[str, Any]) -> Chart:
    """AP of the classes that have objects, the best first."""
    rows = [row for row in class_rows(metrics) if row.get("AP") is not None]
    rows.sort(key=lambda row: -row["AP"])
    names = ("AP", "AP50") if len(rows) > 15 else ("AP", "AP50", "AP_small", "AP_medium", "AP_large")
    series = [{"name": name, "values": [row.get(name) for row in rows]} for name in names]
    return page_charts.bars(
        "AP by class",
        "AP",
        [row["name"] for row in rows],
        [item for item in series if any(value is not None for value in item["values"])],
        across=True,
        note="" if rows else "There is no object in the validation images.",
    )


def _confusion(quality: Quality) -> Chart:
    counts = quality.confusion
    num_classes = len(counts) - 1
    shown = list(range(num_classes + 1))
    note = (
        f"Detections with a score of at least {quality.conf:g}, paired with objects at IoU 0.5 or more. Colours are "
        "shares of a row."
    )
    if num_classes > MAX_CELLS_OF_CONFUSION:
        off = counts.sum(axis=0) + counts.sum(axis=1) - 2 * counts.diagonal()
        most = np.argsort(-off[:-1], kind="stable")[:MAX_CELLS_OF_CONFUSION]
        shown = [*sorted(int(place) for place in most), num_classes]
        note += f" The {MAX_CELLS_OF_CONFUSION} classes with the most confusions."
    names = [*quality.class_names, NOTHING]
    part = counts[np.ix_(shown, shown)]
    totals = counts.sum(axis=1)[shown]
    shares = part / np.maximum(totals, 1)[:, None]
    texts = [
        [f"{number} ({share:.0%})" if number else "0" for number, share in zip(row, share_row, strict=True)]
        for row, share_row in zip(part.tolist(), shares.tolist(), strict=True)
    ]
    labels = [names[place] for place in shown]
    return page_charts.heat(
        "Confusion of classes", "found as", "in truth", labels, labels, shares, texts=texts, note=note, high=1.0
    )
