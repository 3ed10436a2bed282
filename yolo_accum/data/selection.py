"""A part of a data set: some classes, all classes as one, a share of the pictures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from yolo_accum.config.options import closest
from yolo_accum.config.schema import DataConfig
from yolo_accum.contracts import DetectionIndex, StringTable
from yolo_accum.data.classes import Classes
from yolo_accum.data.order import Stream, keyed_rng
from yolo_accum.errors import UserError

SINGLE_CLASS = Classes(names=("object",), ids=(0,))
"""What ``--single-cls`` makes of all classes."""


def select(
    train: DetectionIndex, val: DetectionIndex | None, config: DataConfig
) -> tuple[DetectionIndex, DetectionIndex | None]:
    """The splits that a training uses, by ``--classes``, ``--single-cls`` and ``--fraction`` (of ``train`` alone).

    Args:
        train: the training split.
        val: the validation split, numbered as ``train``.
    Raises:
        UserError: ``--classes`` names a class that the data set does not have.
    """
    labels = chosen_labels(train, config)
    if config.fraction < 1:
        num_rows = max(1, round(config.fraction * len(train)))
        # Not of the run's seed: runs with other seeds are to be compared on the same pictures. A larger fraction holds
        # the smaller one.
        order = keyed_rng(0, 0, 0, Stream.FRACTION).permutation(len(train))
        train = with_rows(train, np.sort(order[:num_rows]))
    return (
        with_classes(train, labels, config.single_cls),
        with_classes(val, labels, config.single_cls) if val is not None else None,
    )


def chosen_labels(index: DetectionIndex, config: DataConfig) -> np.ndarray:
    """The labels that ``--classes`` names, by id or by name, ascending; all without it.

    Raises:
        UserError: there is no such class.
    """
    if not config.classes:
        return np.arange(index.num_classes)
    ids = [str(number) for number in index.class_ids]
    chosen: set[int] = set()
    for word in config.classes:
        known = ids if word in ids else index.class_names
        found = [label for label, name in enumerate(known) if name == word]
        if not found:
            pairs = ", ".join(f"{number} {name}" for number, name in zip(ids, index.class_names, strict=True))
            raise UserError(
                f"--classes {word}: {index.source} has no class with this id or name"
                f"{closest(word, index.class_names)}; there are {pairs:.600}"
            )
        chosen.update(found)
    return np.array(sorted(chosen))


def with_classes(index: DetectionIndex, labels: np.ndarray, as_one: bool = False) -> DetectionIndex:
    """The same pictures with the boxes of some classes, which are numbered anew and keep their names and ids.

    Args:
        index: of any split.
        labels: ascending, at least one.
        as_one: take them all for the one class ``object``; a single one keeps its name and id.
    """
    if len(labels) == index.num_classes and not as_one:
        return index
    new_labels = np.full(index.num_classes, -1, dtype=np.int32)
    new_labels[labels] = 0 if as_one else np.arange(len(labels))
    keep = new_labels[index.labels] >= 0
    merged = as_one and len(labels) > 1
    image_of_box = np.repeat(np.arange(len(index)), np.diff(index.box_starts))
    return replace(
        index,
        box_starts=_starts(np.bincount(image_of_box[keep], minlength=len(index))),
        boxes_xyxy_px=index.boxes_xyxy_px[keep],
        labels=new_labels[index.labels[keep]],
        is_crowd=index.is_crowd[keep],
        areas_px=index.areas_px[keep],
        class_names=SINGLE_CLASS.names if merged else tuple(index.class_names[label] for label in labels),
        class_ids=SINGLE_CLASS.ids if merged else tuple(index.class_ids[label] for label in labels),
    )


def with_rows(index: DetectionIndex, rows: np.ndarray) -> DetectionIndex:
    """Some pictures with their boxes, in the order given.

    Args:
        rows: [k] of the index, each at most once.
    """
    counts = np.diff(index.box_starts)[rows]
    starts = _starts(counts)
    boxes = np.repeat(index.box_starts[rows] - starts[:-1], counts) + np.arange(starts[-1])
    return replace(
        index,
        image_paths=StringTable([index.image_paths[int(row)] for row in rows]),
        image_ids=tuple(index.image_ids[int(row)] for row in rows),
        widths_px=index.widths_px[rows],
        heights_px=index.heights_px[rows],
        box_starts=starts,
        boxes_xyxy_px=index.boxes_xyxy_px[boxes],
        labels=index.labels[boxes],
        is_crowd=index.is_crowd[boxes],
        areas_px=index.areas_px[boxes],
    )


def renumbered(index: DetectionIndex, reference: Classes) -> DetectionIndex:
    """The same boxes, labels numbered by other classes, which must hold all of the index; ids stay those of the index.

    Raises:
        UserError: a class of the index is not among them.
    """
    own = Classes(names=index.class_names, ids=index.class_ids)
    table = np.array(reference.correspondence(own), dtype=np.int32)
    if (table < 0).any():
        foreign = [own.names[label] for label in np.flatnonzero(table < 0)]
        raise UserError(
            f"{index.source}: the weights do not know the class {', '.join(foreign[:5])}; they know "
            f"{', '.join(reference.names)}"
        )
    numbered = reference.with_ids_of(own)
    return replace(index, labels=table[index.labels], class_names=numbered.names, class_ids=numbered.ids)


def _starts(counts: np.ndarray) -> np.ndarray:
    """[n + 1] int64: where the boxes of each picture begin."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
