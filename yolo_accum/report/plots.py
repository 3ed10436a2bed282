"""The pictures of a run: its curves, its labels, its first training batches, its predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from yolo_accum.contracts import Batch, DetectionIndex, Detections
from yolo_accum.errors import UserError
from yolo_accum.report import label_panels, style
from yolo_accum.report.boxes_drawing import draw_boxes, show_picture
from yolo_accum.report.curve_panels import RESULT_PANELS
from yolo_accum.report.label_statistics import label_statistics
from yolo_accum.report.picture_grid import GridPicture, plot_grid
from yolo_accum.report.records import read_epochs, read_updates

MAX_BATCH_PICTURES = 16
MAX_VAL_PICTURES = 8


def plot_results(folder: Path) -> Path:
    """Draw ``updates.csv`` and ``epochs.csv`` of a run folder into its ``results.png``, all against images seen.

    Works on a run that goes on, and on one without validation or without any update.

    Returns:
        The path of the picture.
    Raises:
        OSError: a file cannot be read or written (names it).
    """
    updates, epochs = read_updates(folder), read_epochs(folder)
    figure = style.new_figure(20, 9.5, f"Training run {folder.resolve().name}")
    panels = figure.subplots(2, 4)
    for axes, (title, y_label, draw) in zip(panels.flat, RESULT_PANELS, strict=True):
        style.dress(axes, title, "images seen", y_label)
        if not updates:
            style.say_instead(axes, "no update yet")
            continue
        draw(axes, updates, epochs)
        style.count_axis(axes.xaxis)
        axes.set_xlim(left=0)
    return style.save_png(figure, folder / "results.png")


def plot_labels(index: DetectionIndex, out: Path, imgsz: int) -> Path:
    """Draw what the labels look like: classes, objects an image, sizes, places.

    Args:
        index: a split; crowd regions are counted, and left out of the drawings.
        out: the PNG to write.
        imgsz: side of the network input in pixels; sizes are drawn as the network sees them.
    Returns:
        ``out``.
    Raises:
        OSError: the file cannot be written (names it).
    """
    statistics = label_statistics(index, imgsz)
    num_rows = min(index.num_classes, label_panels.MAX_CLASS_BARS)
    figure = style.new_figure(18, max(9.5, 0.26 * num_rows + 1.5), f"Labels of {index.source.name}")
    grid = figure.add_gridspec(2, 3, width_ratios=(1.25, 1, 1))
    panels = [figure.add_subplot(place) for place in (grid[:, 0], grid[0, 1], grid[0, 2], grid[1, 1], grid[1, 2])]
    style.dress(panels[0], label_panels.caption(statistics), "objects")
    label_panels.draw_classes(panels[0], index.class_names, statistics.boxes_per_class)
    style.dress(panels[1], "Objects per image", "objects in the image", "images")
    label_panels.draw_objects_per_image(panels[1], statistics)
    px = f"px of the {imgsz} px network input"
    for axes, title, x_label, y_label, draw in (
        (panels[2], "Size of objects", f"√(width x height), {px}", "objects", label_panels.draw_sizes),
        (panels[3], "Where objects lie", "x, share of the width", "y, share of the height", label_panels.draw_centres),
        (panels[4], "Width and height of objects", f"width, {px}", "height, px", label_panels.draw_sides),
    ):
        style.dress(axes, title, x_label, y_label)
        if len(statistics.sides_px):
            draw(axes, statistics)
        else:
            style.say_instead(axes, "no objects")
    return style.save_png(figure, out)


def plot_batches(batches: Sequence[Batch], class_names: Sequence[str], out: Path) -> Path:
    """Draw training pictures as the network gets them, with their boxes.

    Args:
        batches: the first 16 pictures of them are drawn.
        class_names: names by label.
        out: the PNG to write.
    Returns:
        ``out``.
    Raises:
        OSError: the file cannot be written (names it).
    """
    pictures = [(batch, place) for batch in batches for place in range(batch.num_images)][:MAX_BATCH_PICTURES]
    return plot_grid([_grid_picture(batch, place) for batch, place in pictures], class_names, "Training pictures", out)


def _grid_picture(batch: Batch, place: int) -> GridPicture:
    own = (batch.sample_of_box == place).numpy(force=True)
    return GridPicture(
        image=batch.images[place].numpy(force=True).transpose(1, 2, 0),
        boxes_xyxy_px=batch.boxes_xyxy_px.numpy(force=True)[own],
        labels=batch.labels.numpy(force=True)[own],
        caption=f"objects: {own.sum()}",
    )


def plot_val_predictions(
    index: DetectionIndex,
    detections: Sequence[Detections],
    out: Path,
    read_image: Callable[[str], np.ndarray],
    *,
    min_score: float = 0.25,
) -> Path:
    """Draw the truth beside what was found, for a few pictures spread over the validation set.

    Args:
        index: the validation set.
        detections: at most one entry an image.
        out: the PNG to write.
        read_image: [H, W, 3] uint8 RGB from a path; a picture that it refuses (``UserError``) is left grey.
        min_score: detections below this score are not drawn, only counted.
    Returns:
        ``out``.
    Raises:
        OSError: the file cannot be written (names it).
    """
    found = {item.image_index: item for item in detections}
    chosen = _spread(index, MAX_VAL_PICTURES)
    num_pairs = 2 if len(chosen) > 1 else 1
    lines = [chosen[start : start + num_pairs] for start in range(0, len(chosen), num_pairs)]
    # A line of the grid is as high as its highest picture, plus a line of text.
    heights_in = [4 * max(_aspect(index, row) for row in line) + 0.3 for line in lines] or [1.0]
    title = f"Validation: truth (left) and predictions with a score of at least {min_score:g} (right)"
    figure = style.new_figure(8.5 * num_pairs, sum(heights_in) + 0.6, title)
    panels = figure.subplots(len(heights_in), 2 * num_pairs, squeeze=False, height_ratios=heights_in)
    for axes in panels.flat:
        axes.set_axis_off()
        axes.set_anchor("NW")
    for (truth_axes, found_axes), row in zip(panels.reshape(-1, 2), chosen, strict=False):
        try:
            image = read_image(index.image_paths[row])
        except UserError:
            image = np.full((int(index.heights_px[row]), int(index.widths_px[row]), 3), 160, dtype=np.uint8)
        for axes in (truth_axes, found_axes):
            show_picture(axes, image)
        _draw_truth(truth_axes, index, row)
        _draw_found(found_axes, index, found.get(row), min_score)
    return style.save_png(figure, out)


def _aspect(index: DetectionIndex, row: int) -> float:
    """Height over width of a picture; of a tower, what its cell shows of it."""
    return min(float(index.heights_px[row] / index.widths_px[row]), 1.2)


def _spread(index: DetectionIndex, number: int) -> list[int]:
    """Rows at equal distances, of images with objects if there are any."""
    rows = np.flatnonzero(np.diff(index.box_starts) > 0)
    if not len(rows):
        rows = np.arange(len(index))
    places = np.linspace(0, len(rows) - 1, min(number, len(rows)))
    return [int(row) for row in rows[places.round().astype(int)]]


def _draw_truth(axes: Axes, index: DetectionIndex, row: int) -> None:
    rows = index.rows(row)
    objects = ~index.is_crowd[rows]
    draw_boxes(axes, index.boxes_xyxy_px[rows][objects], index.labels[rows][objects], index.class_names)
    _name(axes, f"image {index.image_ids[row]}, objects: {objects.sum()}")


def _draw_found(axes: Axes, index: DetectionIndex, found: Detections | None, min_score: float) -> None:
    if found is None or not len(found.scores):
        _name(axes, "nothing found")
        return
    shown = found.scores >= min_score
    # The best is drawn last, on top.
    boxes, labels, scores = found.boxes_xyxy_px[shown], found.labels[shown], found.scores[shown]
    draw_boxes(axes, boxes[::-1], labels[::-1], index.class_names, scores[::-1])
    hidden = int((~shown).sum())
    _name(axes, f"found: {shown.sum()}, and {hidden} below {min_score:g} (best score {found.scores.max():.2f})")


def _name(axes: Axes, text: str) -> None:
    axes.set_title(
        style.shorten(text, 60), fontsize=style.SMALL_PT, color=style.INK, loc="left", pad=3, parse_math=False
    )
