"""The picture of `verify`: how gradients of micro-batches agree with those of the large batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from yolo_accum.report import style

SMALLEST_DIFFERENCE = 1e-8
"""Bottom of the logarithmic axis; equal gradients are drawn here."""


def plot_agreement(comparisons: Sequence[Mapping[str, Any]], nbs: int, out: Path) -> Path:
    """Draw the cosine of every norm, the relative difference by cause, and the cosine by part.

    Args:
        comparisons: entries ``comparisons`` of verify.json, at least one.
        nbs: images of the large batch.
        out: the PNG to write.
    Returns:
        ``out``.
    Raises:
        OSError: the file cannot be written (names it).
    """
    figure = style.new_figure(17, 5.5, f"Gradients of micro-batches against the batch of {nbs}")
    cosine, difference, parts = figure.subplots(1, 3)
    labels = list(dict.fromkeys(item["label"] for item in comparisons))
    colours = {label: style.COLOURS[number % len(style.COLOURS)] for number, label in enumerate(labels)}
    style.dress(cosine, "Direction", "images of a micro-batch", "cosine")
    style.dress(difference, "Difference", "images of a micro-batch", "relative to the large batch's gradient")
    for label in labels:
        mine = [item for item in comparisons if item["label"] == label]
        look: dict[str, Any] = {"label": label, "color": colours[label], "marker": "o", "markersize": 4}
        look["linestyle"] = "--" if mine[0]["mean_of_means"] else "-"
        sizes = [item["micro_batch"] for item in mine]
        cosine.plot(sizes, [item["overall"]["cosine"] for item in mine], **look)
        differences = [max(item["overall"]["relative_difference"], SMALLEST_DIFFERENCE) for item in mine]
        difference.plot(sizes, differences, **look)
    for axes in (cosine, difference):
        axes.set_xscale("log", base=2)
        sizes = sorted({item["micro_batch"] for item in comparisons})
        axes.set_xticks(sizes, [str(size) for size in sizes])
    difference.set_yscale("log")
    style.legend(cosine, loc="best")
    _draw_parts(parts, comparisons, colours)
    return style.save_png(figure, out)


def _draw_parts(axes: Axes, comparisons: Sequence[Mapping[str, Any]], colours: Mapping[str, str]) -> None:
    """Cosine by part of the model, for the smallest micro-batch."""
    size = min(item["micro_batch"] for item in comparisons)
    style.dress(axes, f"By part, micro-batches of {size}", "", "cosine")
    for item in comparisons:
        if item["micro_batch"] == size:
            places = np.arange(len(item["parts"]))
            values = [part["cosine"] for part in item["parts"].values()]
            line = "--" if item["mean_of_means"] else "-"
            axes.plot(places, values, color=colours[item["label"]], marker="o", markersize=4, linestyle=line)
            axes.set_xticks(places, list(item["parts"]), rotation=35, ha="right")
