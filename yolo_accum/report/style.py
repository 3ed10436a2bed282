"""How the pictures of a run look: one palette, one set of font sizes, files that appear when they are complete."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

from yolo_accum.errors import printable
from yolo_accum.report.lettering import use_fonts_that_have_the_letters

BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
)
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW)
"""Told apart by all common kinds of colour vision. Source: Okabe & Ito 2008, "Color Universal Design"."""
INK = "#222222"
FAINT = "#8A8A8A"
SEQUENTIAL = "cividis"
"""Colour map of counts; even in lightness, for all kinds of colour vision."""

TITLE_PT, TEXT_PT, SMALL_PT = 12, 10, 9
DPI = 120


def new_figure(width_in: float, height_in: float, title: str = "") -> Figure:
    """A figure of its own, outside pyplot's global state."""
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)  # inches
    figure = Figure(figsize=(width_in, height_in), dpi=DPI, layout=layout, facecolor="white")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, fontsize=TITLE_PT + 2, color=INK, parse_math=False)
    return figure


def dress(axes: Axes, title: str, x_label: str = "", y_label: str = "") -> None:
    """Title, labels, a light grid and no frame where no axis is."""
    axes.set_title(title, fontsize=TITLE_PT, color=INK, loc="left")
    axes.set_xlabel(x_label, fontsize=TEXT_PT, color=INK)
    axes.set_ylabel(y_label, fontsize=TEXT_PT, color=INK)
    axes.tick_params(labelsize=SMALL_PT, colors=INK)
    axes.grid(True, color="#E4E4E4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def count_axis(axis: Axis) -> None:
    """Whole numbers with k, M for thousands and millions: 20 k."""
    axis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.set_major_formatter(EngFormatter(sep=" "))


def plain_log_ticks(axis: Axis) -> None:
    """Ticks of a logarithmic axis as plain numbers, at 1, 2 and 5 times the powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    axis.set_major_formatter(EngFormatter(sep=" "))
    axis.set_minor_formatter(NullFormatter())


def legend(axes: Axes, **options: Any) -> None:
    """A legend on a white ground, where lines may run behind it."""
    look: dict[str, Any] = {"frameon": True, "framealpha": 0.85, "edgecolor": "none", "labelcolor": INK}
    axes.legend(fontsize=SMALL_PT, title_fontsize=SMALL_PT, **look, **options)


def say_instead(axes: Axes, text: str) -> None:
    """A sentence where there is nothing to draw."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=TEXT_PT, color=FAINT, transform=axes.transAxes)


def shorten(text: str, length: int) -> str:
    """At most ``length`` characters, all of which can be drawn; what is missing is marked."""
    text = printable(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def save_png(figure: Figure, path: Path) -> Path:
    """Write the figure; a reader never sees half a file.

    Raises:
        OSError: the file cannot be written (names it).
    """
    temporary = path.with_name(f"{path.name}.part")
    use_fonts_that_have_the_letters(figure)
    try:
        with warnings.catch_warnings():
            # A file name in letters that no font has is drawn as boxes; a warning a letter helps nobody.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure.savefig(temporary, format="png")
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return path
