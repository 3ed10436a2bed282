"""Scenes: every box must enclose the pixels of its object, whatever the warp."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from picture_index import Object, draw_picture, enclosing_box, is_colour

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.contracts import PAD_VALUE
from yolo_accum.data.geometry import draw_warp
from yolo_accum.data.mosaic import Picture, Scene, blend, flipped, mosaic_closed, mosaic_scene, single_scene
from yolo_accum.data.order import keyed_rng

SIZE_PX = 160
STILL = AugmentConfig(scale=0, translate=0, fliplr=0, degrees=0, shear=0)


def make_picture(size_px: tuple[int, int], objects: list[Object]) -> Picture:
    return Picture(
        image=draw_picture(size_px, objects),
        width_px=size_px[0],
        height_px=size_px[1],
        boxes_xyxy_px=np.array([box for _, box in objects], dtype=np.float64).reshape(-1, 4),
        labels=np.array([label for label, _ in objects], dtype=np.int32),
    )


FOUR = [
    make_picture((100, 80), [(0, (20, 10, 80, 70))]),
    make_picture((60, 120), [(1, (0, 30, 60, 90))]),
    make_picture((160, 160), [(2, (40, 60, 160, 160))]),
    make_picture((90, 30), [(3, (10, 5, 50, 30))]),
]


def assert_boxes_fit(scene: Scene, tolerance_px: float) -> int:
    """One object a class: each box lies on its pixels; a class without a box shows (nearly) nothing."""
    pixels = scene.image.transpose(2, 0, 1)
    for box, label in zip(scene.boxes_xyxy_px, scene.labels, strict=True):
        found = enclosing_box(is_colour(pixels, int(label)))
        assert found is not None
        np.testing.assert_allclose(found, box, atol=tolerance_px)
    return len(scene.labels)


@pytest.mark.parametrize(
    ("config", "tolerance_px"),
    [
        (AugmentConfig(min_visible=0.02), 1.0),
        (AugmentConfig(min_visible=0.02, scale=0.9, translate=0.4, flipud=0.5), 1.5),
    ],
)
def test_mosaic_boxes_fit_their_objects(config: AugmentConfig, tolerance_px: float) -> None:
    num_boxes = 0
    for position in range(60):
        rng = keyed_rng(0, 0, position, 1)
        scene = mosaic_scene(FOUR, draw_warp(rng, config, SIZE_PX), SIZE_PX, config, rng)
        num_boxes += assert_boxes_fit(flipped(scene), tolerance_px)
    assert num_boxes > 60


@pytest.mark.parametrize("picture", FOUR)
def test_turned_and_sheared_boxes_fit_their_objects(picture: Picture) -> None:
    """Objects are rectangles, so the box round the mapped corners is the box round the pixels (all of it in view)."""
    config = AugmentConfig(degrees=180, shear=15, scale=0.3, translate=0.05, flipud=0.5)
    num_inside = 0
    for position in range(40):
        scene = single_scene(picture, draw_warp(keyed_rng(0, 0, position, 1), config, SIZE_PX), SIZE_PX, config)
        if len(scene.labels) and scene.boxes_xyxy_px.min() > 0 and scene.boxes_xyxy_px.max() < SIZE_PX:
            # A pointed corner covers no pixel by more than half.
            num_inside += assert_boxes_fit(scene, 3.0)
    assert num_inside >= 5


def test_a_still_mosaic_by_hand() -> None:
    """Nothing drawn but the common corner: tiles at letterbox scale touch it."""
    warp = draw_warp(keyed_rng(0, 0, 0, 1), STILL, SIZE_PX)
    corner_px = keyed_rng(0, 0, 7, 2).uniform(-80, 80, size=2) + 80
    scene = mosaic_scene(FOUR, warp, SIZE_PX, replace(STILL, min_visible=0), keyed_rng(0, 0, 7, 2))
    x, y = corner_px
    unclipped = [
        [x - 160 + 32, y - 128 + 16, x - 160 + 128, y - 128 + 112],  # 100 x 80 at scale 1.6
        [x, y - 160 + 40, x + 80, y - 160 + 120],  # 60 x 120 at scale 4/3
        [x - 160 + 40, y + 60, x, y + 160],  # 160 x 160
        [x + 160 / 9, y + 80 / 9, x + 800 / 9, y + 480 / 9],  # 90 x 30 at scale 16/9
    ]
    clipped = np.clip(unclipped, 0, SIZE_PX)
    keep = (clipped[:, 2:] - clipped[:, :2] >= 2).all(axis=1)
    # Tiles begin and end on whole pixels.
    np.testing.assert_allclose(scene.boxes_xyxy_px, clipped[keep], atol=0.6)
    assert scene.labels.tolist() == np.flatnonzero(keep).tolist()


def test_without_augmentation_a_single_picture_is_the_letterboxed_one() -> None:
    picture = make_picture((160, 120), [(0, (159, 119, 160, 120)), (1, (158, 4, 160, 34))])
    scene = single_scene(picture, draw_warp(keyed_rng(0, 0, 0, 1), STILL, SIZE_PX), SIZE_PX, STILL)
    assert picture.image is not None
    assert np.array_equal(scene.image[:120], picture.image)
    assert (scene.image[120:] == PAD_VALUE).all()
    # The one-pixel box at the far corner stays too: it is not smaller than the letterbox shows it.
    assert scene.boxes_xyxy_px.tolist() == [[159, 119, 160, 120], [158, 4, 160, 34]]


def test_flipped_boxes_reach_the_other_border() -> None:
    picture = make_picture((160, 160), [(0, (159, 119, 160, 120)), (1, (158, 4, 160, 34))])
    config = replace(STILL, fliplr=1)
    scene = single_scene(picture, draw_warp(keyed_rng(0, 0, 0, 1), config, SIZE_PX), SIZE_PX, config)
    assert (scene.flip_x, scene.flip_y) == (True, False)
    scene = flipped(scene)
    assert picture.image is not None
    assert np.array_equal(scene.image, picture.image[:, ::-1])
    assert scene.boxes_xyxy_px.tolist() == [[0, 119, 1, 120], [0, 4, 2, 34]]


def test_boxes_that_zooming_out_makes_too_small_go() -> None:
    picture = make_picture((160, 160), [(0, (50, 50, 53, 53)), (1, (60, 60, 90, 90))])
    warp = replace(draw_warp(keyed_rng(0, 0, 0, 1), STILL, SIZE_PX), linear=0.5 * np.eye(2))
    scene = single_scene(picture, warp, SIZE_PX, STILL)
    assert scene.labels.tolist() == [1]
    # About the centre: 80 + (60 - 80) / 2 = 70
    np.testing.assert_allclose(scene.boxes_xyxy_px, [[70, 70, 85, 85]], atol=1e-4)


def test_a_smaller_copy_of_the_picture_gives_the_same_boxes_and_nearly_the_same_pixels() -> None:
    whole = make_picture((320, 240), [(0, (40, 40, 200, 160))])
    assert whole.image is not None
    half = replace(whole, image=whole.image[::2, ::2])
    warp = draw_warp(keyed_rng(0, 0, 3, 1), AugmentConfig(), SIZE_PX)
    from_whole, from_half = (single_scene(picture, warp, SIZE_PX, AugmentConfig()) for picture in (whole, half))
    # Which whole pixels come into view depends on how many there are.
    np.testing.assert_allclose(from_whole.boxes_xyxy_px, from_half.boxes_xyxy_px, atol=1.5)
    assert_boxes_fit(from_half, 1.5)


def test_a_missing_picture_is_grey_and_has_no_boxes() -> None:
    missing = replace(FOUR[0], image=None)
    warp = draw_warp(keyed_rng(0, 0, 0, 1), STILL, SIZE_PX)
    scene = single_scene(missing, warp, SIZE_PX, STILL)
    assert (scene.image == PAD_VALUE).all()
    assert scene.boxes_xyxy_px.shape == (0, 4)
    assert scene.boxes_xyxy_px.dtype == np.float32
    assert scene.labels.dtype == np.int64
    mosaic = mosaic_scene([missing, *FOUR[1:]], warp, SIZE_PX, STILL, keyed_rng(0, 0, 7, 2))
    assert 0 not in mosaic.labels
    assert len(mosaic.labels) > 0


def test_blend_mixes_pixels_and_keeps_all_boxes() -> None:
    warp = draw_warp(keyed_rng(0, 0, 0, 1), STILL, SIZE_PX)
    first, second = (single_scene(picture, warp, SIZE_PX, STILL) for picture in FOUR[:2])
    mixed = blend(first, second, 0.75)
    expected = 0.75 * first.image + 0.25 * second.image
    assert abs(mixed.image - expected).max() <= 0.5
    assert mixed.labels.tolist() == [0, 1]
    assert len(mixed.boxes_xyxy_px) == 2


@pytest.mark.parametrize(
    ("num_epochs", "close_mosaic", "first_closed"),
    [(100, 10, 90), (30, 10, 20), (10, 10, 5), (3, 10, 2), (2, 10, 1), (1, 10, 1), (100, 0, 100)],
)
def test_mosaic_closes_for_the_last_epochs_but_at_most_half(
    num_epochs: int, close_mosaic: int, first_closed: int
) -> None:
    closed = [epoch for epoch in range(num_epochs) if mosaic_closed(epoch, num_epochs, close_mosaic)]
    assert closed == list(range(first_closed, num_epochs))
