"""Pictures with boxes on them, as matplotlib axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import cv2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from yolo_accum.report.lettering import class_label
from yolo_accum.report.style import COLOURS, shorten

MAX_TEXTS = 30
"""Above this number of boxes in one picture their names would hide the picture: colours only."""
MAX_SIDE_PX = 1024
"""Pictures are scaled down to this before they are drawn; no cell of a figure shows more."""
NAME_LENGTH = 16


def show_picture(axes: Axes, image: np.ndarray) -> None:
    """Fill the axes with a picture; coordinates are pixel edges of the picture as given, y downwards.

    Args:
        image: [H, W, 3] uint8, RGB.
    """
    height_px, width_px = image.shape[:2]
    shrink = MAX_SIDE_PX / max(height_px, width_px)
    if shrink < 1:
        target = (max(1, round(width_px * shrink)), max(1, round(height_px * shrink)))
        image = cv2.resize(image, target, interpolation=cv2.INTER_AREA)
    axes.imshow(image, extent=(0, width_px, height_px, 0), interpolation="antialiased")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def draw_boxes(
    axes: Axes,
    boxes_xyxy_px: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
    scores: np.ndarray | None = None,
    *,
    text_pt: float = 7,
) -> None:
    """Outline boxes in the colour of their class, and write the class above each.

    Args:
        boxes_xyxy_px: [N, 4], in the coordinates of the picture that the axes show; drawn in this order.
        labels: [N] integers, 0..c-1.
        class_names: c names; any characters.
        scores: [N], written after the name.
    """
    if not len(boxes_xyxy_px):
        return
    left, top, right, bottom = boxes_xyxy_px.T
    corners = np.stack([left, top, right, top, right, bottom, left, bottom], axis=1).reshape(-1, 4, 2)
    colours = [COLOURS[label % len(COLOURS)] for label in labels]
    limits = axes.get_xlim(), axes.get_ylim()
    # A thin coloured line on a wider dark one shows on light and dark ground.
    for line_colours, width_pt in ((["#000000"] * len(labels), 2.4), (colours, 1.3)):
        axes.add_collection(
            PolyCollection(list(corners), facecolors="none", edgecolors=line_colours, linewidths=width_pt)
        )
    axes.set_xlim(limits[0])
    axes.set_ylim(limits[1])
    if len(labels) > MAX_TEXTS:
        return
    for place, (label, colour) in enumerate(zip(labels, colours, strict=True)):
        text = shorten(class_label(class_names, label), NAME_LENGTH)
        if scores is not None:
            text += f" {scores[place]:.2f}"
        x, y, across, along = _place_of_text(boxes_xyxy_px[place], limits[0][1], limits[1][0])
        axes.text(
            x,
            y,
            text,
            fontsize=text_pt,
            color=ink_on(colour),
            ha=across,
            va=along,
            bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.8, "alpha": 0.9},
            clip_on=True,
            parse_math=False,
        )


def _place_of_text(
    box: np.ndarray, width_px: float, height_px: float
) -> tuple[float, float, Literal["left", "right"], Literal["top", "bottom"]]:
    """Above the box; where the picture ends, inside a high box and below a low one; at the right, to the left."""
    left, top, right, bottom = (float(value) for value in box)
    at_right = left > 0.8 * width_px
    x = min(right, width_px) if at_right else max(left, 0)
    across: Literal["left", "right"] = "right" if at_right else "left"
    line_px = 0.05 * height_px
    if top > line_px:
        return x, top, across, "bottom"
    return x, (max(top, 0) if bottom - top > 3 * line_px else bottom), across, "top"


def ink_on(colour: str) -> str:
    """Black or white, whichever reads better on the colour (relative luminance of sRGB, roughly)."""
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return "black" if 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.18 else "white"
