"""Figures of a split, and the advice drawn from them, against numbers counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from small_index import make_index

from yolo_accum.report.check_advice import advice_for
from yolo_accum.report.check_figures import split_figures

SIDE = 640.0


def square(left: float, side: float) -> tuple[float, float, float, float]:
    return (left, 0.0, left + side, side)


def test_figures_count_objects_as_the_network_sees_them() -> None:
    index = make_index(
        [[(0, square(0, 10)), (0, square(50, 20)), (1, (0.0, 0.0, 100.0, 200.0))], [], [(1, square(0, 300))]],
        crowd=[[False, False, False], [], [True]],
    )

    figures = split_figures(index, 320)  # half the size of the pictures

    assert (figures["images"], figures["boxes"], figures["crowd_regions"]) == (3, 3, 1)
    assert (figures["images_without_objects"], figures["classes"], figures["classes_with_boxes"]) == (2, 2, 2)
    assert figures["boxes_per_image"]["max"] == 3 and figures["boxes_per_image"]["mean"] == 1
    assert figures["objects_under_8_px"] == 1  # 5 px
    assert figures["object_shorter_side_px"]["median"] == 10
    assert figures["aspect_ratio"]["min"] == 0.5
    assert figures["objects_by_size"] == {"0 to 8 px": 1, "8 to 32 px": 1, "32 to 96 px": 1, "from 96 px": 0}
    assert sum(figures["size_histogram_px"]["counts"]) == 3
    assert figures["picture_share_of_input"] == pytest.approx(0.75)
    assert [level["objects"] for level in figures["levels"]] == [2, 1, 0]
    assert (figures["levels"][1]["median_width_px"], figures["levels"][1]["median_height_px"]) == (50, 100)


def test_a_split_without_objects_has_figures_too() -> None:
    figures = split_figures(make_index([[], []]), 640)

    assert figures["boxes"] == 0 and figures["object_size_px"]["median"] is None
    assert figures["size_histogram_px"] == {"edges": [], "counts": []}


def advice(
    objects: list[list[tuple[int, Any]]], val: list[list[tuple[int, Any]]] | None = None, **options: Any
) -> dict:
    """The pieces of advice by topic."""
    settings = {"imgsz": 640, "max_det": 100, "batch": 8, "nbs": 64, **options}
    size_px = settings.pop("size_px", (640, 480))
    splits = {"train": split_figures(make_index(objects, size_px=size_px), settings["imgsz"])}
    if val is not None:
        splits["val"] = split_figures(make_index(val, size_px=size_px), settings["imgsz"])
    return {item.topic: item for item in advice_for(splits, **settings)}


MANY = 640
"""Images, enough for ten updates an epoch."""


def test_small_objects_ask_for_a_larger_input_as_far_as_the_pictures_have_pixels() -> None:
    small = [[(0, square(0, 10))]] * MANY  # 5 px at 640 in pictures of 1280

    told = advice(small, size_px=(1280, 960))["small objects"]

    assert (told.option, told.value) == ("--imgsz", 1024) and "640 of 640 training objects (100%)" in told.text
    capped = advice([[(0, square(0, 4))]] * MANY, size_px=(1280, 960))["small objects"]
    assert capped.value == 1280 and "more is not in the pictures" in capped.text
    native = advice([[(0, square(0, 4))]] * MANY)["small objects"]
    assert native.value is None and "only enlarges them" in native.text
    huge = advice([[(0, square(0, 20))]] * MANY, size_px=(4000, 3000))["small objects"]
    assert huge.value == 1600 and "tiles" not in huge.text
    larger = advice([[(0, square(0, 16))]] * MANY, size_px=(4000, 3000))["small objects"]
    assert larger.value == 2016 and "tiles of 640 px" in larger.text


def test_large_objects_allow_a_smaller_input() -> None:
    told = advice([[(0, square(0, 100))]] * MANY)["large objects"]

    assert (told.option, told.value) == ("--imgsz", 320) and "25% of the computation" in told.text
    assert "large objects" not in advice([[(0, square(0, 40))]] * MANY)


def test_pictures_with_more_objects_than_detections_are_named() -> None:
    crowded = [[(0, square(place, 50)) for place in range(130)]] * 70

    told = advice(crowded)["crowded pictures"]

    assert (told.option, told.value) == ("--max-det", 160) and "130 objects" in told.text
    assert "crowded pictures" not in advice(crowded, max_det=130)


def test_rare_classes_and_imbalance_are_told() -> None:
    objects = [[(0, square(0, 50))]] * 1000 + [[(1, square(0, 50))]] * 19

    told = advice(objects, val=[[(0, square(0, 50))]] * 50 + [[(1, square(0, 50))]])

    assert "'class 1' (19)" in told["rare classes"].text
    assert "(53 to 1)" in told["class imbalance"].text
    assert "'class 1' (1)" in told["few validation objects"].text


@pytest.mark.parametrize(("num_images", "topic"), [(40, "small set"), (200, "updates"), (MANY, None)])
def test_the_nominal_batch_is_held_against_the_set(num_images: int, topic: str | None) -> None:
    told = advice([[(0, square(0, 50))]] * num_images)

    assert {"small set", "updates"} & set(told) == ({topic} if topic else set())


def test_a_micro_batch_larger_than_the_set_is_told() -> None:
    assert advice([[(0, square(0, 50))]] * 5)["micro-batch"].value == 5
    assert "micro-batch" not in advice([[(0, square(0, 50))]] * 5, batch="auto")


def test_no_validation_split_is_told_and_an_empty_set_gives_no_figures() -> None:
    assert "validation" in advice([[(0, square(0, 50))]])
    assert set(advice([[]])) == {"validation"}
    assert advice_for({}, imgsz=640, max_det=100, batch=8, nbs=64) == ()
