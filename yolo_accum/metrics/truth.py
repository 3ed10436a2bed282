"""The objects of a validation set as a COCO file: what predictions are measured against, whatever layout they came in.

Ids are the user's own, so the file and ``predictions.json`` belong together for every tool that reads COCO.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.contracts import DetectionIndex, StringTable
from yolo_accum.errors import UserError
from yolo_accum.metrics.whole_file import whole_file


def write_truth(path: Path, index: DetectionIndex) -> None:
    """Write a split as COCO JSON; ``file_name`` is the absolute path of the picture.

    Raises:
        OSError: the file cannot be written (names it).
    """
    image_of_box = np.repeat(np.arange(len(index)), np.diff(index.box_starts)).tolist()
    boxes = index.boxes_xyxy_px.astype(np.float64)
    boxes[:, 2:] -= boxes[:, :2]
    content = {
        "images": [
            {"id": image_id, "file_name": name, "width": int(width), "height": int(height)}
            for image_id, name, width, height in zip(
                index.image_ids, index.image_paths, index.widths_px, index.heights_px, strict=True
            )
        ],
        "annotations": [
            {
                "id": number,
                "image_id": index.image_ids[image],
                "category_id": index.class_ids[label],
                "bbox": box,
                "area": area,
                "iscrowd": int(crowd),
            }
            for number, (image, label, box, area, crowd) in enumerate(
                zip(
                    image_of_box,
                    index.labels.tolist(),
                    boxes.tolist(),
                    index.areas_px.tolist(),
                    index.is_crowd.tolist(),
                    strict=True,
                ),
                start=1,
            )
        ],
        "categories": [
            {"id": class_id, "name": name} for class_id, name in zip(index.class_ids, index.class_names, strict=True)
        ],
    }
    with whole_file(path) as file:
        json.dump(content, file, separators=(",", ":"))


def read_truth(path: Path) -> DetectionIndex:
    """Read what `write_truth` wrote.

    Raises:
        UserError: the file cannot be read, or is something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a JSON file ({error})") from error
    try:
        return _index(path, content)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UserError(f"{path}: not a file that a run has written ({type(error).__name__}: {error})") from error


def _index(path: Path, content: Any) -> DetectionIndex:
    images, annotations, categories = content["images"], content["annotations"], content["categories"]
    row_of_id = {image["id"]: row for row, image in enumerate(images)}
    label_of_id = {category["id"]: label for label, category in enumerate(categories)}
    image_of_box = np.array([row_of_id[item["image_id"]] for item in annotations], dtype=np.int64)
    order = np.argsort(image_of_box, kind="stable")
    boxes = np.array([item["bbox"] for item in annotations], dtype=np.float64).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    counts = np.bincount(image_of_box, minlength=len(images))
    return DetectionIndex(
        source=path,
        image_paths=StringTable([image["file_name"] for image in images]),
        image_ids=tuple(image["id"] for image in images),
        widths_px=np.array([image["width"] for image in images], dtype=np.int32),
        heights_px=np.array([image["height"] for image in images], dtype=np.int32),
        box_starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        boxes_xyxy_px=boxes[order],
        labels=np.array([label_of_id[item["category_id"]] for item in annotations], dtype=np.int32)[order],
        is_crowd=np.array([item["iscrowd"] for item in annotations], dtype=bool)[order],
        areas_px=np.array([item["area"] for item in annotations], dtype=np.float64)[order],
        class_names=tuple(category["name"] for category in categories),
        class_ids=tuple(category["id"] for category in categories),
    )
