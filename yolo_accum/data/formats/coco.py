"""COCO JSON: the file, its categories and its pictures. The annotations are read in ``coco_annotations``."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.build_index import RawSplit, build_index
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import FindingLog
from yolo_accum.data.formats.coco_annotations import read_annotations
from yolo_accum.data.formats.json_records import Records, json_kind, read_json
from yolo_accum.data.formats.pictures import locate_pictures, repeated
from yolo_accum.data.index_cache import IndexCache, Stamps, stamps
from yolo_accum.data.picture_size import PictureSize, read_picture_sizes
from yolo_accum.data.written_sizes import WrittenSize, is_pixels, written_px
from yolo_accum.errors import UserError

_UNKNOWN_PX = 2**30
"""Side of a picture that is not there and of no written size: no box is clipped."""


@contextmanager
def _no_cycle_search() -> Iterator[None]:
    """Millions of records hold no reference cycles; looking for them takes as long as parsing the file."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@_no_cycle_search()
def read_coco(
    path: Path,
    log: FindingLog,
    *,
    folders: Sequence[Path],
    reference: Classes | None = None,
    is_training: bool = False,
) -> DetectionIndex:
    """Reads a COCO instances file. Images keep the order of the file, annotations that of the file within an image.

    Args:
        path: the JSON.
        log: takes the findings; the caller raises its errors.
        folders: where the pictures are looked for, in this order; none when nobody will look at a picture, and sizes
            are those of the file.
        reference: see ``build_index``.
        is_training: a file without annotations is refused.
    Raises:
        UserError: the file is no COCO instances file, or lacks what makes it one.
    """
    reading = {
        "folders": [str(folder.absolute()) for folder in folders],
        "reference": None if reference is None else [reference.names, reference.ids],
        "is_training": is_training,
    }
    cache = IndexCache(path, reading)
    kept = cache.load()
    if kept is not None:
        index, findings = kept
        log.extend(findings)
        return index
    own = FindingLog()
    try:
        index, files, before = _read(path, own, folders, reference, is_training)
    finally:
        log.extend(own.findings)
    cache.store(index, own.findings, files, before)
    return index


def _read(
    path: Path, log: FindingLog, folders: Sequence[Path], reference: Classes | None, is_training: bool
) -> tuple[DetectionIndex, list[str], Stamps]:
    """The index, the pictures that it depends on, and their stamps from before they were read."""
    content = _load(path, is_training, log)
    classes = _classes(path, content["categories"], log)
    images = content["images"]
    image_ids = _image_ids(path, images)
    names = [image["file_name"] for image in images]
    row_of_id: dict[int | str, int] = {}
    clashes = []
    for row, number in enumerate(image_ids):
        first = row_of_id.setdefault(number, row)
        if first != row:
            clashes.append(f"id {number}: {names[first]}, {names[row]}")
    log.add(found.DUPLICATE_IMAGE_ID, path, len(clashes), clashes)

    written = [_written_size(image) for image in images]
    odd = [f"image {image['id']} ({image['file_name']}): {sides}" for image in images if (sides := _odd_sides(image))]
    note = "" if folders else "no picture is looked at here, so what reads as a number is used"
    log.add(found.ODD_SIZE, path, len(odd), odd, note=note)
    if folders:
        paths = locate_pictures(path, names, folders, log)
        files = [located for located in paths if located is not None]
        before = stamps(files)
        sizes = iter(read_picture_sizes(files))
        size_of_image = [None if located is None else next(sizes) for located in paths]
    else:
        paths = list(names)
        files, before = [], stamps([])
        size_of_image = [
            PictureSize(*(_UNKNOWN_PX if side is None else round(side) for side in size)) for size in written
        ]

    label_of_id = {number: label for label, number in enumerate(classes.ids)}
    table = read_annotations(path, content.get("annotations", []), names, row_of_id, label_of_id, log)
    raw = RawSplit(
        source=path,
        paths=[located or "" for located in paths],
        image_ids=image_ids,
        names=names,
        sizes=size_of_image,
        image_of_box=table.image_of_box,
        boxes_xyxy_px=table.boxes_xyxy_px,
        labels=table.labels,
        is_crowd=table.is_crowd,
        areas_px=table.areas_px,
        place_of_box=table.place_of_box,
        classes=classes,
        written_sizes=written,
    )
    return build_index(raw, log, reference), files, before


def _written_size(image: Mapping[str, Any]) -> WrittenSize:
    """As it can be compared: a number of pixels that is written as text is one, a fraction or true is none."""
    width, height = (
        written_px(side) if isinstance(side, str) or is_pixels(side) else None
        for side in (image.get("width"), image.get("height"))
    )
    return width, height


def _odd_sides(image: Mapping[str, Any]) -> str:
    """The sides that are written and are no whole number of pixels, as they are written."""
    odd = [side for side in ("width", "height") if side in image and not is_pixels(image[side])]
    return ", ".join(f"{side} {image[side]!r:.40}" for side in odd)


def _load(path: Path, is_training: bool, log: FindingLog) -> dict[str, Any]:
    try:
        content = read_json(path.read_bytes(), ("annotations",))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}); a COCO JSON is needed") from error
    except RecursionError as error:
        raise UserError(f"{path} is nested too deeply to be a COCO JSON") from error
    except json.JSONDecodeError as error:
        raise UserError(f"{path} is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from error
    except ValueError as error:  # Python refuses to read numbers of thousands of digits
        raise UserError(f"{path} holds a number that is too long to be read: {error}") from error
    if not isinstance(content, dict):
        raise UserError(
            f"{path} is no COCO instances file: it holds {json_kind(content)}; "
            'an object with "images", "annotations" and "categories" is needed'
        )
    missing = [key for key in ("images", "annotations", "categories") if key not in content]
    if missing == ["annotations"] and not is_training:
        log.add(found.NO_ANNOTATIONS, path, 1)
    elif missing:
        raise UserError(
            f"{path} is no COCO instances file: it lacks {', '.join(missing)} "
            f"(it has: {', '.join(content) or 'nothing'})"
        )
    for key in ("images", "annotations", "categories"):
        records = content.get(key, [])
        if isinstance(records, Records):
            continue
        if not isinstance(records, list):
            raise UserError(f'{path}: "{key}" is {json_kind(records)}; a list is needed')
        for place, record in enumerate(records):
            if not isinstance(record, dict):
                raise UserError(f'{path}: entry {place} of "{key}" is {record!r:.80}; an object is needed')
    if not content["categories"]:
        raise UserError(f'{path}: "categories" is empty; at least one class is needed')
    if not content["images"]:
        raise UserError(f'{path}: "images" is empty; at least one picture is needed')
    return content


def _as_id(path: Path, what: str, value: Any) -> int | str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UserError(f"{path}: {what} has the id {value!r:.80}; a whole number or text is needed")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise UserError(f"{path}: {what} has the id {value!r:.80}; whole numbers may have 64 bits")
    if isinstance(value, str) and not _is_text(value):
        raise UserError(f"{path}: {what} has the id {value!r:.80}, which holds half a character (a lone surrogate)")
    return value


def _is_text(value: str) -> bool:
    """Whether a text can be written as UTF-8: half a character, as an escape of JSON allows it, cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _ascending(number: int | str) -> tuple[int, int, str]:
    """Numbers before words, numbers written as text among the numbers."""
    text = str(number)
    return (0, int(text), text) if re.fullmatch(r"-?[0-9]{1,19}", text) else (1, 0, text)


def _classes(path: Path, categories: list[dict[str, Any]], log: FindingLog) -> Classes:
    names: dict[int | str, str] = {}
    for place, category in enumerate(categories):
        number = _as_id(path, f"category {place}", category.get("id"))
        name = category.get("name")
        if not isinstance(name, str) or not name:
            raise UserError(f"{path}: category {number} has the name {name!r:.80}; text is needed")
        if not _is_text(name):
            raise UserError(
                f"{path}: category {number} has the name {name!r:.80}, which holds half a character (a lone surrogate)"
            )
        if number in names:
            raise UserError(f"{path}: categories {names[number]!r} and {name!r} have the same id {number}")
        names[number] = name
    ids = sorted(names, key=_ascending)
    in_order = [names[number] for number in ids]
    again = repeated(in_order)
    log.add(found.SAME_CLASS_NAME, path, len(again), again)
    return Classes(names=tuple(in_order), ids=tuple(ids))


def _image_ids(path: Path, images: list[dict[str, Any]]) -> list[int | str]:
    for place, image in enumerate(images):
        name = image.get("file_name")
        if not isinstance(name, str) or not name:
            raise UserError(f"{path}: image {place} (id {image.get('id')!r:.40}) has no file_name")
    return [_as_id(path, f"image {image['file_name']}", image.get("id")) for image in images]
