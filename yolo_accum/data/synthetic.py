"""The embedded default set `shapes`: drawn on first use, checked on every later one."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from yolo_accum.data.synthetic_scene import CLASS_NAMES, draw_scene
from yolo_accum.errors import UserError

SHAPES_VERSION = 3
"""Counts up whenever a byte of the set changes; an older set is drawn again."""

NUM_IMAGES = {"train": 400, "val": 100}
CATEGORY_IDS = (2, 3, 7, 11, 20, 41)
"""With gaps on purpose: everything downstream has to map ids to labels and back."""

_SEED = 20240
_JPEG_QUALITY = 92
_STAMP_NAME = "shapes.json"
_DATA_YAML_NAME = "data.yaml"
_DATA_YAML = "# Drawn by yolo-accum; made again when damaged or outdated.\ntrain: train.json\nval: val.json\n"


def ensure_shapes(folder: Path, progress: Callable[[int, int], None] | None = None) -> Path:
    """Makes sure that the embedded set lies in ``folder``: draws it where it is missing, damaged or outdated.

    The set is drawn into a temporary folder beside it and renamed, so a kill leaves nothing half-made.

    Args:
        folder: where the set lies, or is to lie.
        progress: called with (pictures done, pictures in all) while it is drawn; not when nothing is to do.
    Returns:
        The data YAML of the set.
    Raises:
        UserError: the folder holds something else, or cannot be written.
    """
    folder = folder.absolute()
    if _is_current(folder):
        return folder / _DATA_YAML_NAME
    if folder.exists() and not (folder / _STAMP_NAME).is_file() and any(folder.iterdir()):
        raise UserError(
            f"{folder} is meant for the embedded data set but holds something else: move that away, "
            "or name your own data with --data"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
            new, old = Path(scratch, "new"), Path(scratch, "old")
            _write_set(new, progress or (lambda done, total: None))
            if folder.exists():
                folder.rename(old)
            _rename_unless_there(new, folder)
    except OSError as error:
        raise UserError(f"the embedded data set cannot be written to {folder}: {error}") from error
    return folder / _DATA_YAML_NAME


def _rename_unless_there(new: Path, folder: Path) -> None:
    try:
        new.rename(folder)
    except OSError:
        # Another process was faster; its set is as good as ours.
        if not _is_current(folder):
            raise


def _write_set(folder: Path, progress: Callable[[int, int], None]) -> None:
    (folder / "images").mkdir(parents=True)
    total = sum(NUM_IMAGES.values())
    done = 0
    for split_number, (split, num_images) in enumerate(NUM_IMAGES.items()):
        images: list[dict[str, object]] = []
        annotations: list[dict[str, object]] = []
        for index in range(num_images):
            # One generator a picture, keyed by its place: no picture depends on the ones drawn before.
            scene = draw_scene(np.random.default_rng([_SEED, split_number, index]))
            name = f"{split}_{index:04d}.jpg"
            ok, encoded = cv2.imencode(".jpg", scene.image, [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY])
            assert ok, "OpenCV was built without JPEG"
            (folder / "images" / name).write_bytes(encoded.tobytes())
            height_px, width_px = scene.image.shape[:2]
            image_id = split_number * 1000 + index + 1
            images.append({"id": image_id, "file_name": name, "width": width_px, "height": height_px})
            for box, label, area in zip(
                scene.boxes_xywh_px.tolist(), scene.labels.tolist(), scene.areas_px.tolist(), strict=True
            ):
                annotations.append(
                    {
                        "id": len(annotations) + 1,
                        "image_id": image_id,
                        "category_id": CATEGORY_IDS[label],
                        "bbox": box,
                        "area": area,
                        "iscrowd": 0,
                    }
                )
            done += 1
            progress(done, total)
        categories = [{"id": number, "name": name} for number, name in zip(CATEGORY_IDS, CLASS_NAMES, strict=True)]
        text = json.dumps({"images": images, "annotations": annotations, "categories": categories})
        (folder / f"{split}.json").write_text(text, encoding="utf-8")
    (folder / _DATA_YAML_NAME).write_text(_DATA_YAML, encoding="utf-8")
    stamp = {"version": SHAPES_VERSION, "sha256": _digest(folder)}
    (folder / _STAMP_NAME).write_text(json.dumps(stamp), encoding="utf-8")


def _is_current(folder: Path) -> bool:
    """Whether the folder holds this version of the set, every byte of it as it was written."""
    try:
        stamp = json.loads((folder / _STAMP_NAME).read_text(encoding="utf-8"))
        return stamp == {"version": SHAPES_VERSION, "sha256": _digest(folder)}
    except (OSError, ValueError):
        return False


def _digest(folder: Path) -> str:
    """Of names and contents of the files that make up the set."""
    names = [_DATA_YAML_NAME]
    for split, num_images in NUM_IMAGES.items():
        names += [f"{split}.json", *(f"images/{split}_{index:04d}.jpg" for index in range(num_images))]
    digest = hashlib.sha256()
    for name in names:
        digest.update(name.encode())
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()
