"""The contact sheet shows every finding, whatever its boxes and pictures are like."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from yolo_accum.errors import UserError
from yolo_accum.report.contact_sheet import CELLS_A_LINE, Cell, SheetLine, _window, plot_contact_sheet


def red_share(path: Path) -> float:
    """Share of the sheet's pixels in the colour of the boxes."""
    image = cv2.imread(str(path)).astype(int)
    return float((np.abs(image - [0, 94, 213]).max(axis=2) < 30).mean())


def test_boxes_within_outside_without_area_and_pictures_that_cannot_be_read(tmp_path: Path) -> None:
    def read_image(path: str) -> np.ndarray:
        if "broken" in path:
            raise UserError("no picture")
        return np.full((60, 80, 3), 200, np.uint8)

    boxes = [(10, 10, 40, 40), (70, 50, 120, 90), (200, 10, 260, 40), (20, 20, 20, 30), (-1e6, 0, 1e6, 10), None]
    cells = [Cell(picture=f"{place}.png", box_xyxy_px=box, label="$cat") for place, box in enumerate(boxes)]
    lines = [
        SheetLine(title="boxes", severity="warning", cells=cells),
        SheetLine(title="pictures", severity="error", cells=[Cell(picture="broken.png", box_xyxy_px=None, label="")]),
    ]

    path = plot_contact_sheet(lines, tmp_path / "sheet.png", read_image)

    assert red_share(path) > 0.002
    without = [SheetLine(title="boxes", severity="info", cells=cells[-1:])]
    assert red_share(plot_contact_sheet(without, tmp_path / "plain.png", read_image)) == 0


def test_more_places_than_a_line_holds(tmp_path: Path) -> None:
    cells = [Cell(picture="a.png", box_xyxy_px=None, label="")] * (CELLS_A_LINE + 3)
    lines = [SheetLine(title="many", severity="info", cells=cells)] * 20

    path = plot_contact_sheet(lines, tmp_path / "sheet.png", lambda path: np.zeros((4, 4, 3), np.uint8))

    assert path.stat().st_size > 0


def test_the_window_holds_the_box_and_some_of_the_picture() -> None:
    for box in ((10, 10, 40, 40), (700, 10, 760, 40), (-300, -300, -200, -200), (40, 40, 10, 10)):
        left, top, right, bottom = _window(np.array(box, float), 640, 480)

        assert left <= min(box[0], box[2]) and right >= max(box[0], box[2])
        assert top <= min(box[1], box[3]) and bottom >= max(box[1], box[3])
        assert left < 640 and right > 0 and top < 480 and bottom > 0
