"""From the options --data, --val-data and --images to the splits of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from yolo_accum.config.schema import DataConfig
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import Finding, FindingLog
from yolo_accum.data.formats.coco import read_coco
from yolo_accum.data.formats.data_yaml import SPLITS
from yolo_accum.data.formats.layout_files import FILE_SUFFIXES, Binder, Layout, SplitReader
from yolo_accum.data.formats.layouts import find_layout
from yolo_accum.data.own_folders import own_folders
from yolo_accum.data.selection import chosen_labels, renumbered, select, with_classes
from yolo_accum.errors import UserError


@dataclass(frozen=True, kw_only=True, eq=False)
class DataSplits:
    """What a training run works on."""

    train: DetectionIndex
    val: DetectionIndex | None
    """Labels numbered as in ``train``; None where the data set names no validation split."""
    findings: tuple[Finding, ...]
    """Warnings and notes; errors have been raised."""


def open_data(config: DataConfig, *, default_data: Path | None = None) -> DataSplits:
    """Reads the training split and, where there is one, the validation split.

    Args:
        config: --data, --val-data, --images and --val-images. The latter are relative to the working directory, what
            a data YAML says is relative to that file.
        default_data: data YAML to use without --data.
    Raises:
        UserError: names everything that is wrong, with file and line or id, and what is allowed.
    """
    log = FindingLog()
    read_train = split_reader(config, "train", log, default_data=default_data)
    read_val = split_reader(config, "val", log, default_data=default_data)
    if read_train is None:
        raise UserError(no_training_split(config, default_data))
    train = read_train(log, is_training=True)
    val = read_val(log, reference=classes_of(train)) if read_val is not None else None
    log.raise_errors()
    train, val = select(train, val, config)
    require_trainable(train, val, log)
    return DataSplits(train=train, val=val, findings=log.findings)


def split_reader(
    config: DataConfig, split: str, log: FindingLog, *, default_data: Path | None = None
) -> SplitReader | None:
    """What reads one split of the data that are trained on; None where they have no such split.

    Raises:
        UserError: the description of the data, or what it names for this split, cannot be used.
    """
    layout = _layout(config, log, default_data)
    if not layout.is_single:
        bind = layout.splits.get(split)
        return bind(log) if bind is not None else None
    if split == "train":
        return layout.splits[""](log)
    if split == "val" and config.val_data is not None:
        return _only_split(_val_layout(config, log))(log)
    return None


def no_training_split(config: DataConfig, default_data: Path | None = None) -> str:
    """What is told where a training split is needed and none is named."""
    path = _data_path(config, default_data)
    return f"{path} names no training split; a line such as 'train: images/train' is needed"


def require_trainable(train: DetectionIndex, val: DetectionIndex | None, log: FindingLog) -> None:
    """What the two splits of a training must have, and what is odd about them.

    Raises:
        UserError: a split has no picture, or the training split no object.
    """
    _refuse_no_pictures(train, log)
    num_boxes = np.bincount(train.labels[~train.is_crowd], minlength=train.num_classes)
    if not num_boxes.any():
        known = "".join(f"\n{finding}" for finding in log.findings)
        raise UserError(f"{train.source}: no picture of the training split has an object to learn{known}")
    empty = [name for name, number in zip(train.class_names, num_boxes, strict=True) if not number]
    log.add(found.EMPTY_CLASS, train.source, len(empty), empty)
    if val is not None:
        _refuse_no_pictures(val, log)
        _report_no_objects(val, log)
        both = sorted(set(train.image_paths) & set(val.image_paths))
        log.add(found.SHARED_PICTURE, val.source, len(both), both)


def open_split(
    config: DataConfig, split: str = "val", *, default_data: Path | None = None, classes: Classes | None = None
) -> tuple[DetectionIndex, tuple[Finding, ...]]:
    """Reads one split to evaluate or to look at.

    Args:
        config: as for ``open_data``; a COCO JSON as --data is the split itself, whatever ``split`` says, unless
            --val-data names the validation split.
        split: which one of a data YAML's.
        default_data: data YAML to use without --data.
        classes: number the labels by these (those of the weights), matched by name; by default the split's own.
    Returns:
        The split, and warnings and notes.
    Raises:
        UserError: as for ``open_data``; the data set has no such split.
    """
    log = FindingLog()
    layout = _layout(config, log, default_data)
    if layout.is_single:
        reader = _only_split(layout if config.val_data is None else _val_layout(config, log))(log)
    elif split in layout.splits:
        reader = layout.splits[split](log)
    else:
        raise UserError(f"{layout.path} names no split {split!r}; it has {', '.join(layout.splits)}")
    is_part = bool(config.classes) or config.single_cls
    index = reader(log, reference=None if is_part else classes)
    log.raise_errors()
    if is_part:
        index = with_classes(index, chosen_labels(index, config), config.single_cls)
        index = renumbered(index, classes) if classes is not None else index
    _refuse_no_pictures(index, log)
    _report_no_objects(index, log)
    return index, log.findings


@dataclass(frozen=True, kw_only=True, eq=False)
class AllSplits:
    """Everything that a data set describes, each split by its own classes."""

    kind: str
    splits: Mapping[str, DetectionIndex]
    """train, val and test, those that there are; a single split that has no name counts as train."""
    has_image_ids: bool
    """Whether the data set numbers its images (else ids are file names)."""
    folders: tuple[Path, ...]
    """Where it lies: they and everything below them are never written into."""
    findings: tuple[Finding, ...]
    """Warnings and notes; errors have been raised."""


def open_all(config: DataConfig) -> AllSplits:
    """Reads all splits, for a conversion.

    Args:
        config: as for ``open_data``.
    Raises:
        UserError: as for ``open_data``.
    """
    log = FindingLog()
    layout = _layout(config, log, None)
    binders = {split or "train": bind for split, bind in layout.splits.items()}
    has_image_ids = layout.has_image_ids
    if config.val_data is not None:
        val = _val_layout(config, log)
        binders["val"] = _only_split(val)
        has_image_ids &= val.has_image_ids
    splits = {split: binders[split](log)(log) for split in SPLITS if split in binders}
    log.raise_errors()
    for index in splits.values():
        _refuse_no_pictures(index, log)
    return AllSplits(
        kind=layout.kind,
        splits=splits,
        has_image_ids=has_image_ids,
        folders=own_folders(config, layout.folders, splits.values()),
        findings=log.findings,
    )


def open_truth(config: DataConfig, *, default_data: Path | None = None) -> tuple[DetectionIndex, tuple[Finding, ...]]:
    """Reads the split that detections belong to. A COCO JSON is enough for that: its pictures are not looked for.

    Raises:
        UserError: as for ``open_split``.
    """
    path = _data_path(config, default_data)
    if path.suffix.lower() != ".json" or config.images is not None:
        return open_split(config, default_data=default_data)
    log = FindingLog()
    index = read_coco(path, log, folders=())
    log.raise_errors()
    _report_no_objects(index, log)
    return index, log.findings


def classes_of(index: DetectionIndex) -> Classes:
    """The classes by which an index is numbered."""
    return Classes(names=index.class_names, ids=index.class_ids)


def _data_path(config: DataConfig, default_data: Path | None) -> Path:
    if config.data is None:
        if config.val_data is not None:
            raise UserError("--val-data is given without --data; the COCO JSON of the training split is needed too")
        if default_data is None:
            raise UserError("--data is needed: a data YAML or a COCO JSON")
        return default_data
    return _existing("--data", config.data)


def _existing(option: str, value: str) -> Path:
    path = Path(value)
    if path.is_dir():
        return path
    if path.suffix.lower() not in FILE_SUFFIXES:
        raise UserError(
            f"{option} {value}: a data YAML (.yaml), a COCO JSON (.json), another description "
            f"({', '.join(FILE_SUFFIXES)}) or the folder of a data set is needed"
        )
    if not path.is_file():
        raise UserError(f"{option} {value}: there is no file {path.absolute()}")
    return path


def _layout(config: DataConfig, log: FindingLog, default_data: Path | None) -> Layout:
    """Of --data; options that only make sense for a single split are refused for any other."""
    path = _data_path(config, default_data)
    layout = find_layout(path, log, Path(config.images) if config.images is not None else None)
    if not layout.is_single:
        for option, value in (
            ("--val-data", config.val_data),
            ("--images", config.images),
            ("--val-images", config.val_images),
        ):
            if value is not None:
                raise UserError(
                    f"{option} belongs to a COCO JSON, or another single split, as --data; {path} says itself where "
                    "everything lies"
                )
    return layout


def _val_layout(config: DataConfig, log: FindingLog) -> Layout:
    assert config.val_data is not None
    images = config.val_images or config.images
    layout = find_layout(_existing("--val-data", config.val_data), log, Path(images) if images is not None else None)
    if not layout.is_single:
        raise UserError(
            f"--val-data {config.val_data} has the splits {', '.join(layout.splits)}; a single one is needed"
        )
    return layout


def _only_split(layout: Layout) -> Binder:
    return layout.splits[""]


def _refuse_no_pictures(index: DetectionIndex, log: FindingLog) -> None:
    if not len(index):
        known = "".join(f"\n{finding}" for finding in log.findings if finding.source == index.source)
        raise UserError(f"{index.source}: not one picture can be used{known}")


def _report_no_objects(index: DetectionIndex, log: FindingLog) -> None:
    if index.is_crowd.all():
        log.add(found.NO_OBJECTS, index.source, 1)
