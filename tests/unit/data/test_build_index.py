"""What holds for the boxes of every index, whatever a reader hands over; and the list of findings itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from yolo_accum.data import findings as found
from yolo_accum.data.build_index import RawSplit, build_index
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import FindingKind, FindingLog
from yolo_accum.data.images import UnreadableImageError
from yolo_accum.data.picture_size import PictureSize

NUM_IMAGES = 6


def _random_split(rng: np.random.Generator) -> RawSplit:
    """Boxes around, across and outside pictures of different sizes, some not finite; picture 2 cannot be read."""
    num_boxes = 200
    corners = rng.integers(-20, 80, (num_boxes, 2)).astype(float)
    boxes = np.concatenate([corners, corners + rng.integers(-2, 30, (num_boxes, 2))], axis=1)
    boxes[rng.random(num_boxes) < 0.05, rng.integers(4)] = rng.choice([np.nan, np.inf, -np.inf])
    sizes: list[PictureSize | UnreadableImageError] = [
        PictureSize(40 + image, 60 - image) for image in range(NUM_IMAGES)
    ]
    sizes[2] = UnreadableImageError("picture 2 is empty")
    return RawSplit(
        source=Path("train.json"),
        paths=[f"/{image}.jpg" for image in range(NUM_IMAGES)],
        image_ids=list(range(NUM_IMAGES)),
        names=[f"{image}.jpg" for image in range(NUM_IMAGES)],
        sizes=sizes,
        image_of_box=rng.integers(0, NUM_IMAGES, num_boxes),
        boxes_xyxy_px=boxes,
        labels=rng.integers(0, 2, num_boxes),
        is_crowd=rng.random(num_boxes) < 0.1,
        areas_px=np.where(rng.random(num_boxes) < 0.5, np.nan, 7.0),
        place_of_box=lambda box: f"box {box}",
        classes=Classes(names=("cat", "dog"), ids=(1, 2)),
    )


@pytest.mark.parametrize("seed", range(20))
def test_boxes_lie_in_their_picture_and_every_lost_one_is_counted(seed: int) -> None:
    raw = _random_split(np.random.default_rng(seed))
    log = FindingLog()
    index = build_index(raw, log)

    assert index.image_ids == (0, 1, 3, 4, 5)
    assert index.box_starts[0] == 0 and index.box_starts[-1] == index.num_boxes
    for image in range(len(index)):
        boxes = index.boxes_xyxy_px[index.rows(image)]
        assert (boxes >= 0).all() and (boxes[:, 2:] > boxes[:, :2]).all()
        assert (boxes[:, 2] <= index.widths_px[image]).all() and (boxes[:, 3] <= index.heights_px[image]).all()
    assert (index.areas_px > 0).all()

    counts = {finding.kind.code: finding.count for finding in log.findings}
    lost = sum(
        counts.get(code, 0)
        for code in ("not-finite", "zero-size", "inverted-box", "outside", "tiny-box", "duplicate-box")
    )
    assert index.num_boxes + lost == np.count_nonzero(raw.image_of_box != 2)
    assert counts["unreadable-picture"] == 1


def test_less_than_a_tenth_of_a_pixel_is_no_object_and_a_pixel_is_one() -> None:
    kept = [[5.0, 5.0, 6.0, 6.0], [39.0, 10.0, 45.0, 20.0], [7.0, 7.0, 7.11, 9.0]]
    too_small = [[5.0, 5.0, 5.0 + 1e-9, 20.0], [5.0, 5.0, 20.0, 5.09], [39.95, 10.0, 60.0, 20.0]]
    split = replace(
        _random_split(np.random.default_rng(0)),
        image_of_box=np.zeros(6, np.int64),
        boxes_xyxy_px=np.array(kept + too_small),
        labels=np.zeros(6, np.int64),
        is_crowd=np.zeros(6, bool),
        areas_px=np.full(6, np.nan),
    )
    log = FindingLog()

    index = build_index(split, log)  # the picture is 40 px wide

    assert index.boxes_xyxy_px.tolist() == [kept[0], [39, 10, 40, 20], kept[2]]
    told = {finding.kind.code: finding for finding in log.findings}
    assert told["tiny-box"].kind.severity == "warning"
    assert told["tiny-box"].places == ("box 3: 1e-09 x 15 px", "box 4: 15 x 0.09 px", "box 5: 0.05 x 10 px")
    assert told["clipped"].count == 1


def test_every_kind_of_finding_has_a_code_of_its_own() -> None:
    kinds = [value for value in vars(found).values() if isinstance(value, FindingKind)]
    assert len(kinds) > 20
    assert max(Counter(kind.code for kind in kinds).values()) == 1


def _stored_corner(orientation: int) -> list[float]:
    """Where OpenCV shows the pixels of a small block of a 30 x 20 picture that has this EXIF orientation."""
    stored = np.zeros((20, 30), np.uint8)
    stored[2:7, 3:15] = 255  # left 3, top 2, right 15, bottom 7
    turns = {5: np.transpose, 6: lambda a: np.rot90(a, -1), 7: lambda a: np.rot90(a, 2).T, 8: np.rot90}
    rows, columns = np.nonzero(turns[orientation](stored))
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_boxes_of_the_stored_picture_are_turned_with_it(orientation: int) -> None:
    turned = PictureSize(20, 30, orientation)
    split = RawSplit(
        source=Path("train.json"),
        paths=["/0.jpg", "/1.jpg"],
        image_ids=[0, 1],
        names=["0.jpg", "1.jpg"],
        sizes=[turned, turned],
        image_of_box=np.array([0, 1]),
        boxes_xyxy_px=np.array([[3.0, 2.0, 15.0, 7.0]] * 2),
        labels=np.array([0, 0]),
        is_crowd=np.zeros(2, bool),
        areas_px=np.full(2, np.nan),
        place_of_box=lambda box: f"box {box}",
        classes=Classes(names=("cat",), ids=(1,)),
        written_sizes=[(30.0, 20.0), (20.0, 30.0)],
    )

    log = FindingLog()
    index = build_index(split, log)

    # The first picture is described as stored, the second one as shown.
    assert index.boxes_xyxy_px.tolist() == [_stored_corner(orientation), [3, 2, 15, 7]]
    assert [(finding.kind.code, finding.count) for finding in log.findings if finding.kind.severity == "warning"] == [
        ("stored-frame", 1)
    ]
