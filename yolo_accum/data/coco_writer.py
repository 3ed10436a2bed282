"""A split as a COCO JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from yolo_accum.contracts import DetectionIndex

_DECIMALS = 4
"""Of a pixel: finer than any format writes, and short enough to read."""


def write_coco(path: Path, index: DetectionIndex, file_names: Sequence[str], *, keep_image_ids: bool) -> None:
    """Writes what the index holds: pictures that can be read, boxes within them, each category with its id.

    Annotations are numbered from 1 on. The file appears under its name only when it is complete.

    Args:
        path: the new file.
        index: n images.
        file_names: n, for the JSON.
        keep_image_ids: use the ids of the index; else images are numbered from 1 on.
    Raises:
        OSError: the file cannot be written.
    """
    ids = list(index.image_ids) if keep_image_ids else list(range(1, len(index) + 1))
    boxes = index.boxes_xyxy_px.round(_DECIMALS)
    temporary = path.with_name(f"{path.name}.part")
    # A file name that is no UTF-8 is written with escapes of JSON, from which it is read again.
    with temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.write('{"info": {"description": "written by yolo-accum convert"},\n"categories": ')
        categories = zip(index.class_ids, index.class_names, strict=True)
        file.write(_lines({"id": number, "name": name} for number, name in categories))
        file.write(',\n"images": ')
        file.write(
            _lines(
                {"id": number, "file_name": name, "width": int(width), "height": int(height)}
                for number, name, width, height in zip(ids, file_names, index.widths_px, index.heights_px, strict=True)
            )
        )
        file.write(',\n"annotations": ')
        file.write(
            _lines(
                {
                    "id": row + 1,
                    "image_id": ids[image],
                    "category_id": index.class_ids[int(index.labels[row])],
                    "bbox": _xywh(boxes[row].tolist()),
                    "area": round(float(index.areas_px[row]), _DECIMALS),
                    "iscrowd": int(index.is_crowd[row]),
                }
                for image in range(len(index))
                for row in range(*index.rows(image).indices(index.num_boxes))
            )
        )
        file.write("}\n")
    temporary.replace(path)


def _xywh(box: list[float]) -> list[float]:
    left, top, right, bottom = box
    return [left, top, round(right - left, _DECIMALS), round(bottom - top, _DECIMALS)]


def _lines(records: Iterable[dict[str, object]]) -> str:
    """A JSON list with a record a line."""
    texts = [json.dumps(record, ensure_ascii=False) for record in records]
    return "[\n" + ",\n".join(texts) + "\n]" if texts else "[]"
