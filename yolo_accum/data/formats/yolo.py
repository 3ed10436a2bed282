"""YOLO layout: pictures in folders or list files, a text file of labels for each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.build_index import RawSplit, build_index
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import FindingLog
from yolo_accum.data.formats.label_files import LabelFiles
from yolo_accum.data.formats.pictures import picture_ids, pictures_in_folder
from yolo_accum.data.formats.yolo_labels import read_labels
from yolo_accum.data.picture_size import PICTURE_SUFFIXES, PictureSize, read_picture_sizes
from yolo_accum.errors import UserError

_PLACES_PX = 2
"""Decimals of a pixel that are kept. Fractions of six decimals do not say more, and boxes that were drawn on whole
pixels come back whole, exactly as in a COCO JSON of the same data."""


def read_yolo(
    source: Path,
    log: FindingLog,
    *,
    entries: Sequence[Path],
    classes: Classes,
    reference: Classes | None = None,
    is_training: bool = False,
) -> DetectionIndex:
    """Reads one split. Folders are searched with their subfolders and sorted by name, lists keep their order.

    The labels of ``.../images/a/x.jpg`` are in ``.../labels/a/x.txt`` (the last ``images`` counts, capitals are
    followed), or beside the picture where there is no such folder. A picture without a label file is background.

    Args:
        source: the data YAML, for messages.
        log: takes the findings; the caller raises its errors.
        entries: existing folders, or list files with one picture a line relative to the list's own folder.
        classes: of the data YAML.
        reference: see ``build_index``.
        is_training: as for the other formats; this one treats every split alike.
    Raises:
        UserError: a folder or list has no picture.
    """
    paths = _pictures(source, entries, log)
    names = [_relative(path, source.parent) for path in paths]
    files = LabelFiles()
    label_paths = [files.of_picture(path) for path in paths]
    _report_label_files(source, names, label_paths, files, log)

    sizes = read_picture_sizes(paths)
    rows = read_labels(source, label_paths, len(classes), log)
    sides = np.array([size[:2] if isinstance(size, PictureSize) else (0, 0) for size in sizes], np.float64).reshape(
        -1, 2
    )
    scale = np.tile(sides, 2)[rows.image_of_box]
    raw = RawSplit(
        source=source,
        paths=paths,
        image_ids=picture_ids(paths),
        names=names,
        sizes=sizes,
        image_of_box=rows.image_of_box,
        boxes_xyxy_px=np.round(rows.boxes_xyxy_norm * scale, _PLACES_PX),
        labels=rows.labels,
        is_crowd=np.zeros(len(rows.labels), bool),
        areas_px=np.full(len(rows.labels), np.nan),
        place_of_box=rows.place_of_box,
        classes=classes,
    )
    return build_index(raw, log, reference)


def _relative(path: str, folder: Path) -> str:
    prefix = f"{folder}{os.sep}"
    return path[len(prefix) :] if path.startswith(prefix) else os.path.relpath(path, folder)


def _pictures(source: Path, entries: Sequence[Path], log: FindingLog) -> list[str]:
    """Absolute paths of all pictures, each once."""
    listed = []
    for entry in entries:
        pictures = pictures_in_folder(entry) if entry.is_dir() else _in_list(source, entry, log)
        if not pictures:
            kinds = ", ".join(sorted(suffix[1:] for suffix in PICTURE_SUFFIXES))
            raise UserError(f"{source}: {entry} has no pictures ({kinds})")
        listed += pictures
    paths = list(dict.fromkeys(listed))
    if len(paths) < len(listed):
        again = (path for path, count in Counter(listed).items() if count > 1)
        log.add(found.REPEATED_PICTURE, source, len(listed) - len(paths), again)
    return paths


def _in_list(source: Path, path: Path, log: FindingLog) -> list[str]:
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{source}: the list {path} cannot be read: {error}") from error
    names = [line.strip() for line in lines if line.strip()]
    pictures = [_listed(path.parent, name) for name in names]
    missing = [name for name, picture in zip(names, pictures, strict=True) if not os.path.isfile(picture)]  # noqa: PTH113
    log.add(found.MISSING_PICTURE, path, len(missing), missing, note=f"lines are relative to {path.parent}")
    return pictures


def _listed(folder: Path, name: str) -> str:
    """The picture of a line. CVAT writes ``data/images/x.jpg`` for what lies in ``images``, the list beside it."""
    slashed = name.replace("\\", "/")  # as Windows tools write them
    for spelling in (name, slashed, slashed.removeprefix("data/")):
        picture = os.path.normpath(os.path.join(folder, spelling))  # noqa: PTH118
        if os.path.isfile(picture):  # noqa: PTH113
            return picture
    return os.path.normpath(os.path.join(folder, name))  # noqa: PTH118


def _report_label_files(
    source: Path, names: list[str], paths: list[str | None], files: LabelFiles, log: FindingLog
) -> None:
    unlabelled = [name for name, path in zip(names, paths, strict=True) if path is None]
    folders = [os.path.relpath(folder, source.parent) for folder in files.folders]
    searched = f"labels looked for in {', '.join(folders[:3])}{' ...' if len(folders) > 3 else ''}"
    log.add(found.MISSING_LABEL, source, len(unlabelled), unlabelled, note=searched)
    orphans = [os.path.relpath(path, source.parent) for path in files.without_picture()]
    log.add(found.LABEL_WITHOUT_PICTURE, source, len(orphans), orphans)
