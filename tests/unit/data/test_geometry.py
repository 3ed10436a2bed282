"""Affine maps: boxes against corner-by-corner arithmetic, pixels against where the rectangle must come to lie."""

from __future__ import annotations

import numpy as np
import pytest

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.data.geometry import draw_warp, mirror, mirror_boxes, paste, transform_boxes, visible_boxes
from yolo_accum.data.order import keyed_rng


def no_draws(**options: float) -> AugmentConfig:
    """Every geometric option at 0 but the given ones."""
    off = {"degrees": 0.0, "translate": 0.0, "scale": 0.0, "shear": 0.0, "fliplr": 0.0, "flipud": 0.0}
    return AugmentConfig(**(off | options))


def test_transform_boxes_encloses_the_mapped_corners() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        boxes = np.sort(rng.uniform(0, 100, (6, 2, 2)), axis=1).reshape(-1, 4)
        affine = rng.normal(size=(2, 3))
        expected = []
        for left, top, right, bottom in boxes:
            corners = np.array([[left, top, 1], [right, top, 1], [right, bottom, 1], [left, bottom, 1]]) @ affine.T
            expected.append([*corners.min(axis=0), *corners.max(axis=0)])
        np.testing.assert_allclose(transform_boxes(boxes, affine), expected, atol=1e-9)


def test_transform_boxes_by_hand() -> None:
    """x' = 20 - 2 x (a flip), y' = y / 2 + 3."""
    affine = np.array([[-2.0, 0, 20], [0, 0.5, 3]])
    assert transform_boxes(np.array([[1.0, 2, 4, 8]]), affine).tolist() == [[12, 4, 18, 7]]
    assert transform_boxes(np.zeros((0, 4)), affine).shape == (0, 4)


def test_visible_boxes_by_hand() -> None:
    boxes = np.array(
        [
            [10.0, 10, 20, 20],  # inside
            [-10, 0, 10, 10],  # half of it left
            [-90, 0, 10, 10],  # a tenth left: exactly the limit
            [-91, 0, 10, 10],  # less
            [-20, 0, 0, 10],  # touches the border from outside
            [98.5, 0, 120, 10],  # 1.5 px wide
        ]
    )
    clipped, keep = visible_boxes(boxes, 100, 0.1, np.full((6, 2), 2.0))
    assert keep.tolist() == [True, True, True, False, False, False]
    assert clipped[1].tolist() == [0, 0, 10, 10]
    assert clipped.dtype == np.float32


def test_no_chosen_box_is_empty_in_float32() -> None:
    """The neighbours of 1000 in float32 are 6e-5 away."""
    boxes = np.array([[1000.0, 5, 1000.000001, 9], [1000, 5, 1000.001, 9]])
    clipped, keep = visible_boxes(boxes, 1024, 0, np.zeros((2, 2)))
    assert keep.tolist() == [False, True]
    assert (clipped[keep, 2:] > clipped[keep, :2]).all()


def test_a_warp_without_strength_is_the_identity() -> None:
    warp = draw_warp(keyed_rng(0, 0, 0, 0), no_draws(), 64)
    affine = warp.place(1.0, (-5.0, -7.0), (5.0, 7.0))
    np.testing.assert_allclose(affine, [[1, 0, 0], [0, 1, 0]], atol=1e-12)
    full = AugmentConfig(degrees=90, shear=40, scale=0.9, translate=0.5, fliplr=0, flipud=0)
    still = draw_warp(keyed_rng(0, 0, 0, 0), full, 64, strength=0)
    np.testing.assert_array_equal(still.linear, np.eye(2))
    np.testing.assert_array_equal(still.shift_px, [0, 0])


def test_a_place_scales_about_its_anchor() -> None:
    warp = draw_warp(keyed_rng(0, 0, 0, 0), no_draws(fliplr=1, flipud=1), 64)
    # Flips are done to the finished output.
    np.testing.assert_allclose(warp.place(2.0, (0.0, 0.0), (3.0, 5.0)), [[2, 0, 3], [0, 2, 5]])
    assert warp.flip_x and warp.flip_y


@pytest.mark.parametrize(("flip_x", "flip_y"), [(False, False), (True, False), (False, True), (True, True)])
def test_flips_mirror_pixels_and_boxes(flip_x: bool, flip_y: bool) -> None:
    image = np.random.default_rng(0).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    expected = image[:: -1 if flip_y else 1, :: -1 if flip_x else 1].copy()
    assert np.array_equal(mirror(image.copy(), flip_x, flip_y), expected)
    boxes = np.array([[1, 2, 5, 10]], dtype=np.float32)
    mirrored = mirror_boxes(boxes, 20, flip_x, flip_y)
    left, right = (15, 19) if flip_x else (1, 5)
    top, bottom = (10, 18) if flip_y else (2, 10)
    assert mirrored.tolist() == [[left, top, right, bottom]] and mirrored.dtype == np.float32
    assert boxes.tolist() == [[1, 2, 5, 10]], "not written to"


def test_draws_stay_in_their_ranges_and_fill_them() -> None:
    config = no_draws(degrees=30, translate=0.2, scale=0.4, fliplr=0.25)
    warps = [draw_warp(keyed_rng(0, 0, position, 0), config, 100) for position in range(2000)]
    zooms = np.array([np.sqrt(np.linalg.det(warp.linear)) for warp in warps])
    angles = np.array([np.rad2deg(np.arctan2(warp.linear[0, 1], warp.linear[0, 0])) for warp in warps])
    shifts = np.array([warp.shift_px for warp in warps])
    for values, low, high in [(zooms, 0.6, 1.4), (angles, -30, 30), (shifts, -20, 20)]:
        assert low <= values.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < values.max() <= high
    # 500 expected, standard deviation 19.4
    assert abs(sum(warp.flip_x for warp in warps) - 500) < 97
    assert not any(warp.flip_y for warp in warps)


def test_shear_never_folds_the_picture() -> None:
    config = no_draws(shear=60)
    for position in range(200):
        assert np.linalg.det(draw_warp(keyed_rng(0, 0, position, 0), config, 64).linear) == pytest.approx(1)


def test_one_option_does_not_disturb_the_draws_of_another() -> None:
    plain = draw_warp(keyed_rng(0, 0, 0, 0), no_draws(translate=0.1), 64)
    turned = draw_warp(keyed_rng(0, 0, 0, 0), no_draws(translate=0.1, degrees=30, fliplr=1), 64)
    np.testing.assert_array_equal(plain.shift_px, turned.shift_px)


def white(width_px: int, height_px: int) -> np.ndarray:
    return np.full((height_px, width_px, 3), 255, dtype=np.uint8)


def test_paste_at_whole_pixels_copies() -> None:
    image = np.random.default_rng(0).integers(0, 256, (10, 12, 3), dtype=np.uint8)
    canvas = np.zeros((40, 40, 3), dtype=np.uint8)
    paste(canvas, image, np.array([[1.0, 0, 5], [0, 1, 7]]))
    expected = np.zeros_like(canvas)
    expected[7:17, 5:17] = image
    assert np.array_equal(canvas, expected)
    paste(canvas, image, np.array([[-1.0, 0, 17], [0, 1, 7]]))
    expected[7:17, 5:17] = image[:, ::-1]
    assert np.array_equal(canvas, expected)


def test_paste_half_size_averages_pairs() -> None:
    """Pixel centres in the middle between four source pixels: their mean."""
    image = np.zeros((4, 4, 3), dtype=np.uint8)
    image[:2, :2] = np.array([[10, 20], [30, 40]])[..., None]
    canvas = np.zeros((8, 8, 3), dtype=np.uint8)
    paste(canvas, image, np.array([[0.5, 0, 0], [0, 0.5, 0]]))
    assert canvas[0, 0].tolist() == [25, 25, 25]
    assert canvas[1:].max() == 0


@pytest.mark.parametrize("angle", [0, 90, 10, -33, 171])
def test_paste_covers_the_pixels_whose_centre_lies_in_the_picture(angle: float) -> None:
    cos, sin = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
    linear = 1.7 * np.array([[cos, sin], [-sin, cos]])
    affine = np.hstack([linear, [[31.3], [33.9]]]) - np.hstack([np.zeros((2, 2)), linear @ [[8], [5]]])
    canvas = np.zeros((64, 64, 3), dtype=np.uint8)
    paste(canvas, white(16, 10), affine)
    columns, rows = np.meshgrid(np.arange(64) + 0.5, np.arange(64) + 0.5)
    inverse = np.linalg.inv(linear)
    x, y = np.tensordot(inverse, np.stack([columns, rows]) - affine[:, 2, None, None], axes=1)
    distance_px = 1.7 * np.minimum.reduce([x, 16 - x, y, 10 - y])  # inside the picture, in output pixels
    drawn = canvas[..., 0] == 255
    assert set(np.unique(canvas)) == {0, 255}  # nothing is mixed with what lay there before
    # A turned outline is drawn as lines of whole pixels.
    missing_px, surplus_px = (1e-6, 1e-6) if angle == 0 else (0.5, 1.0)
    assert drawn[distance_px > missing_px].all()
    assert not drawn[distance_px < -surplus_px].any()


def test_neighbours_leave_no_gap_and_do_not_overlap() -> None:
    for offset in np.linspace(10, 12, 23):
        covered = np.zeros((30, 30), dtype=int)
        for left in (offset - 10 * 0.83, offset):
            canvas = np.zeros((30, 30, 3), dtype=np.uint8)
            paste(canvas, white(10, 40), np.array([[0.83, 0, left], [0, 0.83, -1.0]]))
            covered += canvas[..., 0] == 255
        columns = covered[0]
        assert columns.max() == 1
        assert columns.sum() in (16, 17)  # 2 * 8.3 = 16.6


def test_turned_neighbours_leave_no_gap() -> None:
    rng = np.random.default_rng(0)
    columns, rows = np.meshgrid(np.arange(120) + 0.5, np.arange(120) + 0.5)
    for angle, zoom in zip(rng.uniform(-np.pi, np.pi, 40), rng.uniform(0.5, 2, 40), strict=True):
        linear = zoom * np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        corner = rng.uniform(40, 80, 2)
        canvas = np.zeros((120, 120, 3), dtype=np.uint8)
        for origin in ([-50, -40], [0, -40], [-50, 0], [0, 0]):
            paste(canvas, white(50, 40), np.column_stack([linear, linear @ origin + corner]))
        x, y = np.tensordot(np.linalg.inv(linear), np.stack([columns, rows]) - corner[:, None, None], axes=1)
        assert (canvas[(abs(x) < 50 - 1 / zoom) & (abs(y) < 40 - 1 / zoom)] == 255).all()


def ramps(width_px: int, height_px: int) -> np.ndarray:
    """[height_px, width_px, 3] uint8: red grows with x, green with y."""
    image = np.zeros((height_px, width_px, 3), dtype=np.uint8)
    image[..., 0] = np.arange(width_px)
    image[..., 1] = np.arange(height_px)[:, None]
    return image


@pytest.mark.parametrize("seed", range(40))
def test_resized_pictures_lie_where_the_returned_map_says_and_near_the_one_asked_for(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scale = float(rng.uniform(0.6, 1.6))
    affine = np.array([[scale, 0, rng.uniform(-150, 100)], [0, scale, rng.uniform(-100, 60)]])
    canvas = np.full((200, 200, 3), 255, dtype=np.uint8)
    drawn = paste(canvas, ramps(240, 160), affine)
    low, high = np.rint(np.clip([affine[:, 2], scale * np.array([240, 160]) + affine[:, 2]], 0, 200)).astype(int)
    if (high - low >= 64).all():
        # Corners in view move by at most half a pixel of the coarser side.
        corners = np.array([low, high])
        asked, got = ((corners - m[:, 2]) / m.diagonal() for m in (affine, drawn))
        assert abs(asked - got).max() <= 0.5 + 0.5 / scale
    # The middle of every pixel shows what lies there in the picture, up to the interpolation at its borders.
    y, x = np.mgrid[low[1] + 2 : high[1] - 2, low[0] + 2 : high[0] - 2] + 0.5
    for channel, places, axis in ((0, x, 0), (1, y, 1)):
        expected = (places - drawn[axis, 2]) / drawn[axis, axis] - 0.5
        shown = canvas[low[1] + 2 : high[1] - 2, low[0] + 2 : high[0] - 2, channel]
        np.testing.assert_allclose(shown, expected, atol=1.01)
    outside = np.ones((200, 200), dtype=bool)
    outside[max(0, low[1] - 1) : high[1] + 1, max(0, low[0] - 1) : high[0] + 1] = False
    assert (canvas[outside] == 255).all()


def test_resized_neighbours_leave_no_gap_and_do_not_overlap() -> None:
    for offset in np.linspace(60, 62, 23):
        covered = np.zeros((120, 120), dtype=int)
        for left in (offset - 50 * 0.83, offset):
            canvas = np.zeros((120, 120, 3), dtype=np.uint8)
            paste(canvas, white(50, 200), np.array([[0.83, 0, left], [0, 0.83, -1.0]]))
            covered += canvas[..., 0] == 255
        assert covered.max() == 1
        assert covered[0].sum() in (82, 83, 84)  # 2 * 41.5, each side rounded on its own


def test_a_picture_outside_draws_nothing() -> None:
    canvas = np.zeros((20, 20, 3), dtype=np.uint8)
    for shift in (-50.0, 50.0, 20.0, -10.0):
        paste(canvas, white(10, 10), np.array([[1.0, 0, shift], [0, 1, 0]]))
        paste(canvas, white(10, 10), np.array([[0.0, -1, shift + 10], [1, 0, 0]]))
    assert canvas[:, 1:-1].max() == 0
