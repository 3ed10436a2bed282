"""One picture with what was found in it, as a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from yolo_accum.contracts import Detections
from yolo_accum.report.boxes_drawing import MAX_SIDE_PX, draw_boxes, show_picture
from yolo_accum.report.lettering import use_fonts_that_have_the_letters

MIN_SIDE_PX = 640
"""Longer side below which a picture is enlarged, so that the names can be read."""
SHORTEST_SIDE_PX = 2
"""Of what is drawn."""
DPI = 100


def save_detections(image: np.ndarray, found: Detections, class_names: Sequence[str], path: Path) -> None:
    """Write a picture with its detections; the format is that of the suffix.

    Args:
        image: [H, W, 3] uint8, RGB.
        found: boxes in pixels of ``image``.
        class_names: c names.
        path: is replaced if it exists.
    Raises:
        OSError: the file cannot be written.
    """
    height_px, width_px = image.shape[:2]
    longer_px = max(height_px, width_px)
    inches_per_px = min(max(longer_px, MIN_SIDE_PX), MAX_SIDE_PX) / longer_px / DPI
    # A picture of 5,000 x 1 px would otherwise be drawn with no height at all.
    sides_inches = (max(side_px * inches_per_px, SHORTEST_SIDE_PX / DPI) for side_px in (width_px, height_px))
    figure = Figure(figsize=tuple(sides_inches), dpi=DPI)
    axes = figure.add_axes((0, 0, 1, 1))
    show_picture(axes, image)
    # Best last, so that it lies on top.
    draw_boxes(axes, found.boxes_xyxy_px[::-1], found.labels[::-1], class_names, found.scores[::-1])
    use_fonts_that_have_the_letters(figure)
    figure.savefig(path, dpi=DPI)
