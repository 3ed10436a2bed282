"""What a run leaves for its page besides tables and weights: files that a reader finds complete, whenever it looks."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from yolo_accum.contracts import Batch
from yolo_accum.errors import UserError

STARTUP_FILE = "startup.json"
DATA_FILE = "data.json"
SAMPLES_FILE = "train_samples.json"
MAX_SAMPLES = 16
SAMPLE_SIDE_PX = 320
JPEG_QUALITY = 80


def write_note(path: Path, content: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write plain numbers, texts, lists and dicts as JSON.

    Raises:
        OSError: the file cannot be written (names it).
    """
    temporary = path.with_name(f"{path.name}.part")
    try:
        temporary.write_text(json.dumps(content, indent=None) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def read_note(path: Path) -> Any:
    """The content of a JSON file; an empty dict where there is none.

    Raises:
        UserError: the file cannot be read, or is no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a JSON file ({error})") from error


def sample_records(batches: Sequence[Batch]) -> list[dict[str, Any]]:
    """The first pictures of training batches with their boxes, as plain content for `write_note`."""
    pictures = [(batch, place) for batch in batches for place in range(batch.num_images)][:MAX_SAMPLES]
    records = []
    for batch, place in pictures:
        image = batch.images[place].numpy(force=True).transpose(1, 2, 0)
        scale = min(1.0, SAMPLE_SIDE_PX / max(image.shape[:2]))
        if scale < 1:
            size = round(image.shape[1] * scale), round(image.shape[0] * scale)
            image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        _, encoded = cv2.imencode(
            ".jpg", np.ascontiguousarray(image[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY]
        )
        own = (batch.sample_of_box == place).numpy(force=True)
        boxes = batch.boxes_xyxy_px.numpy(force=True)[own] * scale
        records.append(
            {
                "jpeg": base64.b64encode(encoded.tobytes()).decode(),
                "width": image.shape[1],
                "height": image.shape[0],
                "boxes_xyxy_px": np.round(boxes.astype(float), 1).tolist(),
                "labels": batch.labels.numpy(force=True)[own].tolist(),
                "epoch": batch.epoch,
            }
        )
    return records
