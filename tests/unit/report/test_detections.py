"""A picture with its detections."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from yolo_accum.contracts import Detections
from yolo_accum.report.detections import save_detections


@pytest.mark.parametrize(("width_px", "height_px"), [(1, 1), (1, 3000), (3000, 1), (5000, 7), (40, 30)])
def test_pictures_of_any_shape_are_drawn(width_px: int, height_px: int, tmp_path: Path) -> None:
    found = Detections(
        boxes_xyxy_px=np.array([[0, 0, width_px, height_px]], np.float32),
        scores=np.array([0.9], np.float32),
        labels=np.array([0]),
        image_index=0,
    )
    save_detections(np.zeros((height_px, width_px, 3), np.uint8), found, ["cell"], tmp_path / "drawn.jpg")
    assert min(cv2.imread(str(tmp_path / "drawn.jpg")).shape[:2]) >= 1
