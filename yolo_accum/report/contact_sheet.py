"""Findings as pictures: a line a finding, a cell a place, the box in question drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from yolo_accum.errors import UserError, printable
from yolo_accum.report import style
from yolo_accum.report.boxes_drawing import NAME_LENGTH, show_picture

CELLS_A_LINE = 8
MAX_LINES = 14
MARGIN = 0.75
"""Surroundings that are shown on each side of a box, in lengths of its longer side ..."""
MIN_MARGIN_PX = 64
"""... and at least so many pixels."""
SEVERITY_COLOURS = {"error": style.RED, "warning": style.ORANGE, "info": style.BLUE}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One place of a finding."""

    picture: str
    """Path."""
    box_xyxy_px: tuple[float, float, float, float] | None
    """In pixels of the picture; may lie outside or have no area. None shows the whole picture."""
    label: str


@dataclass(frozen=True, kw_only=True)
class SheetLine:
    """One finding."""

    title: str
    severity: str
    cells: Sequence[Cell]


def plot_contact_sheet(lines: Sequence[SheetLine], out: Path, read_image: Callable[[str], np.ndarray]) -> Path:
    """Draw what was found.

    Args:
        lines: at least one; the first ``MAX_LINES`` are drawn, and of each the first ``CELLS_A_LINE`` cells.
        out: the PNG to write.
        read_image: [H, W, 3] uint8 RGB from a path; where it raises ``UserError`` the cell says so.
    Returns:
        ``out``.
    Raises:
        OSError: the file cannot be written (names it).
    """
    shown = lines[:MAX_LINES]
    num_columns = min(CELLS_A_LINE, max(4, *(len(line.cells) for line in shown)))
    figure = style.new_figure(2.3 * num_columns, 2.75 * len(shown) + 0.5)
    parts = figure.subfigures(len(shown), 1, squeeze=False)[:, 0]
    for line, part in zip(shown, parts, strict=True):
        text = style.shorten(f"{line.severity}: {line.title}", 26 * num_columns)
        part.suptitle(text, x=0.01, ha="left", fontsize=style.TITLE_PT, color=style.INK, parse_math=False)
        part.add_artist(Line2D([0.003, 0.003], [0.04, 0.96], color=SEVERITY_COLOURS[line.severity], linewidth=5))
        panels = part.subplots(1, num_columns, squeeze=False)[0]
        for axes in panels:
            axes.set_axis_off()
        for axes, cell in zip(panels, line.cells, strict=False):
            _draw_cell(axes, cell, read_image)
    return style.save_png(figure, out)


def _draw_cell(axes: Axes, cell: Cell, read_image: Callable[[str], np.ndarray]) -> None:
    name = printable(Path(cell.picture).name)
    axes.set_title(
        name if len(name) <= 30 else f"…{name[-29:]}", fontsize=7, color=style.INK, loc="left", pad=3, parse_math=False
    )
    try:
        image = read_image(cell.picture)
    except UserError:
        style.say_instead(axes, "cannot be read")
        return
    if cell.box_xyxy_px is None:
        show_picture(axes, image)
        return
    box = np.array(cell.box_xyxy_px)
    left, top, right, bottom = _window(box, image.shape[1], image.shape[0])
    first_x, first_y = max(left, 0), max(top, 0)
    # Only what is seen is scaled for drawing: a small box of a large picture stays sharp.
    show_picture(axes, image[first_y : max(bottom, first_y + 1), first_x : max(right, first_x + 1)])
    axes.set_xlim(left - first_x, right - first_x)
    axes.set_ylim(bottom - first_y, top - first_y)
    x, y = box[0] - first_x, box[1] - first_y
    width_px, height_px = box[2] - box[0], box[3] - box[1]
    for colour, line_pt in (("#000000", 3.0), (style.RED, 1.6)):
        axes.add_patch(Rectangle((x, y), width_px, height_px, fill=False, edgecolor=colour, linewidth=line_pt))
    if min(width_px, height_px) <= 0:
        axes.plot(x + width_px / 2, y + height_px / 2, "+", color=style.RED, markersize=14, markeredgewidth=2)
    axes.text(
        0.03, 0.97, style.shorten(cell.label, NAME_LENGTH), transform=axes.transAxes, ha="left", va="top", fontsize=7,
        color="white", bbox={"facecolor": style.INK, "edgecolor": "none", "pad": 0.8}, parse_math=False,
    )  # fmt: skip


def _window(box: np.ndarray, width_px: int, height_px: int) -> tuple[int, int, int, int]:
    """Left, top, right, bottom of what is shown: the box and its surroundings, some of the picture in any case."""
    low, high = np.minimum(box[:2], box[2:]), np.maximum(box[:2], box[2:])
    margin = max(MARGIN * float((high - low).max()), MIN_MARGIN_PX)
    size = np.array([width_px, height_px])
    low, high = np.minimum(low - margin, size - margin), np.maximum(high + margin, margin)
    # A box that is far larger than the picture would leave a dot of it.
    low, high = np.maximum(low, -size), np.minimum(high, 2 * size)
    left, top, right, bottom = np.concatenate([np.floor(low), np.ceil(high)]).astype(int)
    return left, top, right, bottom
