"""All splits of a data set, read as far as they can be: what would stop a training becomes a finding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from yolo_accum.config.schema import DataConfig
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.description import classes_of, no_training_split, require_trainable, split_reader
from yolo_accum.data.findings import FindingLog
from yolo_accum.data.formats.data_yaml import SPLITS
from yolo_accum.errors import UserError


def read_splits(
    config: DataConfig,
    log: FindingLog,
    *,
    default_data: Path | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, DetectionIndex]:
    """Reads training, validation and test split, those of them that the data set names.

    Labels are numbered as in the first one, as a training does it. A split that cannot be read is missing in the
    result, and one that is read with errors lacks what is wrong.

    Args:
        config: as for ``open_data``.
        log: takes all findings, errors too.
        default_data: data YAML to use without --data.
        progress: is told how many splits, of those that there may be, are done.
    Raises:
        UserError: --data names no file that could be read.
    """
    splits: dict[str, DetectionIndex] = {}
    missing = no_training_split(config, default_data)  # raises for what is wrong with --data itself
    source = Path(config.data) if config.data is not None else default_data
    assert source is not None
    for number, split in enumerate(SPLITS, 1):
        try:
            read = split_reader(config, split, log, default_data=default_data)
            if read is None and split == "train":
                raise UserError(missing)
            if read is not None:
                first = next(iter(splits.values()), None)
                reference = classes_of(first) if first is not None else None
                splits[split] = read(log, reference=reference, is_training=split == "train")
        except UserError as error:
            _add_unusable(log, source, error)
        progress(number)
    return splits


def compare_splits(splits: dict[str, DetectionIndex], log: FindingLog) -> None:
    """What is odd about the splits together: what a training would refuse, pictures and classes they do not share.

    Boxes that could not be read are missing in the splits, so after an error nothing is said about classes.
    """
    train = splits.get("train")
    if train is None:
        return
    if "test" in splits:
        _report_shared(splits, log)
    if any(finding.kind.severity == "error" for finding in log.findings):
        return
    try:
        require_trainable(train, splits.get("val"), log)
    except UserError as error:
        _add_unusable(log, train.source, error)
    trained = _num_boxes(train) > 0
    for split, index in splits.items():
        if split == "train" or index.num_classes != train.num_classes:
            continue
        present = _num_boxes(index) > 0
        for kind, is_affected in (
            (found.UNSEEN_CLASS, present & ~trained),
            (found.UNMEASURED_CLASS, trained & ~present & present.any()),
        ):
            names = [f"{split}: {train.class_names[label]}" for label in np.flatnonzero(is_affected)]
            log.add(kind, index.source, len(names), names)


def _add_unusable(log: FindingLog, source: Path, error: UserError) -> None:
    """The first line: those below repeat findings that the log holds already."""
    log.add(found.UNUSABLE, source, 1, [str(error).splitlines()[0]])


def _report_shared(splits: dict[str, DetectionIndex], log: FindingLog) -> None:
    """Pictures of the test split that training or validation has as well."""
    test = set(splits["test"].image_paths)
    for other in ("train", "val"):
        if other in splits:
            both = sorted(test & set(splits[other].image_paths))
            log.add(
                found.SHARED_BETWEEN_SPLITS, splits["test"].source, len(both), (f"{path} ({other})" for path in both)
            )


def _num_boxes(index: DetectionIndex) -> np.ndarray:
    """[c]: objects of each class."""
    return np.bincount(index.labels[~index.is_crowd], minlength=index.num_classes)
