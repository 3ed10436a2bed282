"""Two arms of a comparison beside each other, seed by seed: metrics, losses, gradients."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.cli.comparison.setup import Comparison
from yolo_accum.contracts import METRIC_NAMES
from yolo_accum.engine.gradient_files import read_gradient
from yolo_accum.engine.gradients import Gradient, agreement, agreement_by_part
from yolo_accum.metrics.paired import paired_difference, verdict
from yolo_accum.model.yolox import part_of
from yolo_accum.report.records import read_updates

NUM_LOSSES = 20
"""First updates whose losses are compared: later on rounding alone may part two runs, as assignments are discrete."""

Arm = Mapping[str, Any]
"""An entry of ``arms`` in compare.json."""
Pair = tuple[Mapping[str, Any], Mapping[str, Any]]
"""The runs of both arms with one seed."""


def compare_arms(comparison: Comparison, arm: Arm, reference: Arm, numbers: Sequence[str]) -> dict[str, Any]:
    """An entry of ``comparisons`` in compare.json.

    Args:
        comparison: says where the runs lie.
        arm: what is compared.
        reference: with what.
        numbers: names of what a run is measured by.
    """
    pairs = list(_pairs(arm, reference))
    differences = {name: _difference(pairs, name) for name in numbers}
    same_windows = arm["same_windows"] and reference["same_windows"]
    values = _columns(pairs, "AP")
    found = verdict(
        paired_difference(*values),
        margin=comparison.compare.margin,
        highest=max(itertools.chain(*values), default=0.0),
        arm=arm["name"],
        reference=reference["name"],
    )
    return {
        "arm": arm["name"],
        "reference": reference["name"],
        "same_windows": same_windows,
        "differences": differences,
        "per_class": _per_class(pairs),
        "verdict": asdict(found),
        "loss": compare_losses(comparison.folder, pairs) if same_windows else None,
        "gradients": list(_gradients(comparison, pairs)) if same_windows else [],
    }


def _pairs(arm: Arm, reference: Arm) -> Iterator[Pair]:
    """Runs of the seeds that both have finished."""
    others = {run["seed"]: run for run in reference["runs"]}
    for run in arm["runs"]:
        if run["status"] == others[run["seed"]]["status"] == "finished":
            yield run, others[run["seed"]]


def _columns(pairs: Sequence[Pair], name: str) -> tuple[list[float], list[float]]:
    values = [tuple(run["metrics"][name] if name in METRIC_NAMES else run[name] for run in pair) for pair in pairs]
    both = [(mine, other) for mine, other in values if mine is not None and other is not None]
    return [mine for mine, _ in both], [other for _, other in both]


def _difference(pairs: Sequence[Pair], name: str) -> dict[str, Any] | None:
    found = paired_difference(*_columns(pairs, name))
    return None if found is None else asdict(found)


def _per_class(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Differences in the AP of every class; both runs of a pair were measured on the same objects."""
    rows = []
    for number, row in enumerate(pairs[0][0]["per_class"] if pairs else []):
        values = [tuple(run["per_class"][number]["AP"] for run in pair) for pair in pairs]
        both = [pair for pair in values if None not in pair]
        found = paired_difference([mine for mine, _ in both], [other for _, other in both])
        rows.append({"name": row["name"], "AP": None if found is None else asdict(found)})
    return rows


def compare_losses(folder: Path, pairs: Sequence[Pair]) -> dict[str, Any] | None:
    """Relative differences of the loss over the first updates, whose windows are the same; None without any.

    Args:
        folder: of the comparison.
        pairs: runs of both arms with the same seed.
    """
    rows = []
    for run, other in pairs:
        mine, theirs = (_losses(folder / item["folder"]) for item in (run, other))
        num = min(NUM_LOSSES, len(mine), len(theirs))
        if not num:
            continue
        relative = np.abs(mine[:num] - theirs[:num]) / np.abs(theirs[:num])
        rows.append(
            {
                "seed": run["seed"],
                "largest_relative_difference": float(relative.max()),
                "at_update": int(relative.argmax()) + 1,
                "relative_differences": relative.tolist(),
            }
        )
    if not rows:
        return None
    largest = max(row["largest_relative_difference"] for row in rows)
    return {"num_updates": max(len(row["relative_differences"]) for row in rows), "largest": largest, "by_seed": rows}


def _losses(run_folder: Path) -> np.ndarray:
    """[updates] the loss that each update has optimised."""
    columns = [column for name, column in read_updates(run_folder).items() if name.startswith("loss_")]
    return np.sum(columns, axis=0) if columns else np.zeros(0)


def _gradients(comparison: Comparison, pairs: Sequence[Pair]) -> Iterator[dict[str, Any]]:
    """How the gradients of the same window agree, at the moments that were kept."""
    for run, other in pairs:
        for moment in comparison.moments:
            folders = (comparison.folder / item["folder"] for item in (run, other))
            found = _agreement_at(*folders, moment.update)
            if found is not None:
                yield {"seed": run["seed"], "moment": moment.name, "update": moment.update, **found}


@functools.cache
def _agreement_at(folder: Path, reference_folder: Path, update: int) -> dict[str, Any] | None:
    """Of two finished runs, which do not change any more; None where one of them has no such gradient."""
    mine, theirs = read_gradient(folder, update), read_gradient(reference_folder, update)
    if mine is None or theirs is None or mine.keys() != theirs.keys():
        return None
    parts = agreement_by_part(mine, theirs, part_of)
    return {
        "overall": {**asdict(agreement(mine, theirs, theirs)), **_norms(mine, theirs, theirs)},
        "parts": {
            part: {**asdict(found), **_norms(mine, theirs, [name for name in theirs if part_of(name) == part])}
            for part, found in parts.items()
        },
    }


def _norms(mine: Gradient, theirs: Gradient, names: Sequence[str] | Gradient) -> dict[str, float]:
    both = [float(sum(gradient[name].double().square().sum() for name in names)) ** 0.5 for gradient in (mine, theirs)]
    return {"norm": both[0], "reference_norm": both[1]}
