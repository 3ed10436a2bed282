"""Pictures with their boxes side by side, as the network gets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from yolo_accum.report import style
from yolo_accum.report.boxes_drawing import draw_boxes, show_picture


@dataclass(frozen=True, kw_only=True, eq=False)
class GridPicture:
    """One picture of a grid."""

    image: np.ndarray
    """[H, W, 3] uint8, RGB."""
    boxes_xyxy_px: np.ndarray
    """[N, 4], pixels of the picture."""
    labels: np.ndarray
    """[N]."""
    caption: str


def plot_grid(pictures: Sequence[GridPicture], class_names: Sequence[str], title: str, out: Path) -> Path:
    """Draw pictures in a grid that is about as wide as high.

    Args:
        pictures: any number.
        class_names: names by label.
        title: above all of them.
        out: the PNG to write.
    Returns:
        ``out``.
    Raises:
        OSError: the file cannot be written (names it).
    """
    columns = max(1, int(np.ceil(np.sqrt(len(pictures)))))
    rows = max(1, -(-len(pictures) // columns))
    figure = style.new_figure(4 * columns, 4.25 * rows, title)
    panels = figure.subplots(rows, columns, squeeze=False)
    for axes in panels.flat:
        axes.set_axis_off()
    for axes, picture in zip(panels.flat, pictures, strict=False):
        show_picture(axes, picture.image)
        draw_boxes(axes, picture.boxes_xyxy_px, picture.labels, class_names)
        text = style.shorten(picture.caption, 60)
        axes.set_title(text, fontsize=style.SMALL_PT, color=style.FAINT, loc="left", pad=3, parse_math=False)
    return style.save_png(figure, out)
