"""The picture of a plan: windows while the run warms up, and what the updates use over the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from yolo_accum.report import style

MOST_POINTS = 2000
"""Of a line: more cannot be told apart."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlanColumns:
    """One entry an update."""

    images_before: np.ndarray
    """Images that were seen before the update's window."""
    num_micro_batches: np.ndarray
    num_images: np.ndarray
    lr: np.ndarray
    momentum: np.ndarray
    num_first: int
    """Updates of warm-up and the epochs after it, whose windows are drawn one by one."""
    epoch_images: Sequence[int]
    """Where the epochs among those begin, in images."""


def plot_plan(columns: PlanColumns, nbs: int, out: Path) -> Path:
    """Draw four panels.

    Args:
        columns: of at least one update.
        nbs: the nominal batch size, drawn as a line.
        out: PNG file to write.
    Returns:
        ``out``.
    Raises:
        OSError: the file cannot be written.
    """
    figure = style.new_figure(11, 6.5, "Plan of the run")
    grid = figure.subplots(2, 2)
    first = slice(0, min(columns.num_first, MOST_POINTS))
    spread = np.unique(np.linspace(0, len(columns.lr) - 1, MOST_POINTS).astype(int))
    few = {"marker": "o", "markersize": 3} if first.stop <= 100 else {}

    start = columns.images_before[first]
    windows, images, lr, momentum = grid.flat
    windows.step(start, columns.num_micro_batches[first], where="post", color=style.BLUE, **few)
    images.step(start, columns.num_images[first], where="post", color=style.GREEN, **few)
    images.axhline(nbs, color=style.INK, linewidth=1, linestyle="--", label=f"nbs {nbs}")
    style.legend(images, loc="lower right")
    lr.plot(columns.images_before[spread], columns.lr[spread], color=style.ORANGE)
    momentum.plot(columns.images_before[spread], columns.momentum[spread], color=style.PURPLE)
    for axes, title, y_label in (
        (windows, "Windows, at the start", "micro-batches per update (K)"),
        (images, "Images per update, at the start", "images"),
        (lr, "Learning rate", "per nominal batch"),
        (momentum, "Momentum", ""),
    ):
        style.dress(axes, title, "images seen", y_label)
        style.count_axis(axes.xaxis)
    for axes in (windows, images):
        for begin in columns.epoch_images:
            axes.axvline(begin, color=style.FAINT, linewidth=0.6, linestyle=":")
        axes.set_ylim(bottom=0)
    lr.set_ylim(bottom=0)
    return style.save_png(figure, out)
