"""The charts of a page as plain data, in the few kinds that ``templates/page.js`` knows.

A *table* is columns of one length, with ``images``, ``updates``, ``time`` and ``epochs`` among them: the axes that a
reader can choose between. A series of a *curves* chart names a table and a column of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MAX_POINTS = 1000
"""Rows of a table in a page; more than a screen has columns for. Beyond, neighbouring rows are put together."""

Columns = Mapping[str, np.ndarray]
Chart = dict[str, Any]


def updates_table(updates: Columns, num_images: int | None) -> dict[str, np.ndarray]:
    """``updates.csv`` as a table.

    Args:
        updates: its columns.
        num_images: images of an epoch, so that its place in an epoch is known; without, whole epochs are shown.
    Returns:
        The columns and the axes, of at most `MAX_POINTS` rows; ``rows_per_point`` says how many rows of the file were
        put together at most.
    """
    if not updates:
        return {}
    columns = {
        **updates,
        **_axes(updates, num_images),
        "loss": sum((values for name, values in updates.items() if name.startswith("loss_")), np.zeros(1)),
        "window_length": updates["last_micro_batch"] - updates["first_micro_batch"] + 1,
    }
    return _thinned(columns)


def epochs_table(epochs: Columns, updates: Columns) -> dict[str, np.ndarray]:
    """``epochs.csv`` as a table; the axes tell where the run was at the end of each epoch."""
    if not epochs or not updates:
        return {}
    last_update = np.searchsorted(updates["epoch"], epochs["epoch"], side="right") - 1
    axes = _axes(updates, None)
    at_end = {name: np.where(last_update >= 0, values[last_update], 0) for name, values in axes.items()}
    return _thinned({**epochs, **at_end, "epochs": epochs["epoch"] + 1})


def _axes(updates: Columns, num_images: int | None) -> dict[str, np.ndarray]:
    passed = updates["images_seen"] + updates["images_dropped"]
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = np.nan_to_num(updates["images"] / updates["images_per_s"], nan=0, posinf=0)
    return {
        "images": updates["images_seen"],
        "updates": updates["updates_applied"],
        "time": np.cumsum(seconds) / 60,
        "epochs": passed / num_images if num_images else updates["epoch"] + 1,
    }


_TAKE_LAST = ("images", "updates", "time", "epochs")


def _thinned(columns: Columns) -> dict[str, np.ndarray]:
    """Neighbouring rows put together: means of what exists, the axes at the last of them."""
    length = len(columns["images"])
    size = -(-length // MAX_POINTS)
    if size == 1:
        return {**columns, "rows_per_point": np.array([1])}
    ends = np.minimum(np.arange(size, length + size, size), length)
    starts = np.arange(0, length, size)
    thinned = {}
    for name, values in columns.items():
        if name in _TAKE_LAST:
            thinned[name] = values[ends - 1]
        else:
            exists = np.isfinite(values)
            sums = np.add.reduceat(np.where(exists, values, 0), starts)
            counts = np.add.reduceat(exists.astype(int), starts)
            thinned[name] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return {**thinned, "rows_per_point": np.array([size])}


def says_something(values: np.ndarray) -> bool:
    """Whether there is a finite value that is not 0: a loss term that is switched off is 0 throughout."""
    return bool(np.any(np.isfinite(values) & (values != 0)))


def has_values(values: np.ndarray | None) -> bool:
    return values is not None and bool(np.isfinite(values).any())


def curves(
    title: str,
    y_label: str,
    series: Sequence[Mapping[str, Any]],
    *,
    log: bool = False,
    top: float | None = None,
    note: str = "",
    zero: bool = True,
) -> Chart:
    """Lines against the axis that the reader chooses.

    Args:
        series: each with ``table``, ``column`` and ``name``; ``colour`` (place in the palette), ``dash`` (0 whole, 1
            dashed, 2 dotted), ``steps`` and ``group`` (what a legend for the whole page switches) if wanted.
        log: logarithmic.
        top: upper end of the axis.
        note: a sentence below the chart.
        zero: let the axis begin at 0.
    """
    return {
        "kind": "curves",
        "title": title,
        "y": y_label,
        "series": [dict(item) for item in series],
        "log": log,
        "top": top,
        "note": note,
        "zero": zero,
    }


def lines(
    title: str,
    x_label: str,
    y_label: str,
    x: np.ndarray,
    series: Sequence[Mapping[str, Any]],
    *,
    top: float | None = 1,
    note: str = "",
) -> Chart:
    """Lines against a common x.

    Args:
        x: [k].
        series: each with ``name`` and ``y`` [k]; ``colour``, ``dash`` and ``faint`` if wanted.
    """
    return {
        "kind": "lines",
        "title": title,
        "xlabel": x_label,
        "y": y_label,
        "x": x,
        "series": [dict(item) for item in series],
        "top": top,
        "note": note,
    }


def bars(
    title: str,
    value_label: str,
    categories: Sequence[str],
    series: Sequence[Mapping[str, Any]],
    *,
    across: bool = False,
    note: str = "",
    category_label: str = "",
) -> Chart:
    """Bars by category.

    Args:
        series: each with ``name`` and ``values`` (one a category); ``low`` and ``high`` for intervals if wanted.
        across: lying bars, for long names.
    """
    return {
        "kind": "bars",
        "title": title,
        "y": value_label,
        "xlabel": category_label,
        "categories": list(categories),
        "series": [dict(item) for item in series],
        "across": across,
        "note": note,
    }


def heat(
    title: str,
    x_label: str,
    y_label: str,
    columns: Sequence[str],
    rows: Sequence[str],
    values: np.ndarray,
    *,
    texts: Sequence[Sequence[str]] | None = None,
    note: str = "",
    high: float | None = None,
) -> Chart:
    """Coloured cells.

    Args:
        columns: names along x.
        rows: names along y, the first on top.
        values: [rows, columns]; what is NaN stays empty.
        texts: what a cell says, if not its value.
        high: the value of the strongest colour; by default the highest.
    """
    return {
        "kind": "heat",
        "title": title,
        "xlabel": x_label,
        "y": y_label,
        "columns": list(columns),
        "rows": list(rows),
        "values": values,
        "texts": texts,
        "note": note,
        "high": high,
    }
