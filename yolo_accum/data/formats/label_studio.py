"""Label Studio's own JSON: the full export, and the short one (JSON-MIN)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import FindingLog
from yolo_accum.data.formats.box_rows import Box, BoxRows, enclosing_box, numbered, turned_box
from yolo_accum.data.formats.pictures import locate_pictures
from yolo_accum.data.picture_size import PICTURE_SUFFIXES
from yolo_accum.data.written_sizes import WrittenSize, written_px
from yolo_accum.errors import UserError

Region = Mapping[str, Any]
_CLASS_KEYS = ("rectanglelabels", "polygonlabels", "ellipselabels", "labels")


def is_label_studio(content: Any) -> bool:
    """Whether a parsed JSON is an export of Label Studio: a list of tasks."""
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(task, dict) and _picture_of(task) is not None for task in content[:10])
    )


def read_label_studio(
    path: Path,
    log: FindingLog,
    *,
    folders: Sequence[Path],
    reference: Classes | None = None,
    is_training: bool = False,
) -> DetectionIndex:
    """Reads the tasks of an export. The format declares no classes: they are the names in the file, sorted.

    Of several annotations of a task the last one that was not cancelled counts. Rectangles, turned ones, ellipses and
    polygons count as their enclosing boxes; brush strokes and key points are left out with a warning.

    Args:
        path: the JSON.
        log: takes the findings; the caller raises its errors.
        folders: where the pictures are looked for, in this order.
        reference: see ``build_index``.
        is_training: as for the other formats; this one treats every split alike.
    Raises:
        UserError: the file is no such export.
    """
    tasks = _load(path)
    rows = BoxRows(path)
    names: list[str] = []
    ids: list[int | str] = []
    written: list[WrittenSize] = []
    for image, task in enumerate(tasks):
        name = _picture_of(task)
        if name is None:
            raise UserError(f"{path}: task {task.get('id', image)} names no picture in its data")
        names.append(name)
        ids.append(_id(task, image))
        size: WrittenSize = (None, None)
        for number, region in enumerate(_regions(task, name, rows), 1):
            size = _written_size(region) if size == (None, None) else size
            _read_region(region, image, f"task {task.get('id', image)} ({name}) region {number}", rows)
        written.append(size)
    if len(set(ids)) < len(ids):
        ids = list(range(1, len(ids) + 1))
    return rows.index(
        paths=locate_pictures(path, names, folders, log),
        names=names,
        image_ids=ids,
        written_sizes=written,
        classes=numbered(sorted(rows.class_names)),
        log=log,
        reference=reference,
    )


def _load(path: Path) -> list[dict[str, Any]]:
    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {error}") from error
    if not is_label_studio(content):
        raise UserError(
            f"{path} is a list, but not of Label Studio's tasks (objects with data and annotations); "
            "a COCO JSON is an object with images, annotations and categories"
        )
    return content


def _id(task: Mapping[str, Any], image: int) -> int | str:
    number = task.get("id")
    return number if isinstance(number, int | str) and not isinstance(number, bool) else image + 1


def _picture_of(task: Mapping[str, Any]) -> str | None:
    """The picture of a task: the value called "image", else the only one that ends like a picture."""
    data = task.get("data", task)
    if not isinstance(data, dict):
        return None
    for key in ("image", "img", "picture", "photo"):
        if isinstance(data.get(key), str) and data[key]:
            return str(data[key])
    pictures = [value for value in data.values() if isinstance(value, str) and _ends_like_picture(value)]
    return pictures[0] if len(pictures) == 1 else None


def _ends_like_picture(value: str) -> bool:
    return value.partition("?")[0].lower().endswith(tuple(PICTURE_SUFFIXES))


def _regions(task: Mapping[str, Any], name: str, rows: BoxRows) -> Iterator[Region]:
    if "data" not in task:  # JSON-MIN: regions stand beside the picture, under the names of the project's controls
        lists = (value for value in task.values() if isinstance(value, list))
        yield from (region for regions in lists for region in regions if isinstance(region, dict))
        return
    annotations = [item for item in task.get("annotations") or [] if isinstance(item, dict)]
    valid = [item for item in annotations if not item.get("was_cancelled")]
    if len(valid) > 1:
        rows.note(found.OTHER_ANNOTATION, f"task {task.get('id')} ({name}): {len(valid)} annotations")
    if valid:
        yield from (region for region in valid[-1].get("result") or [] if isinstance(region, dict))


def _written_size(region: Region) -> WrittenSize:
    return written_px(region.get("original_width")), written_px(region.get("original_height"))


def _read_region(region: Region, image: int, place: str, rows: BoxRows) -> None:
    kind = region.get("type")
    if kind in ("choices", "relation", "textarea", "rating", "number"):  # of the whole picture, or of regions
        return
    value = region.get("value", region)
    if not isinstance(value, dict):
        value = {}
    names = next((value[key] for key in _CLASS_KEYS if isinstance(value.get(key), list) and value[key]), None)
    width, height = _written_size(region)
    if "rle" in value or kind in ("brushlabels", "keypointlabels", "brush", "keypoint"):
        rows.note(found.OTHER_SHAPE, f"{place}: {kind or 'brush'}")
    elif names is None:
        if kind in (None, *_CLASS_KEYS):  # a bare rectangle comes again as one with labels
            rows.note(found.NO_CLASS, place)
    elif width is None or height is None:
        rows.note(found.BAD_CORNERS, f"{place}: no original_width and original_height")
    else:
        try:
            box = _box(value, width, height)
        except (KeyError, TypeError, ValueError, OverflowError):
            rows.note(found.BAD_CORNERS, f"{place}: {value!r:.120}")
            return
        if "points" in value or "radiusX" in value:
            rows.note(found.BOX_FROM_MASK, place)
        rows.add(image, str(names[0]), box, place)


def _box(value: Mapping[str, Any], width_px: float, height_px: float) -> Box:
    """Percent of the picture's sides -> pixels."""
    if "points" in value:
        points = np.asarray(value["points"], np.float64).reshape(-1, 2)
        return enclosing_box(points * (width_px / 100, height_px / 100))
    degrees = float(value.get("rotation") or 0)
    x, y = float(value["x"]) * width_px / 100, float(value["y"]) * height_px / 100
    if "radiusX" in value:
        half_width, half_height = (
            float(value["radiusX"]) * width_px / 100,
            float(value["radiusY"]) * height_px / 100,
        )
        return turned_box((x - half_width, y - half_height, x + half_width, y + half_height), degrees, (x, y))
    right, bottom = x + float(value["width"]) * width_px / 100, y + float(value["height"]) * height_px / 100
    return turned_box((x, y, right, bottom), degrees, (x, y))  # it turns about its first corner
