"""CVAT's own XML, as it exports "CVAT for images 1.1"."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import FindingLog
from yolo_accum.data.formats.box_rows import Box, BoxRows, enclosing_box, numbered, turned_box
from yolo_accum.data.formats.pictures import locate_pictures, picture_ids
from yolo_accum.data.formats.xml_records import text_of, xml_records
from yolo_accum.data.written_sizes import WrittenSize, written_px
from yolo_accum.errors import UserError

ROOT = "annotations"
_OUTLINES = ("polygon", "polyline", "ellipse", "mask")
_OTHER_SHAPES = ("points", "cuboid", "skeleton")


def cvat_subsets(path: Path) -> list[str]:
    """The subsets that images of a file belong to, in order of appearance; [""] when they belong to none.

    Raises:
        UserError: the file is no such XML.
    """
    subsets = (record.get("subset", "") for record in xml_records(path, ROOT) if record.tag == "image")
    return list(dict.fromkeys(subsets)) or [""]


def read_cvat(
    path: Path,
    log: FindingLog,
    *,
    subset: str,
    folders: Sequence[Path],
    reference: Classes | None = None,
    is_training: bool = False,
) -> DetectionIndex:
    """Reads the images of one subset. Classes are the labels that the file declares, in its order.

    Boxes are boxes, turned ones the boxes around them; polygons, polylines, ellipses and masks count as their
    enclosing boxes. Points, cuboids and skeletons are left out with a warning.

    Args:
        path: the XML.
        log: takes the findings; the caller raises its errors.
        subset: of these images alone.
        folders: where the pictures are looked for, in this order.
        reference: see ``build_index``.
        is_training: as for the other formats; this one treats every split alike.
    Raises:
        UserError: the file is no such XML, or exports a video.
    """
    rows = BoxRows(path)
    declared: list[str] = []
    names: list[str] = []
    ids: list[int | str] = []
    written: list[WrittenSize] = []
    for record in xml_records(path, ROOT):
        if record.tag == "meta":
            declared = [text_of(label, "name") for label in record.iter("label") if label.find("parent") is None]
        elif record.tag == "track":
            raise UserError(f'{path} holds tracks of a video; export it as "CVAT for images 1.1", with its pictures')
        elif record.tag == "image" and record.get("subset", "") == subset:
            name = record.get("name", "")
            if not name:
                raise UserError(f"{path}: image {record.get('id')} has no name")
            for number, shape in enumerate(record, 1):
                _read_shape(shape, len(names), f"{name} shape {number}", rows)
            names.append(name)
            ids.append(_number(record.get("id", "")))
            written.append((written_px(record.get("width")), written_px(record.get("height"))))
    paths = locate_pictures(path, names, folders, log)
    return rows.index(
        paths=paths,
        names=names,
        image_ids=ids if len(set(ids)) == len(ids) else _names_as_ids(paths, names),
        written_sizes=written,
        classes=numbered(declared or sorted(rows.class_names)),
        log=log,
        reference=reference,
    )


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() and len(text) < 19 else text


def _names_as_ids(paths: Sequence[str | None], names: Sequence[str]) -> list[int | str]:
    """A project numbers the images of each task from 0, so these numbers need not be unique."""
    ids = iter(picture_ids([path for path in paths if path is not None]))
    return [next(ids) if path is not None else name for path, name in zip(paths, names, strict=True)]


def _read_shape(shape: Element, image: int, place: str, rows: BoxRows) -> None:
    if shape.tag == "tag":  # of the whole image
        return
    if shape.tag in _OTHER_SHAPES or shape.tag not in ("box", *_OUTLINES):
        rows.note(found.OTHER_SHAPE, f"{place}: {shape.tag}")
        return
    label = shape.get("label", "")
    if not label:
        rows.note(found.NO_CLASS, place)
        return
    try:
        box = _box(shape)
    except (ValueError, TypeError):
        rows.note(found.BAD_CORNERS, f"{place}: {dict(shape.attrib)!r:.120}")
        return
    if shape.tag != "box":
        rows.note(found.BOX_FROM_MASK, place)
    rows.add(image, label, box, place)


def _box(shape: Element) -> Box:
    def number(name: str) -> float:
        return float(shape.get(name, "missing"))

    if shape.tag in ("polygon", "polyline"):
        pairs = shape.get("points", "").split(";")
        return enclosing_box(np.array([[float(side) for side in pair.split(",")] for pair in pairs]).reshape(-1, 2))
    if shape.tag == "mask":
        left, top = number("left"), number("top")
        return left, top, left + number("width"), top + number("height")
    if shape.tag == "ellipse":
        x, y, half_width, half_height = (number(name) for name in ("cx", "cy", "rx", "ry"))
        box = (x - half_width, y - half_height, x + half_width, y + half_height)
    else:
        box = (number("xtl"), number("ytl"), number("xbr"), number("ybr"))
    middle = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return turned_box(box, float(shape.get("rotation", 0)), middle)
