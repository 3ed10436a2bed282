"""Pasted objects and the boxes of what they hide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from picture_index import draw_picture, enclosing_box, is_colour

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.data.copy_paste import MAX_PASTED, MAX_SIDE, paste_objects
from yolo_accum.data.mosaic import Picture, Scene
from yolo_accum.data.order import keyed_rng

SIZE_PX = 96
CONFIG = AugmentConfig(scale=0.3, fliplr=0.5, min_visible=0.3)


def picture(size_px: tuple[int, int], *objects: tuple[int, tuple[int, int, int, int]]) -> Picture:
    return Picture(
        image=draw_picture(size_px, objects),
        width_px=size_px[0],
        height_px=size_px[1],
        boxes_xyxy_px=np.array([box for _, box in objects], dtype=np.float64).reshape(-1, 4),
        labels=np.array([label for label, _ in objects], dtype=np.int64),
    )


def scene(*objects: tuple[int, tuple[int, int, int, int]]) -> Scene:
    base = picture((SIZE_PX, SIZE_PX), *objects)
    assert base.image is not None
    return Scene(base.image, base.boxes_xyxy_px.astype(np.float32), base.labels)


def pasted(position: int, base: Scene, donor: Picture, config: AugmentConfig = CONFIG) -> Scene:
    return paste_objects(base, donor, SIZE_PX, config, keyed_rng(0, 0, position, 7))


def test_a_pasted_object_fills_its_box() -> None:
    donor = picture((192, 120), (2, (30, 20, 70, 60)))
    sides = []
    for position in range(40):
        result = pasted(position, scene(), donor)
        [box] = result.boxes_xyxy_px
        assert result.labels.tolist() == [2]
        found = enclosing_box(is_colour(result.image.transpose(2, 0, 1), 2))
        np.testing.assert_allclose(found, box, atol=1.01)
        sides.append(box[2] - box[0])
    # 40 px of a picture of 192 are 20 px of one of 96, times 0.7 to 1.3.
    assert 13.5 <= min(sides) < 15 and 25 < max(sides) <= 26.5


def test_boxes_that_are_hidden_too_far_are_dropped_and_the_others_stay_as_they_are() -> None:
    objects = [(0, (x, y, x + 12, y + 12)) for x in range(0, 96, 12) for y in range(0, 96, 12)]
    donor = picture((96, 96), (1, (0, 0, 60, 60)))
    num_dropped = 0
    for position in range(20):
        result = pasted(position, scene(*objects), donor)
        is_red = is_colour(result.image.transpose(2, 0, 1), 0)
        expected = [list(box) for _, box in objects if is_red[box[1] : box[3], box[0] : box[2]].mean() >= 0.3]
        assert result.boxes_xyxy_px[:-1].tolist() == expected
        assert result.labels.tolist() == [0] * len(expected) + [1]
        num_dropped += len(objects) - len(expected)
    assert num_dropped > 0


def test_it_avoids_objects_where_there_is_room() -> None:
    donor = picture((96, 96), (1, (0, 0, 10, 10)))
    kept = sum(len(pasted(position, scene((0, (0, 0, 48, 96))), donor).labels) == 2 for position in range(50))
    assert kept == 50
    covered = [pasted(position, scene((0, (0, 0, 48, 96))), donor).boxes_xyxy_px[1][0] < 48 for position in range(50)]
    assert sum(covered) < 10  # one place in two would be on the object


def test_large_objects_are_scaled_down_and_tiny_ones_left_out() -> None:
    whole = picture((50, 50), (1, (0, 0, 50, 50)))
    [box] = pasted(0, scene(), whole, replace(CONFIG, scale=0)).boxes_xyxy_px
    assert (box[2:] - box[:2]).tolist() == [MAX_SIDE * SIZE_PX] * 2
    speck = picture((96, 96), (1, (10, 10, 11, 11)))
    assert len(pasted(0, scene(), speck, replace(CONFIG, scale=0)).labels) == 0


def test_a_donor_without_objects_or_pixels_changes_nothing() -> None:
    base = scene((0, (0, 0, 20, 20)))
    assert pasted(0, base, picture((30, 30))) is base
    lost = replace(picture((30, 30), (1, (0, 0, 9, 9))), image=None)
    assert pasted(0, base, lost) is base


def test_one_to_three_objects() -> None:
    donor = picture((96, 96), *[(3, (x, 0, x + 8, 8)) for x in range(0, 96, 10)])
    counts = {len(pasted(position, scene(), donor, replace(CONFIG, min_visible=0)).labels) for position in range(40)}
    assert counts == set(range(1, MAX_PASTED + 1))
