"""From what a format's reader found to the index of a split: the same checks for every format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from yolo_accum.contracts import DetectionIndex, StringTable
from yolo_accum.data import findings as found
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import FindingKind, FindingLog, Mark
from yolo_accum.data.images import UnreadableImageError
from yolo_accum.data.picture_size import PictureSize
from yolo_accum.data.written_sizes import WrittenSize, compare_sizes, turned_boxes

_ROUNDING_PX = 0.011
"""Boxes written with two decimals overshoot by up to 0.01 px; that is clipped without a word."""

MIN_SIDE_PX = 0.1
"""A box of which less is in the picture is no object: nobody draws one, and a pixel is ten times as wide."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RawSplit:
    """n pictures and b boxes as the reader found them, in columns, nothing dropped yet."""

    source: Path
    paths: Sequence[str]
    """n, absolute."""
    image_ids: Sequence[int | str]
    names: Sequence[str]
    """n, as the user wrote them, for messages."""
    sizes: Sequence[PictureSize | UnreadableImageError | None]
    """n; a picture without a size is left out of the index (None: the reader has reported why)."""
    image_of_box: np.ndarray
    """[b] int64, 0..n-1."""
    boxes_xyxy_px: np.ndarray
    """[b, 4] float64."""
    labels: np.ndarray
    """[b] int64, 0..c-1."""
    is_crowd: np.ndarray
    """[b] bool."""
    areas_px: np.ndarray
    """[b] float64; where it is not a positive number, the area of the box is taken."""
    place_of_box: Callable[[int], str]
    """Says where box number k is written."""
    classes: Classes
    written_sizes: Sequence[WrittenSize] = ()
    """n, or none in formats that write no sizes."""


def build_index(raw: RawSplit, log: FindingLog, reference: Classes | None = None) -> DetectionIndex:
    """Checks the boxes and sorts them by picture.

    Boxes without area, of negative width or height, outside the picture, with less than ``MIN_SIDE_PX`` of width or
    height in it, or given again are left out, boxes that leave it are clipped; ``log`` says so. Values that are no
    finite numbers and foreign classes are errors in ``log``.

    Args:
        raw: the split.
        log: takes the findings.
        reference: the classes to be numbered by, where they are not the split's own (a validation split is numbered
            by the training split's). The index then has these names and, in its ``class_ids``, the split's own ids.
    """
    is_usable = np.array([isinstance(size, PictureSize) for size in raw.sizes], bool)
    problems = [str(size) for size in raw.sizes if isinstance(size, UnreadableImageError)]
    log.add(found.UNREADABLE_PICTURE, raw.source, len(problems), problems)
    deep = [
        name for name, size in zip(raw.names, raw.sizes, strict=True) if isinstance(size, PictureSize) and size.bits > 8
    ]
    log.add(found.DEEP_PICTURE, raw.source, len(deep), deep)
    sizes = np.array([size[:2] if isinstance(size, PictureSize) else (0, 0) for size in raw.sizes], np.int32)
    sizes = sizes.reshape(-1, 2)

    if raw.written_sizes:
        raw = _as_shown(raw, compare_sizes(raw.source, raw.names, raw.written_sizes, raw.sizes, log))
    classes, labels = _numbered_by(reference, raw)
    kept, boxes = _checked_boxes(raw, labels, is_usable, sizes, log)

    order = kept[np.argsort(raw.image_of_box[kept], kind="stable")]
    num_boxes_of_image = np.bincount(raw.image_of_box[order], minlength=len(raw.paths))[is_usable]
    usable = np.flatnonzero(is_usable)
    boxes, areas = boxes[order], raw.areas_px[order]
    box_areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    index = DetectionIndex(
        source=raw.source,
        image_paths=StringTable([raw.paths[image] for image in usable.tolist()]),
        image_ids=tuple(raw.image_ids[image] for image in usable.tolist()),
        widths_px=np.ascontiguousarray(sizes[usable, 0]),
        heights_px=np.ascontiguousarray(sizes[usable, 1]),
        box_starts=np.concatenate([[0], np.cumsum(num_boxes_of_image)]).astype(np.int64),
        boxes_xyxy_px=boxes,
        labels=labels[order].astype(np.int32),
        is_crowd=raw.is_crowd[order],
        areas_px=np.where(np.isfinite(areas) & (areas > 0), areas, box_areas),
        class_names=classes.names,
        class_ids=classes.ids,
    )
    background = usable[num_boxes_of_image == 0]
    log.add(found.BACKGROUND, raw.source, len(background), (raw.names[image] for image in background.tolist()))
    return index


def _as_shown(raw: RawSplit, stored: Sequence[int]) -> RawSplit:
    """The same with the boxes of ``stored`` pictures, which their EXIF tags turn, turned with them."""
    boxes = raw.boxes_xyxy_px.copy() if stored else raw.boxes_xyxy_px
    for image in stored:
        size = raw.sizes[image]
        assert isinstance(size, PictureSize)
        rows = raw.image_of_box == image
        boxes[rows] = turned_boxes(boxes[rows], size)
    return replace(raw, boxes_xyxy_px=boxes)


def _numbered_by(reference: Classes | None, raw: RawSplit) -> tuple[Classes, np.ndarray]:
    """The classes of the index and [b] labels among them, -1 for a foreign class."""
    if reference is None:
        return raw.classes, raw.labels
    table = np.array(reference.correspondence(raw.classes), np.int64)
    return reference.with_ids_of(raw.classes), table[raw.labels]


def _checked_boxes(
    raw: RawSplit, labels: np.ndarray, is_usable: np.ndarray, sizes: np.ndarray, log: FindingLog
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the boxes that are kept, ascending, and [b, 4] the boxes, clipped."""
    is_kept = is_usable[raw.image_of_box]

    def mark(box: int) -> Mark:
        left, top, right, bottom = raw.boxes_xyxy_px[box].tolist()
        is_somewhere = np.isfinite(raw.boxes_xyxy_px[box]).all()
        return Mark(
            picture=raw.paths[raw.image_of_box[box]],
            box_xyxy_px=(left, top, right, bottom) if is_somewhere else None,
            label=raw.classes.names[raw.labels[box]],
        )

    def report(kind: FindingKind, affected: np.ndarray, describe: Callable[[int], str] = raw.place_of_box) -> None:
        rows = np.flatnonzero(affected)
        marks = (mark(int(box)) for box in rows)
        log.add(kind, raw.source, len(rows), (describe(int(box)) for box in rows), marks=marks)

    def drop(kind: FindingKind, is_bad: np.ndarray, describe: Callable[[int], str] = raw.place_of_box) -> None:
        report(kind, is_kept & is_bad, describe)
        is_kept[is_bad] = False

    is_finite = np.isfinite(raw.boxes_xyxy_px).all(1)
    drop(found.NOT_FINITE, ~is_finite)
    boxes = np.where(is_finite[:, None], raw.boxes_xyxy_px, 0.0)
    drop(found.INVERTED_BOX, np.any(boxes[:, 2:] < boxes[:, :2], axis=1))
    drop(found.ZERO_SIZE, np.any(boxes[:, 2:] <= boxes[:, :2], axis=1))

    clipped = np.clip(boxes, 0.0, np.tile(sizes, 2)[raw.image_of_box])
    drop(found.OUTSIDE, np.any(clipped[:, 2:] <= clipped[:, :2], axis=1))
    sides = clipped[:, 2:] - clipped[:, :2]

    def tiny(box: int) -> str:
        return f"{raw.place_of_box(box)}: {sides[box, 0]:.3g} x {sides[box, 1]:.3g} px"

    drop(found.TINY_BOX, np.any(sides < MIN_SIDE_PX, axis=1), tiny)
    report(found.CLIPPED, is_kept & (np.abs(clipped - boxes) > _ROUNDING_PX).any(1))

    def foreign(box: int) -> str:
        return f"{raw.place_of_box(box)}: class {raw.classes.names[raw.labels[box]]!r}"

    drop(found.FOREIGN_CLASS, labels < 0, foreign)

    kept = np.flatnonzero(is_kept)
    again = kept[_repeats(raw.image_of_box[kept], labels[kept], raw.is_crowd[kept], clipped[kept])]
    is_again = np.zeros(len(boxes), bool)
    is_again[again] = True
    drop(found.DUPLICATE_BOX, is_again)
    return np.flatnonzero(is_kept), clipped


def _repeats(image: np.ndarray, label: np.ndarray, is_crowd: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Positions of rows that equal an earlier one."""
    order = np.lexsort((*boxes.T, is_crowd, label, image))  # stable: the first of equal rows stays first
    table = np.column_stack([image, label, is_crowd, boxes])[order]
    return order[1:][(table[1:] == table[:-1]).all(1)]
