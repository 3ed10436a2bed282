"""A comparison for people on a console, and as a table of runs in a CSV file; from the content of compare.json."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from yolo_accum.contracts import METRIC_NAMES
from yolo_accum.report import tables

SIZES = ("AP_small", "AP_medium", "AP_large")


def comparison_tables(result: Mapping[str, Any]) -> list[Table]:
    """What the arms reached and cost, how they differ, and the AP of every class.

    Args:
        result: the content of compare.json.
    """
    arms, num_seeds = result["arms"], len(result["settings"]["seeds"])
    reached = tables.columns(
        f"Arms, means over {num_seeds} seed{'s' * (num_seeds > 1)}",
        ("arm", "cut", "runs", "AP", "AP50", *SIZES),
        [
            [
                arm["name"],
                arm["label"],
                _runs(arm["runs"]),
                _value(arm["summary"]["AP"], "{:.4f}"),
                *(_mean(arm["summary"][name], "{:.4f}") for name in ("AP50", *SIZES)),
            ]
            for arm in arms
        ],
    )
    costs = tables.columns(
        "What they cost",
        ("arm", "updates", "images/s", "peak MiB", "minutes", "activations"),
        [
            [
                arm["name"],
                _updates(arm["runs"]),
                _value(arm["summary"]["images_per_s"], "{:.1f}"),
                _value(arm["summary"]["peak_memory_mib"], "{:.0f}"),
                _value(arm["summary"]["wall_s"], "{:.1f}", 1 / 60),
                arm["activations"],
            ]
            for arm in arms
        ],
    )
    moments = [moment["name"] for moment in result["moments"]]
    differences = tables.columns(
        f"Differences to {result['reference']}: AP, loss of the first updates, cosine of the gradients by moment",
        ("arm", "AP", f"{result['settings']['confidence']:.0%} interval", "loss", *moments),
        [_difference(entry, moments) for entry in result["comparisons"]],
    )
    return [reached, *([_per_class(arms)] if any(arm["per_class"] for arm in arms) else []), costs, differences]


def write_comparison_csv(result: Mapping[str, Any], path: Path) -> None:
    """One row a run.

    Raises:
        OSError: the file cannot be written.
    """
    rows = [_row(arm, run) for arm in result["arms"] for run in arm["runs"]]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8", newline="")


def _row(arm: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "arm": arm["name"],
        "seed": run["seed"],
        "status": run["status"],
        "batch": arm["batch"],
        "window_length": arm["window_length"],
        "norm": arm["norm"],
        "activations": arm["activations"],
        **{name: run["metrics"][name] for name in METRIC_NAMES},
        "updates": run["updates"]["applied"],
        "images_per_s": run["images_per_s"],
        "peak_memory_mib": run["peak_memory_mib"],
        "wall_s": run["wall_s"],
        **{f"AP {row['name']}": row["AP"] for row in run["per_class"]},
        "folder": run["folder"],
        "message": run["message"],
    }


def _per_class(arms: Sequence[Mapping[str, Any]]) -> Table:
    """AP by class, a column an arm."""
    with_classes = [arm for arm in arms if arm["per_class"]]
    first = with_classes[0]["per_class"]
    return tables.columns(
        "AP by class",
        ("class", "objects", *(arm["name"] for arm in with_classes)),
        [
            [
                row["name"],
                str(row["boxes"]),
                *(_number(arm["per_class"][place]["AP"], "{:.4f}") for arm in with_classes),
            ]
            for place, row in enumerate(first)
        ],
    )


def _difference(entry: Mapping[str, Any], moments: Sequence[str]) -> list[str]:
    found, loss = entry["differences"]["AP"], entry["loss"]
    low, high = (found["low"], found["high"]) if found is not None else (None, None)
    cosines: dict[str, list[float]] = {moment: [] for moment in moments}
    for item in entry["gradients"]:
        cosines[item["moment"]].append(item["overall"]["cosine"])
    return [
        entry["arm"],
        _number(found["mean"] if found is not None else None, "{:+.4f}"),
        "-" if low is None else f"{low:+.4f} to {high:+.4f}",
        _number(loss["largest"] if loss is not None else None, "{:.1e}"),
        *(_number(min(values, default=None), "{:.4f}") for values in cosines.values()),
    ]


def _runs(runs: Sequence[Mapping[str, Any]]) -> str:
    finished = sum(run["status"] == "finished" for run in runs)
    others = dict.fromkeys(run["status"] for run in runs if run["status"] != "finished")
    return ", ".join([f"{finished} of {len(runs)}", *others])


def _updates(runs: Sequence[Mapping[str, Any]]) -> str:
    counts = sorted({run["updates"]["applied"] for run in runs if run["updates"]["applied"] is not None})
    return "-" if not counts else str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _value(spread: Mapping[str, Any] | None, form: str, factor: float = 1.0) -> str:
    if spread is None:
        return "-"
    mean = form.format(spread["mean"] * factor)
    return mean if spread["sd"] is None else f"{mean} ± {form.format(spread['sd'] * factor)}"


def _mean(spread: Mapping[str, Any] | None, form: str) -> str:
    return _number(spread["mean"] if spread is not None else None, form)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None or value != value else form.format(value)
