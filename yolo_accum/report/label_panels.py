"""The panels of ``labels.png``: each draws one side of the label statistics."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.ticker import PercentFormatter, ScalarFormatter

from yolo_accum.report import style
from yolo_accum.report.label_statistics import SIZE_MARKS_PX, LabelStatistics
from yolo_accum.report.lettering import class_label

MAX_CLASS_BARS = 40
MIN_CLASS_ROWS = 10
"""Room for at least so many bars: two classes need no bars of a hand's breadth."""


def caption(statistics: LabelStatistics) -> str:
    lines = f"{statistics.boxes_per_class.sum():,} objects in {len(statistics.boxes_per_image):,} images"
    return f"{lines}\n{statistics.num_crowd:,} crowd regions left out" if statistics.num_crowd else lines


def draw_classes(axes: Axes, class_names: Sequence[str], counts: np.ndarray) -> None:
    """A bar a class, most frequent first; of many classes the most frequent and the rarest."""
    order = np.argsort(-counts, kind="stable")
    names = [style.shorten(class_label(class_names, label), 24) for label in order]
    values = list(counts[order])
    if len(order) > MAX_CLASS_BARS:
        head = MAX_CLASS_BARS // 2
        tail = MAX_CLASS_BARS - head - 1
        names = [*names[:head], f"… {len(order) - head - tail} more classes …", *names[-tail:]]
        values = [*values[:head], 0, *values[-tail:]]
        hidden = head
    else:
        hidden = -1
    places = np.arange(len(names))
    axes.barh(places, values, color=style.BLUE, height=0.75)
    highest = max(max(values, default=0), 1)
    for place, value in enumerate(values):
        if place != hidden:
            text = f"{value:,}"
            axes.text(value + highest / 100, place, text, va="center", fontsize=style.SMALL_PT, color=style.INK)
    axes.set_yticks(places, names, parse_math=False)
    axes.set_ylim(max(len(names), MIN_CLASS_ROWS) - 0.4, -0.6)
    axes.set_xlim(0, 1.13 * highest)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    style.count_axis(axes.xaxis)


def draw_objects_per_image(axes: Axes, statistics: LabelStatistics) -> None:
    counts = statistics.boxes_per_image
    empty = statistics.num_images_without_objects
    step = max(1, int(np.ceil(counts.max(initial=1) / 50)))
    edges = np.arange(1, counts.max(initial=1) + step + 1, step) - 0.5
    axes.hist(counts[counts > 0], bins=list(edges), color=style.BLUE, rwidth=0.9)
    axes.bar(
        0.5 - step / 2, empty, width=0.9 * step, color=style.ORANGE,
        label=f"without objects: {empty:,} of {len(counts):,} ({empty / max(len(counts), 1):.1%})",
    )  # fmt: skip
    middle = float(np.median(counts)) if len(counts) else 0
    label = f"median {middle:g}, most {counts.max(initial=0)}"
    axes.axvline(middle, color=style.INK, linewidth=1, linestyle="--", label=label)
    style.count_axis(axes.xaxis)
    style.count_axis(axes.yaxis)
    axes.set_ylim(top=1.2 * axes.get_ylim()[1])
    style.legend(axes, loc="upper right")


def draw_sizes(axes: Axes, statistics: LabelStatistics) -> None:
    sizes = statistics.sizes_px
    low, high = np.floor(np.log2(min(sizes.min(), 4))), np.ceil(np.log2(max(sizes.max(), 128)))
    axes.hist(sizes, bins=list(2 ** np.arange(low, high + 0.01, 0.25)), color=style.BLUE)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.set_xlim(2**low, 2**high)
    style.count_axis(axes.yaxis)
    axes.set_ylim(top=1.15 * axes.get_ylim()[1])
    bounds = (0, *SIZE_MARKS_PX, np.inf)
    for mark in SIZE_MARKS_PX:
        axes.axvline(mark, color=style.RED, linewidth=1.2, linestyle="--")
    for lower, upper in itertools.pairwise(bounds):
        share = np.mean((sizes >= lower) & (sizes < upper))
        middle = np.sqrt(max(lower, 2**low) * min(upper, 2**high))
        axes.text(
            middle, 0.98, f"{share:.0%}", ha="center", va="top", fontsize=style.SMALL_PT, color=style.RED,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    for mark in SIZE_MARKS_PX:
        axes.text(
            mark * 1.04, 0.91, str(mark), ha="left", va="top", fontsize=style.SMALL_PT, color=style.RED,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip


def draw_centres(axes: Axes, statistics: LabelStatistics) -> None:
    x, y = statistics.centres_norm.T
    cells = int(np.clip(np.sqrt(len(x)) / 2, 8, 48))
    *_, image = axes.hist2d(x, y, bins=cells, range=[[0, 1], [0, 1]], cmap=style.SEQUENTIAL)
    style.count_axis(_add_colour_bar(axes, image))
    axes.invert_yaxis()
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1))


def draw_sides(axes: Axes, statistics: LabelStatistics) -> None:
    sides = statistics.sides_px
    edges = 2 ** np.linspace(np.log2(max(sides.min(), 0.5)) - 0.1, np.log2(sides.max()) + 0.1, 48)
    widths_px, heights_px = sides.T
    look: dict[str, Any] = {"cmap": style.SEQUENTIAL, "norm": LogNorm(), "cmin": 1}
    counts, _, _, image = axes.hist2d(widths_px, heights_px, [edges, edges], **look)
    image.set_clim(1, max(np.nanmax(counts), 10))
    style.plain_log_ticks(_add_colour_bar(axes, image))
    for axis, set_scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        set_scale("log", base=2)
        axis.set_major_formatter(ScalarFormatter())


def _add_colour_bar(axes: Axes, image: QuadMesh) -> Axis:
    """The axis of the new bar."""
    axes.grid(False)
    bar = axes.get_figure(root=True).colorbar(image, ax=axes, pad=0.02)  # type: ignore[union-attr]
    bar.set_label("objects", fontsize=style.SMALL_PT, color=style.INK)
    bar.ax.tick_params(labelsize=style.SMALL_PT, colors=style.INK)
    return bar.ax.yaxis
