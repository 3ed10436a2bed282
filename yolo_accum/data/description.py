"""From the options --data, --val-data and --images to the splits of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

from yolo_accum.config.schema import DataConfig
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import Finding, FindingLog
from yolo_accum.data.formats.coco import read_coco
from yolo_accum.data.formats.data_yaml import DataYaml, load_data_yaml
from yolo_accum.data.formats.yolo import read_yolo
from yolo_accum.errors import UserError


@dataclass(frozen=True, kw_only=True, eq=False)
class DataSplits:
    """What a training run works on."""

    train: DetectionIndex
    val: DetectionIndex | None
    """Labels numbered as in ``train``; None where the data set names no validation split."""
    findings: tuple[Finding, ...]
    """Warnings and notes; errors have been raised."""


class SplitReader(Protocol):
    """A format's reader, bound to the files of one split."""

    def __call__(
        self, log: FindingLog, *, reference: Classes | None = None, is_training: bool = False
    ) -> DetectionIndex: ...


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
    require_trainable(train, val, log)
    return DataSplits(train=train, val=val, findings=log.findings)


def split_reader(
    config: DataConfig, split: str, log: FindingLog, *, default_data: Path | None = None
) -> SplitReader | None:
    """What reads one split of the data that are trained on; None where they have no such split.

    Raises:
        UserError: the description of the data, or what it names for this split, cannot be used.
    """
    path = _data_path(config, default_data)
    if not _is_json(path):
        return _yaml_readers(path, config, (split,), log).get(split)
    if split == "train":
        return _coco_reader(path, config.images, Path())
    if split == "val" and config.val_data is not None:
        return _coco_reader(Path(config.val_data), config.val_images or config.images, Path())
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
    path = _data_path(config, default_data)
    if _is_json(path):
        evaluated = path if config.val_data is None else Path(config.val_data)
        reader = _coco_reader(evaluated, config.val_images or config.images, Path())
    else:
        readers = _yaml_readers(path, config, (split,), log)
        if split not in readers:
            raise UserError(f"{path} names no split {split!r}")
        reader = readers[split]
    index = reader(log, reference=classes)
    log.raise_errors()
    _refuse_no_pictures(index, log)
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
    path = Path(config.data)
    if path.suffix.lower() not in (".json", ".yaml", ".yml"):
        found_here = sorted(file.name for suffix in ("json", "yaml", "yml") for file in path.glob(f"*.{suffix}"))
        hint = f"; this folder has {', '.join(found_here[:5])}" if found_here else ""
        raise UserError(f"--data {config.data}: a data YAML (.yaml) or a COCO JSON (.json) is needed{hint}")
    if not path.is_file():
        raise UserError(f"--data {config.data}: there is no file {path.absolute()}")
    return path


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def _coco_reader(path: Path, images: str | None, base: Path) -> SplitReader:
    """For one COCO JSON; ``images``, relative to ``base``, is the only folder searched when it is given."""
    if not path.is_file():
        raise UserError(f"the COCO JSON {path} does not exist (tried {path.absolute()})")
    if images is not None and not (base / images).is_dir():
        raise UserError(f"the folder of pictures {images} does not exist (tried {(base / images).absolute()})")
    folders = [base / images] if images is not None else [path.parent, path.parent / "images"]
    return partial(read_coco, path, folders=folders)


def _yaml_readers(path: Path, config: DataConfig, splits: tuple[str, ...], log: FindingLog) -> dict[str, SplitReader]:
    """Readers of those of the ``splits`` that a data YAML names."""
    for option, value in (
        ("--val-data", config.val_data),
        ("--images", config.images),
        ("--val-images", config.val_images),
    ):
        if value is not None:
            raise UserError(f"{option} belongs to a COCO JSON as --data; {path} says itself where everything lies")
    described = load_data_yaml(path, log)
    return {split: _split_reader(described, split, log) for split in splits if split in described.entries}


def _split_reader(described: DataYaml, split: str, log: FindingLog) -> SplitReader:
    entries = [described.resolve(split, entry, log) for entry in described.entries[split]]
    if any(_is_json(entry) for entry in entries):
        if len(entries) > 1:
            raise UserError(f"{described.path}: {split} lists {len(entries)} entries; one COCO JSON stands alone")
        reader = _coco_reader(entries[0], described.image_folders.get(split), described.root)
        return partial(_read_with_names, reader, described)
    for entry in entries:
        if not entry.is_dir() and entry.suffix.lower() != ".txt":
            raise UserError(f"{described.path}: {split}: {entry} is no folder, list file (.txt) or COCO JSON (.json)")
    if described.classes is None:
        raise UserError(f"{described.path}: names is missing; a list of the class names is needed")
    return partial(read_yolo, described.path, entries=entries, classes=described.classes)


def _read_with_names(
    reader: SplitReader,
    described: DataYaml,
    log: FindingLog,
    *,
    reference: Classes | None = None,
    is_training: bool = False,
) -> DetectionIndex:
    """A COCO JSON from a data YAML that may name the classes once more: both must say the same."""
    index = reader(log, reference=reference, is_training=is_training)
    expected = described.classes
    if expected is not None and reference is None and expected.names != index.class_names:
        raise UserError(
            f"{described.path}: names ({', '.join(expected.names)}) differ from the categories of {index.source} "
            f"({', '.join(index.class_names)}, by ascending id); leave names out or make them agree"
        )
    return index


def _refuse_no_pictures(index: DetectionIndex, log: FindingLog) -> None:
    if not len(index):
        known = "".join(f"\n{finding}" for finding in log.findings if finding.source == index.source)
        raise UserError(f"{index.source}: not one picture can be used{known}")


def _report_no_objects(index: DetectionIndex, log: FindingLog) -> None:
    if index.is_crowd.all():
        log.add(found.NO_OBJECTS, index.source, 1)
