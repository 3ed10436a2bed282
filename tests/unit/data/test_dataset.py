"""Training samples by key and evaluation samples by row, from pictures on disk."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from picture_index import draw_picture, enclosing_box, is_colour, random_pictures, write_picture_index

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.contracts import PAD_VALUE, DetectionIndex, SampleKey, StringTable
from yolo_accum.data.augment import Photometric
from yolo_accum.data.dataset import EvalDataset, TrainDataset
from yolo_accum.data.order import epoch_order

SIZE_PX = 96
OFF = AugmentConfig(mosaic=0, scale=0, translate=0, fliplr=0, hsv_h=0, hsv_s=0, hsv_v=0)
STRONG = AugmentConfig(
    mosaic=0.7, mixup=0.5, degrees=20, translate=0.3, scale=0.9, shear=10, flipud=0.5, photometric=0.3
)


@pytest.fixture
def index(tmp_path: Path) -> DetectionIndex:
    return write_picture_index(tmp_path, random_pictures(12))


def train_dataset(index: DetectionIndex, augment: AugmentConfig, **options: object) -> TrainDataset:
    return TrainDataset(index, augment, **({"seed": 3, "num_epochs": 20} | options))  # type: ignore[arg-type]


def test_positions_follow_the_order_of_the_epoch(index: DetectionIndex) -> None:
    dataset = train_dataset(index, AugmentConfig())
    for epoch in (0, 1):
        rows = [dataset[SampleKey(epoch, position, SIZE_PX)].image_index for position in range(12)]
        assert rows == epoch_order(3, epoch, 12).tolist()
        assert sorted(rows) == list(range(12))


def test_without_augmentation_boxes_are_the_letterboxed_ones(index: DetectionIndex) -> None:
    dataset = train_dataset(index, OFF)
    for position in range(12):
        sample = dataset[SampleKey(0, position, 128)]
        row = sample.image_index
        scale = 128 / max(index.widths_px[row], index.heights_px[row])
        # The picture ends on a whole pixel.
        np.testing.assert_allclose(sample.boxes_xyxy_px, index.boxes_xyxy_px[index.rows(row)] * scale, atol=0.5)
        assert sample.labels.tolist() == index.labels[index.rows(row)].tolist()


def test_samples_have_the_promised_form(index: DetectionIndex) -> None:
    sample = train_dataset(index, STRONG, photometric=Photometric(0.3))[SampleKey(4, 2, SIZE_PX)]
    assert sample.image.shape == (3, SIZE_PX, SIZE_PX)
    assert sample.image.dtype == np.uint8
    assert sample.image.flags.c_contiguous
    assert sample.boxes_xyxy_px.dtype == np.float32
    assert sample.boxes_xyxy_px.shape[1] == 4
    assert sample.labels.dtype == np.int64
    assert sample.epoch == 4
    assert sample.letterbox is None
    assert sample.problems == ()


def test_no_legal_annotation_gives_an_invalid_box(tmp_path: Path) -> None:
    """One-pixel objects, the whole picture, objects at every border, pictures of 1 px and of 1 x 300."""
    index = write_picture_index(
        tmp_path,
        [
            ((64, 48), [(0, (63, 47, 64, 48)), (1, (0, 0, 1, 1)), (2, (0, 0, 64, 48)), (3, (62, 0, 64, 48))]),
            ((1, 1), [(0, (0, 0, 1, 1))]),
            ((300, 1), [(1, (0, 0, 300, 1)), (2, (299, 0, 300, 1))]),
            ((50, 50), []),
        ],
    )
    # A sliver that annotation tools can leave, of positive size all the same.
    index.boxes_xyxy_px[0] = (63.9999999, 47, 64, 48)
    for augment in (STRONG, replace(STRONG, min_visible=0, min_box_px=0, mosaic=1, scale=0.99)):
        dataset = train_dataset(index, augment)
        for epoch in range(15):
            for position in range(4):
                sample = dataset[SampleKey(epoch, position, SIZE_PX)]
                boxes = sample.boxes_xyxy_px
                assert np.isfinite(boxes).all()
                assert boxes.min(initial=0) >= 0
                assert boxes.max(initial=0) <= SIZE_PX
                assert (boxes[:, 2:] > boxes[:, :2]).all()
                assert len(boxes) == len(sample.labels)


def test_boxes_enclose_their_objects_in_the_colour_of_their_class(tmp_path: Path) -> None:
    pictures = [((120, 90), [(label, (20 + 5 * label, 10, 90, 70))]) for label in range(4)]
    index = write_picture_index(tmp_path, pictures)
    dataset = train_dataset(
        index, AugmentConfig(hsv_h=0, hsv_s=0, hsv_v=0.1, min_visible=0, min_box_px=0, translate=0.3)
    )
    num_checked = 0
    for epoch in range(20):
        sample = dataset[SampleKey(epoch, 0, 160)]
        for label in set(sample.labels.tolist()):
            boxes = sample.boxes_xyxy_px[sample.labels == label]
            if len(boxes) == 1:  # a set of four pictures repeats some in a mosaic
                np.testing.assert_allclose(enclosing_box(is_colour(sample.image, label)), boxes[0], atol=1.5)
                num_checked += 1
    assert num_checked > 20


def test_crowd_regions_are_left_out(tmp_path: Path) -> None:
    index = write_picture_index(
        tmp_path, [((96, 96), [(0, (0, 0, 50, 50)), (1, (50, 50, 96, 96))])], crowd=[True, False]
    )
    assert train_dataset(index, OFF)[SampleKey(0, 0, SIZE_PX)].labels.tolist() == [1]
    assert EvalDataset(index, SIZE_PX)[0].labels.tolist() == [1]


def test_the_last_epochs_show_one_picture_each(tmp_path: Path) -> None:
    """Pictures of one grey level each: a mosaic shows several."""
    index = write_picture_index(tmp_path, [((96, 96), []) for _ in range(8)])
    for row in range(8):
        cv2.imwrite(index.image_paths[row], np.full((96, 96), 20 * row, dtype=np.uint8))
    dataset = train_dataset(index, AugmentConfig(mixup=1, hsv_h=0, hsv_s=0, hsv_v=0, close_mosaic=3), num_epochs=6)
    for epoch in range(6):
        num_levels = [len(np.unique(dataset[SampleKey(epoch, position, 96)].image)) for position in range(8)]
        assert (max(num_levels) <= 2) == (epoch >= 3)


def test_the_closed_epochs_warp_half_as_much(tmp_path: Path) -> None:
    index = write_picture_index(tmp_path, [((96, 96), [(0, (40, 40, 56, 56))])])
    config = AugmentConfig(scale=0.6, translate=0, fliplr=0, close_mosaic=200)
    dataset = train_dataset(index, config, num_epochs=400)
    zooms = [np.ptp(dataset[SampleKey(epoch, 0, 96)].boxes_xyxy_px[0, [0, 2]]) / 16 for epoch in range(200, 400)]
    assert 0.7 <= min(zooms) < 0.72
    assert 1.28 < max(zooms) <= 1.3


def test_a_picture_that_is_lost_in_mid_training_is_named_and_disturbs_nothing(index: DetectionIndex) -> None:
    keys = [SampleKey(0, position, SIZE_PX) for position in range(12)]
    dataset = train_dataset(index, STRONG, cache_mib=0)
    before = [dataset[key] for key in keys]
    lost = Path(index.image_paths[5])
    lost.write_bytes(b"<html>")
    after = [dataset[key] for key in keys]
    num_named = 0
    for old, new in zip(before, after, strict=True):
        assert old.image_index == new.image_index
        assert old.problems == ()
        if not new.problems:
            assert np.array_equal(old.image, new.image)
            assert np.array_equal(old.boxes_xyxy_px, new.boxes_xyxy_px)
        else:
            num_named += 1
            assert all(lost.name in problem for problem in new.problems)
    assert 1 <= num_named < 12
    assert after[[sample.image_index for sample in after].index(5)].problems


def test_a_changed_size_is_a_problem_too(index: DetectionIndex) -> None:
    cv2.imwrite(index.image_paths[0], np.zeros((33, 44, 3), dtype=np.uint8))
    position = int(np.flatnonzero(epoch_order(3, 0, 12) == 0)[0])
    [problem] = train_dataset(index, OFF)[SampleKey(0, position, SIZE_PX)].problems
    assert "44 x 33" in problem
    sample = EvalDataset(index, SIZE_PX)[0]
    assert "44 x 33" in sample.problems[0]
    assert (sample.image == PAD_VALUE).all()
    assert len(sample.labels) == 0


def test_evaluation_letterboxes_and_nothing_else(tmp_path: Path) -> None:
    pictures = [((96, 60), [(2, (10, 10, 40, 30))]), ((48, 96), [])]
    index = write_picture_index(tmp_path, pictures)
    dataset = EvalDataset(index, 96)
    assert len(dataset) == 2
    sample = dataset[0]
    assert np.array_equal(sample.image[:, :60].transpose(1, 2, 0), draw_picture(*pictures[0]))
    assert (sample.image[:, 60:] == PAD_VALUE).all()
    assert sample.boxes_xyxy_px.tolist() == [[10, 10, 40, 30]]
    assert sample.image_index == 0
    assert sample.letterbox is not None
    assert (sample.letterbox.width_px, sample.letterbox.height_px, sample.letterbox.scale) == (96, 60, 1.0)
    assert EvalDataset(index, 192)[0].boxes_xyxy_px.tolist() == [[20, 20, 80, 60]]


def test_evaluation_of_a_missing_file_keeps_the_place_of_the_picture(index: DetectionIndex) -> None:
    paths = [*list(index.image_paths)[:-1], "/nowhere/gone.png"]
    sample = EvalDataset(replace(index, image_paths=StringTable(paths)), SIZE_PX)[11]
    assert "gone.png" in sample.problems[0]
    assert sample.letterbox is not None
    assert sample.letterbox.width_px == index.widths_px[11]


def test_datasets_and_loaders_do_not_need_albumentations() -> None:
    code = (
        "import sys; sys.modules['albumentations'] = None\n"
        "import yolo_accum.data.dataset, yolo_accum.data.loader, yolo_accum.data.mosaic"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
