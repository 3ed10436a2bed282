"""Pictures with boxes for a page: the picture once as a JPEG in the page, boxes as shapes on it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from yolo_accum.report.boxes_drawing import MAX_TEXTS, NAME_LENGTH, ink_on
from yolo_accum.report.style import COLOURS, shorten

MAX_SIDE_PX = 400
"""Longer side of a picture in a page."""
JPEG_QUALITY = 72


@dataclass(frozen=True, kw_only=True)
class PageBox:
    """A box in the pixels of the picture in the page."""

    left: float
    top: float
    width: float
    height: float
    colour: str
    ink: str
    """Of text on the colour."""
    name: str
    """Class and score, in full, for whoever points at the box."""
    text: str
    """The same, short; empty where there are too many boxes."""


@dataclass(frozen=True, kw_only=True)
class PagePicture:
    """A picture in a page."""

    uri: str
    width: int
    height: int
    scale: float
    """Pixels of the page's picture for one of the original."""


def page_picture(image: np.ndarray) -> PagePicture:
    """Scale a picture down and encode it.

    Args:
        image: [H, W, 3] uint8, RGB.
    """
    height, width = image.shape[:2]
    scale = min(1.0, MAX_SIDE_PX / max(height, width))
    target = max(1, round(width * scale)), max(1, round(height * scale))
    if scale < 1:
        image = cv2.resize(image, target, interpolation=cv2.INTER_AREA)
    _, encoded = cv2.imencode(".jpg", np.ascontiguousarray(image[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
    text = base64.b64encode(encoded.tobytes()).decode()
    return PagePicture(uri=f"data:image/jpeg;base64,{text}", width=target[0], height=target[1], scale=scale)


def page_boxes(
    scale: float,
    boxes_xyxy_px: np.ndarray,
    labels: np.ndarray,
    class_names: Sequence[str],
    scores: np.ndarray | None = None,
) -> list[PageBox]:
    """Boxes for a picture that was scaled; the best, which come first, are drawn last.

    Args:
        scale: of the picture.
        boxes_xyxy_px: [N, 4] in the original picture.
        labels: [N].
        class_names: c names.
        scores: [N].
    """
    result = []
    for place, (box, label) in enumerate(zip(np.asarray(boxes_xyxy_px) * scale, labels.tolist(), strict=True)):
        score = f" {scores[place]:.2f}" if scores is not None else ""
        colour = COLOURS[label % len(COLOURS)]
        left, top, right, bottom = (round(float(value), 1) for value in box)
        result.append(
            PageBox(
                left=left,
                top=top,
                width=round(max(right - left, 0.5), 1),
                height=round(max(bottom - top, 0.5), 1),
                colour=colour,
                ink=ink_on(colour),
                name=f"{class_names[label]}{score}",
                text=f"{shorten(class_names[label], NAME_LENGTH)}{score}" if len(labels) <= MAX_TEXTS else "",
            )
        )
    return result[::-1]
