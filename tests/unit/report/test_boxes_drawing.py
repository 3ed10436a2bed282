"""Boxes lie where the coordinates say, also on pictures that were scaled down to be drawn."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from yolo_accum.report.boxes_drawing import MAX_TEXTS, draw_boxes, show_picture
from yolo_accum.report.style import new_figure


def picture(width_px: int = 200, height_px: int = 100) -> Axes:
    axes = new_figure(4, 2).subplots()
    show_picture(axes, np.zeros((height_px, width_px, 3), dtype=np.uint8))
    return axes


def outlines(axes: Axes) -> list[list[float]]:
    """left, top, right, bottom of each box."""
    (front,) = [item for item in axes.collections if isinstance(item, PolyCollection)][-1:]
    return [[*path.vertices.min(axis=0), *path.vertices.max(axis=0)] for path in front.get_paths()]


@pytest.mark.parametrize("size_px", [(200, 100), (4000, 3000)])
def test_axes_speak_pixel_edges_of_the_picture(size_px: tuple[int, int]) -> None:
    axes = picture(*size_px)
    assert axes.get_xlim() == (0, size_px[0]) and axes.get_ylim() == (size_px[1], 0)
    (image,) = axes.get_images()
    assert max(image.get_array().shape) <= 1024


def test_boxes_names_and_scores() -> None:
    axes = picture()
    boxes = np.array([[10, 30, 50, 80], [-5, 1, 220, 99]], dtype=np.float32)
    draw_boxes(axes, boxes, np.array([1, 0]), ["ψ $x_{", "a very long name of a class"], np.array([0.876, 0.5]))
    assert outlines(axes) == boxes.tolist()
    assert [text.get_text() for text in axes.texts] == ["a very long nam… 0.88", "ψ $x_{ 0.50"]
    assert axes.get_xlim() == (0, 200), "a box beyond the picture leaves the view as it is"


def test_texts_stay_inside_the_picture() -> None:
    axes = picture()
    boxes = np.array([[190, 50, 200, 60], [0, 0, 8, 8], [20, 0, 60, 100]])
    draw_boxes(axes, boxes, np.zeros(3, dtype=int), ["thing"])
    at = [(*text.get_position(), text.get_ha(), text.get_va()) for text in axes.texts]
    assert at == [(200, 50, "right", "bottom"), (0, 8, "left", "top"), (20, 0, "left", "top")]


def test_a_crowded_picture_has_outlines_only() -> None:
    axes = picture()
    boxes = np.tile([[1.0, 2, 3, 4]], (MAX_TEXTS + 1, 1))
    draw_boxes(axes, boxes, np.zeros(len(boxes), dtype=int), ["ant"])
    assert len(outlines(axes)) == MAX_TEXTS + 1 and not axes.texts


def test_no_boxes() -> None:
    axes = picture()
    draw_boxes(axes, np.zeros((0, 4)), np.zeros(0, dtype=int), [])
    assert not axes.collections and not axes.texts
