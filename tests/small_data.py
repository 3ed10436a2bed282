"""A small COCO data set on disk: coloured rectangles whose colour is their class."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np

COLOURS_BGR = ((40, 40, 230), (230, 60, 40), (40, 200, 40))
CATEGORY_IDS = (3, 7, 90)
NAMES = ("red", "blue", "green")


def write_split(folder: Path, name: str, num_images: int, *, size_px: int = 64, seed: int = 0) -> Path:
    """Draw ``num_images`` pictures with 0 to 3 rectangles each; every fourth picture is empty.

    Returns:
        the COCO JSON.
    """
    rng = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    images, annotations = [], []
    for number in range(num_images):
        picture = rng.integers(90, 130, (size_px, size_px, 3)).astype(np.uint8)
        for _ in range(0 if number % 4 == 3 else int(rng.integers(1, 4))):
            label = int(rng.integers(3))
            width, height = rng.integers(size_px // 5, size_px // 2, 2).tolist()
            x, y = int(rng.integers(size_px - width)), int(rng.integers(size_px - height))
            cv2.rectangle(picture, (x, y), (x + width - 1, y + height - 1), COLOURS_BGR[label], -1)
            annotations.append(
                {
                    "id": len(annotations),
                    "image_id": f"{name}-{number}",
                    "category_id": CATEGORY_IDS[label],
                    "bbox": [x, y, width, height],
                    "area": width * height,
                    "iscrowd": 0,
                }
            )
        file_name = f"{name}_{number:03d}.png"
        cv2.imwrite(str(folder / "images" / file_name), picture)
        images.append({"id": f"{name}-{number}", "file_name": file_name, "width": size_px, "height": size_px})
    path = folder / f"{name}.json"
    categories = [{"id": number, "name": text} for number, text in zip(CATEGORY_IDS, NAMES, strict=True)]
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return path


def write_data(folder: Path, *, num_train: int = 11, num_val: int = 4) -> Path:
    """Training and validation split with a data YAML.

    Returns:
        the data YAML.
    """
    write_split(folder, "train", num_train, seed=1)
    write_split(folder, "val", num_val, seed=2)
    path = folder / "data.yaml"
    path.write_text("train: train.json\nval: val.json\n")
    return path
