"""Small data sets on disk for tests: one picture size, objects given as (class number, left, top, width, height)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

WIDTH_PX, HEIGHT_PX = 96, 72

Object = tuple[int, float, float, float, float]


def write_picture(path: Path, width_px: int = WIDTH_PX, height_px: int = HEIGHT_PX) -> None:
    """A grey picture in the format of the suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = np.full((height_px, width_px, 3), 90, np.uint8)
    path.write_bytes(cv2.imencode(path.suffix.lower(), image)[1].tobytes())


def coco_content(
    objects: Mapping[str, Sequence[Object]], *, ids: Sequence[int | str] = (1, 2), names: Sequence[str] = ("cat", "dog")
) -> dict[str, Any]:
    """A COCO description: image ids from 101, annotation ids from 1, class number k has ``ids[k]``."""
    images, annotations = [], []
    for image_id, (name, boxes) in enumerate(objects.items(), 101):
        images.append({"id": image_id, "file_name": name, "width": WIDTH_PX, "height": HEIGHT_PX})
        for number, *box in boxes:
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image_id,
                    "category_id": ids[number],
                    "bbox": box,
                    "area": box[2] * box[3],
                    "iscrowd": 0,
                }
            )
    categories = [{"id": number, "name": name} for number, name in zip(ids, names, strict=True)]
    return {"images": images, "annotations": annotations, "categories": categories}


def write_coco(folder: Path, content: Mapping[str, Any], name: str = "train.json") -> Path:
    """The JSON and, in ``images/``, a picture for every file name."""
    for image in content["images"]:
        write_picture(folder / "images" / image["file_name"])
    path = folder / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def write_yolo(folder: Path, splits: Mapping[str, Mapping[str, str | None]], yaml: str | None = None) -> Path:
    """``images/<split>/`` and ``labels/<split>/``: label text by picture name, None for no label file."""
    for split, labels in splits.items():
        for name, text in labels.items():
            write_picture(folder / "images" / split / name)
            label = (folder / "labels" / split / name).with_suffix(".txt")
            label.parent.mkdir(parents=True, exist_ok=True)
            if text is not None:
                label.write_text(text)
    path = folder / "data.yaml"
    lines = [f"{split}: images/{split}" for split in splits] + ["names: [cat, dog]"]
    path.write_text(yaml if yaml is not None else "\n".join(lines) + "\n", encoding="utf-8")
    return path
