"""Pascal VOC: an XML file a picture."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from xml.etree.ElementTree import Element

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import FindingLog
from yolo_accum.data.formats.box_rows import BoxRows, numbered
from yolo_accum.data.formats.pictures import picture_ids, pictures_in_folder
from yolo_accum.data.formats.xml_records import text_of, xml_records
from yolo_accum.data.written_sizes import WrittenSize, written_px
from yolo_accum.errors import UserError

_CORNERS = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True, kw_only=True)
class VocSplit:
    """Where one split lies."""

    annotations: Path
    """Folder of the XML files, searched with its subfolders."""
    pictures: Path
    """Folder of the pictures, searched with its subfolders; may be the same one."""
    listing: Path | None = None
    """A file of ``ImageSets/Main`` with one name a line; None for all."""


def read_voc(
    split: VocSplit,
    log: FindingLog,
    *,
    all_splits: Sequence[VocSplit],
    reference: Classes | None = None,
    is_training: bool = False,
) -> DetectionIndex:
    """Reads one split. The format declares no classes: they are the names in all splits, sorted.

    The picture of ``a/x.xml`` is ``a/x`` with the suffix of a picture, or else the ``filename`` in it; where the two
    have different names, ``log`` says so. A picture without an XML is background. Corners count as they are written,
    from 0. Objects marked difficult or truncated are objects like all others.

    Args:
        split: the one to read.
        log: takes the findings; the caller raises its errors.
        all_splits: of the data set.
        reference: see ``build_index``.
        is_training: as for the other formats; this one treats every split alike.
    Raises:
        UserError: a file is no VOC annotation, or the list cannot be read.
    """
    source = split.listing or split.annotations
    names, pictures, files = _files(split, log)
    rows = BoxRows(source)
    written: list[WrittenSize] = []
    for image, (path, picture) in enumerate(zip(files, pictures, strict=True)):
        written.append(
            _read_annotation(path, image, source.parent, picture, rows) if path is not None else (None, None)
        )
    classes = rows.class_names.union(*(_class_names(other) for other in all_splits if other is not split))
    return rows.index(
        paths=pictures,
        names=names,
        image_ids=_ids(pictures, names),
        written_sizes=written,
        classes=numbered(sorted(classes)),
        log=log,
        reference=reference,
    )


def _ids(pictures: Sequence[str | None], names: Sequence[str]) -> list[int | str]:
    """Those of the pictures that are there; the others are refused anyway."""
    ids = iter(picture_ids([path for path in pictures if path is not None]))
    return [next(ids) if path is not None else name for path, name in zip(pictures, names, strict=True)]


def _files(split: VocSplit, log: FindingLog) -> tuple[list[str], list[str | None], list[Path | None]]:
    """Name, picture and annotation of each image; without a list, those without annotation come last."""
    source = split.listing or split.annotations
    of_stem: dict[str, list[str]] = {}
    for path in pictures_in_folder(split.pictures):
        stem = os.path.splitext(os.path.relpath(path, split.pictures.absolute()))[0]  # noqa: PTH122
        of_stem.setdefault(stem, []).append(path)
    annotations = _annotations(split)
    if split.listing is not None:
        stems = _listed(split.listing)
        unknown = [stem for stem in stems if stem not in of_stem and stem not in annotations]
        log.add(found.MISSING_PICTURE, source, len(unknown), unknown, note=f"searched in {split.pictures}")
        stems = [stem for stem in stems if stem in of_stem or stem in annotations]
    else:
        stems = list(annotations)
    names, pictures, files = [], [], []
    for stem in stems:
        file = annotations.get(stem)
        picture = _picture(split, stem, file, of_stem)
        names.append(os.path.relpath(picture, source.parent) if picture else f"{stem} (of {file})")
        pictures.append(picture)
        files.append(file)
    missing = [name for name, picture in zip(names, pictures, strict=True) if picture is None]
    log.add(found.MISSING_PICTURE, source, len(missing), missing, note=f"searched in {split.pictures}")
    unlabelled = [name for name, file in zip(names, files, strict=True) if file is None]
    if split.listing is None:
        used = set(pictures)
        left = [path for paths in of_stem.values() for path in paths if path not in used]
        unlabelled = [os.path.relpath(path, source.parent) for path in left]
        names += unlabelled
        pictures += left
        files += [None] * len(left)
    log.add(found.MISSING_LABEL, source, len(unlabelled), unlabelled, note=f"looked for in {split.annotations}")
    return names, pictures, files


def _annotations(split: VocSplit) -> dict[str, Path]:
    """By path without suffix, relative to the folder of annotations."""
    found_here = sorted(path for path in split.annotations.rglob("*") if path.suffix.lower() == ".xml")
    return {str(path.relative_to(split.annotations).with_suffix("")): path for path in found_here}


def _listed(path: Path) -> list[str]:
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the list {path} cannot be read: {error}") from error
    # The lists of a single class have a second column that says whether it is in the picture.
    names = [line.strip() for line in lines if line.strip()]
    return list(dict.fromkeys(names))


def _picture(split: VocSplit, stem: str, file: Path | None, of_stem: dict[str, list[str]]) -> str | None:
    here = of_stem.get(stem, [])
    if len(here) == 1 or file is None:
        return here[0] if here else None
    written = next((_filename(record) for record in xml_records(file, "annotation") if record.tag == "filename"), "")
    candidate = split.pictures / Path(stem).parent / written
    if written and candidate.is_file():
        return os.path.normpath(candidate.absolute())
    return here[0] if here else None


def _filename(record: Element) -> str:
    """As written, with slashes; empty where nothing is."""
    return (record.text or "").strip().replace("\\", "/")


def _is_other(filename: str, path: Path) -> bool:
    """Whether a ``filename`` has another name than its XML: folders and suffix, which tools leave out, do not count."""
    name = PurePosixPath(filename)
    return bool(filename) and path.stem not in (name.name, name.stem)


def _read_annotation(path: Path, image: int, base: Path, picture: str | None, rows: BoxRows) -> WrittenSize:
    """Adds the objects of a file, and notes a ``filename`` that is another one; returns the size that it gives.

    Args:
        path: the XML.
        image: number of its picture.
        base: messages name files as seen from here.
        picture: the one that is used, None where there is none.
        rows: takes what is found.
    """
    size: WrittenSize = (None, None)
    number = 0
    for record in xml_records(path, "annotation"):
        if record.tag == "size":
            size = (written_px(text_of(record, "width")), written_px(text_of(record, "height")))
        elif record.tag == "filename" and picture is not None and _is_other(name := _filename(record), path):
            used = os.path.relpath(picture, base)
            rows.note(found.OTHER_FILENAME, f"{os.path.relpath(path, base)}: {name} is written, {used} is used")
        elif record.tag == "object":
            number += 1
            place = f"{os.path.relpath(path, base)} object {number}"
            _read_object(record, image, place, rows)
    return size


def _read_object(record: Element, image: int, place: str, rows: BoxRows) -> None:
    name, corners = text_of(record, "name"), record.find("bndbox")
    if not name:
        rows.note(found.NO_CLASS, place)
        return
    texts = [text_of(corners, corner) for corner in _CORNERS] if corners is not None else []
    try:
        left, top, right, bottom = map(float, texts)
    except ValueError:
        rows.note(found.BAD_CORNERS, f"{place}: {', '.join(texts) or 'no bndbox'}")
        return
    rows.add(image, name, (left, top, right, bottom), place)


def _class_names(split: VocSplit) -> Iterator[str]:
    annotations = _annotations(split)
    stems = _listed(split.listing) if split.listing is not None else list(annotations)
    for path in filter(None, map(annotations.get, stems)):
        records = (record for record in xml_records(path, "annotation") if record.tag == "object")
        yield from filter(None, map(partial(text_of, tag="name"), records))
