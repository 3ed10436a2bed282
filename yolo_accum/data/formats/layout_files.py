"""Files that describe a data set, and what reads each of its splits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import FindingLog
from yolo_accum.data.formats.coco import read_coco
from yolo_accum.data.formats.cvat import ROOT as CVAT_ROOT
from yolo_accum.data.formats.cvat import cvat_subsets, read_cvat
from yolo_accum.data.formats.darknet import darknet_splits
from yolo_accum.data.formats.data_yaml import DataYaml, load_data_yaml, split_name
from yolo_accum.data.formats.label_studio import read_label_studio
from yolo_accum.data.formats.xml_records import xml_root
from yolo_accum.data.formats.yolo import read_yolo
from yolo_accum.errors import UserError

FILE_SUFFIXES = (".json", ".yaml", ".yml", ".xml", ".data")
"""Of files that may describe a data set, in lower case."""
DATA_YAML, COCO_JSON = "data YAML", "COCO JSON"


class SplitReader(Protocol):
    """A format's reader, bound to the files of one split."""

    def __call__(
        self, log: FindingLog, *, reference: Classes | None = None, is_training: bool = False
    ) -> DetectionIndex: ...


Binder = Callable[[FindingLog], SplitReader]
"""Looks at the files of a split, which raises what is wrong with them, and returns its reader."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A data set whose files have been found, not read."""

    kind: str
    """For messages: "COCO JSON", "Pascal VOC folder"."""
    path: Path
    """What describes it, for messages."""
    splits: Mapping[str, Binder]
    """By name: train, val, test; "" for the only split of a data set that names none."""
    files: tuple[Path, ...] = ()
    """What can be named in its place where ``path`` is the whole folder."""
    folders: tuple[Path, ...] = ()
    """Those that its description names, for pictures or for everything."""
    has_image_ids: bool = False
    """Whether the format numbers its images (else ids are file names)."""

    @property
    def is_single(self) -> bool:
        """Whether it is one split, to be used as whatever it is needed for."""
        return set(self.splits) == {""}


def file_layout(path: Path, log: FindingLog, images: Path | None = None) -> Layout:
    """What a file describes; see ``find_layout``."""
    suffix = path.suffix.lower()
    if suffix == ".json":
        return coco_or_label_studio(path, images)
    if suffix == ".xml":
        return cvat_xml(path, images)
    if suffix == ".data":
        return darknet_file(path)
    return data_yaml(path, log)


def coco_or_label_studio(path: Path, images: Path | None) -> Layout:
    """COCO's object, or Label Studio's list."""
    folders = [images] if images is not None else [path.parent, path.parent / "images"]
    if first_character(path) == "[":
        read: Any = partial(read_label_studio, path, folders=folders)
        return Layout(kind="Label Studio JSON", path=path, splits={"": lambda log: read}, has_image_ids=True)
    return Layout(kind=COCO_JSON, path=path, splits={"": partial(_coco, path, folders)}, has_image_ids=True)


def _coco(path: Path, folders: list[Path], log: FindingLog) -> SplitReader:
    return partial(read_coco, path, folders=folders)


def first_character(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(256).decode("utf-8-sig", "ignore").strip()[:1]
    except OSError:
        return ""  # the reader says what is wrong with the file


def data_yaml(path: Path, log: FindingLog) -> Layout:
    described = load_data_yaml(path, log)
    named = [split for split in described.entries if split != "test" or _is_there(described, split, log)]
    splits = {split: partial(_described_split, described, split) for split in named}
    has_image_ids = all(entry.lower().endswith(".json") for entries in described.entries.values() for entry in entries)
    written = [described.root / entry for entries in described.entries.values() for entry in entries]
    written += [described.root / folder for folder in described.image_folders.values()]
    folders = (described.root, *(folder for folder in written if folder.is_dir()))
    return Layout(kind=DATA_YAML, path=path, splits=splits, folders=folders, has_image_ids=has_image_ids)


def _is_there(described: DataYaml, split: str, log: FindingLog) -> bool:
    """A test split takes no part in a training, and exports name one whether they hold one or not."""
    try:
        for entry in described.entries[split]:
            described.resolve(split, entry, FindingLog())
    except UserError:
        log.add(found.MISSING_TEST, described.path, 1, described.entries[split])
        return False
    return True


def _described_split(described: DataYaml, split: str, log: FindingLog) -> SplitReader:
    entries = [described.resolve(split, entry, log) for entry in described.entries[split]]
    if any(entry.suffix.lower() == ".json" for entry in entries):
        if len(entries) > 1:
            raise UserError(f"{described.path}: {split} lists {len(entries)} entries; one COCO JSON stands alone")
        images = described.image_folders.get(split)
        [bind] = file_layout(entries[0], log, described.root / images if images is not None else None).splits.values()
        return partial(_read_with_names, bind(log), described)
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


def cvat_xml(path: Path, images: Path | None) -> Layout:
    root = xml_root(path)
    if root == "annotation":
        raise UserError(f"{path} is a Pascal VOC file, of one picture; give the folder of the data set as --data")
    if root != CVAT_ROOT:
        raise UserError(f'{path} is no XML of "CVAT for images" (its root is <{root or "?"}>, not <{CVAT_ROOT}>)')
    subsets = cvat_subsets(path)
    splits = {}
    for subset in subsets:
        split = split_name(subset) if len(subsets) > 1 else ""
        if split is None or split in splits:
            raise UserError(f"{path} has the subsets {', '.join(subsets)}; train, validation and test are needed")
        base = path.parent
        folders = [base / "images" / subset, base / "images", base / subset, base] if images is None else [images]
        splits[split] = partial(bound, partial(read_cvat, path, subset=subset, folders=folders))
    return Layout(kind="CVAT for images", path=path, splits=splits, has_image_ids=True)


def bound(reader: SplitReader, log: FindingLog) -> SplitReader:
    return reader


def darknet_file(path: Path) -> Layout:
    """CVAT's "YOLO 1.1" and Darknet itself: obj.data names a list file a split and the file of the class names."""
    described = darknet_splits(path)
    splits = {
        split: partial(bound, partial(read_yolo, path, entries=[listing], classes=described.classes))
        for split, listing in described.lists.items()
    }
    return Layout(kind="Darknet data file", path=path, splits=splits)
