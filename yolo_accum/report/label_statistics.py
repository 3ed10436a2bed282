"""What the labels of a data set look like to the network, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from yolo_accum.contracts import DetectionIndex

SIZE_MARKS_PX = (8, 32, 96)
"""8 px is the finest stride of the detectors; 32 and 96 part COCO's small, medium and large."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelStatistics:
    """n images, b objects (crowd regions are left out, as in training), c classes."""

    num_crowd: int
    boxes_per_class: np.ndarray
    """[c] int64."""
    boxes_per_image: np.ndarray
    """[n] int64."""
    sides_px: np.ndarray
    """[b, 2] float64 width and height in pixels of the network input, after a letterbox."""
    centres_norm: np.ndarray
    """[b, 2] float64, x and y as a share of the picture."""

    @property
    def sizes_px(self) -> np.ndarray:
        """[b] square root of the box's area, in pixels of the network input."""
        return np.sqrt(self.sides_px.prod(axis=1))

    @property
    def num_images_without_objects(self) -> int:
        return int((self.boxes_per_image == 0).sum())


def label_statistics(index: DetectionIndex, imgsz: int) -> LabelStatistics:
    """Count and measure the objects of an index.

    Args:
        imgsz: side of the square network input in pixels; the longer side of every picture becomes this long.
    """
    is_object = ~index.is_crowd
    image_of_box = np.repeat(np.arange(len(index)), np.diff(index.box_starts))[is_object]
    boxes = index.boxes_xyxy_px[is_object]
    picture_px = np.stack([index.widths_px, index.heights_px], axis=1)[image_of_box].astype(np.float64)
    scale = imgsz / picture_px.max(axis=1, keepdims=True)
    return LabelStatistics(
        num_crowd=int(index.is_crowd.sum()),
        boxes_per_class=np.bincount(index.labels[is_object], minlength=index.num_classes),
        boxes_per_image=np.bincount(image_of_box, minlength=len(index)),
        sides_px=(boxes[:, 2:] - boxes[:, :2]) * scale,
        centres_norm=(boxes[:, :2] + boxes[:, 2:]) / 2 / picture_px,
    )
