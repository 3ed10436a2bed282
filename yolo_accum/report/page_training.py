"""The curves of a training run in its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from yolo_accum.report import page_charts
from yolo_accum.report.page_charts import Chart, Columns

AP_LINES = {"AP": "AP", "AP50": "AP50", "AP75": "AP75"}
SIZE_LINES = {"AP_small": "small", "AP_medium": "medium", "AP_large": "large"}


def training_charts(updates: Columns, epochs: Columns) -> dict[str, Chart]:
    """Charts by key, from the tables ``updates`` and ``epochs`` of the page; none before the first update.

    Args:
        updates: table as `page_charts.updates_table` makes it.
        epochs: as `page_charts.epochs_table` makes it.
    """
    if not updates:
        return {}
    size = int(updates["rows_per_point"][0])
    note = f"A point is the mean of {size} updates." if size > 1 else ""
    charts = {
        "loss": page_charts.curves("Loss", "loss", _losses(updates), note=f"As optimised, window by window. {note}"),
        "ap": page_charts.curves("AP on the validation images", "AP", _epoch_lines(epochs, AP_LINES)),
        "ap_size": page_charts.curves("AP by object size", "AP", _epoch_lines(epochs, SIZE_LINES)),
        "gradient": page_charts.curves(
            "Gradient norm",
            "L2 norm before clipping",
            _line(updates, "grad_norm", "gradient norm"),
            log=True,
            note=f"{_gradient_note(updates)} {note}",
        ),
        "lr": page_charts.curves("Learning rate", "learning rate", _by_group(updates, "lr_")),
        "window": page_charts.curves(
            "Window length K",
            "micro-batches an update",
            [{"table": "updates", "column": "window_length", "name": "K", "steps": True}],
        ),
        "memory": page_charts.curves("Peak memory", "MiB", _line(updates, "peak_memory_mib", "peak memory", colour=3)),
        "speed": page_charts.curves(
            "Speed", "images/s", _line(updates, "images_per_s", "training", colour=2), note=note
        ),
    }
    return {key: chart for key, chart in charts.items() if chart["series"]}


def _line(table: Columns, column: str, name: str, colour: int = 0) -> list[dict[str, Any]]:
    if not page_charts.has_values(table.get(column)):
        return []
    return [{"table": "updates", "column": column, "name": name, "colour": colour}]


def _losses(updates: Columns) -> list[dict[str, Any]]:
    terms = [name for name in updates if name.startswith("loss_") and page_charts.says_something(updates[name])]
    columns = [("loss", "all terms"), *((name, name.removeprefix("loss_")) for name in terms)]
    return [
        {"table": "updates", "column": column, "name": name, "colour": (place - 1) % 7, "dash": int(not place)}
        for place, (column, name) in enumerate(columns)
        if page_charts.has_values(updates[column])
    ]


def _epoch_lines(epochs: Columns, names: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"table": "epochs", "column": column, "name": name}
        for column, name in names.items()
        if page_charts.has_values(epochs.get(column))
    ]


def _by_group(updates: Columns, prefix: str) -> Sequence[dict[str, Any]]:
    """A line for each parameter group; groups that share their values share a line."""
    groups: dict[bytes, list[str]] = {}
    for name, values in updates.items():
        if name.startswith(prefix):
            groups.setdefault(np.asarray(values).tobytes(), []).append(name)
    return [
        {"table": "updates", "column": names[0], "name": ", ".join(name.removeprefix(prefix) for name in names)}
        for names in groups.values()
    ]


def _gradient_note(updates: Columns) -> str:
    clipped = float(np.mean(updates["clip_coefficient"] < 1))
    refused = int(updates["updates_skipped"].max(initial=0))
    return f"Clipped in {clipped:.0%} of the points; {refused} updates were refused for values that are not finite."
