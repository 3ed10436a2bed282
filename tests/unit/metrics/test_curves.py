"""Matches, curves, confusion and costs against values computed by hand, and AP against the COCO evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from small_index import make_detections, make_index, perfect_detections
from test_coco import random_case

from yolo_accum.metrics.coco import coco_metrics
from yolo_accum.metrics.confusion import confusion_matrix
from yolo_accum.metrics.costly_images import costly_images
from yolo_accum.metrics.curves import CONFIDENCES, curves
from yolo_accum.metrics.matching import interpolated_precision, match

A, B, FAR = (0, 0, 100, 100), (200, 0, 300, 100), (400, 300, 500, 400)
IOU_60 = (0, 0, 100, 60)
"""Has an IoU of 0.6 with A."""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("max_det", [100, 3])
def test_ap_of_the_matches_is_that_of_the_coco_evaluator(seed: int, max_det: int) -> None:
    index, detections = random_case(seed)
    expected = coco_metrics(index, detections, evaluator="pycocotools", max_det=max_det)

    matches = match(index, detections, max_det=max_det)

    for item, of_class in zip(matches, expected.per_class, strict=True):
        assert item.num_truth == of_class.num_boxes
        if of_class.ap is not None:
            precision = interpolated_precision(item.hits, item.ignored, item.num_truth)
            assert precision.mean() == pytest.approx(of_class.ap, abs=1e-12)
            assert precision[0].mean() == pytest.approx(of_class.ap50, abs=1e-12)


def three_detections():
    """Two objects of class 0 (A and B): A found with 0.9, a false alarm with 0.6, B found with 0.3."""
    index = make_index([[(0, A)], [(0, B)]], num_classes=2)
    return index, [
        make_detections(0, [(0, 0.9, A), (0, 0.6, FAR)]),
        make_detections(1, [(0, 0.3, B)]),
    ]


def test_curves_of_three_detections() -> None:
    found = curves(match(*three_detections()))

    at = {round(value, 2): place for place, value in enumerate(CONFIDENCES)}
    # Recall 0.5 is reached with precision 1, recall 1 with 2 of 3.
    assert found.precision_at_recall[0] == pytest.approx([1.0] * 51 + [2 / 3] * 50)
    for confidence, precision, recall, f1 in (
        (0.0, 2 / 3, 1, 0.8),
        (0.3, 2 / 3, 1, 0.8),
        (0.31, 1 / 2, 1 / 2, 1 / 2),
        (0.6, 1 / 2, 1 / 2, 1 / 2),
        (0.61, 1, 1 / 2, 2 / 3),
        (0.9, 1, 1 / 2, 2 / 3),
        (0.91, np.nan, 0, 0),
    ):
        place = at[confidence]
        values = found.precision[0, place], found.recall[0, place], found.f1[0, place]
        assert values == pytest.approx((precision, recall, f1), nan_ok=True), confidence
    assert found.best_confidence == 0


def test_a_class_without_objects_has_no_curves_and_does_not_enter_the_mean() -> None:
    found = curves(match(*three_detections()))

    assert np.isnan(found.f1[1]).all() and np.isnan(found.precision_at_recall[1]).all()
    assert found.mean_f1 == pytest.approx(found.f1[0])


@pytest.mark.parametrize("objects", [[[(0, A)]], [[]], []])
def test_without_detections_nothing_is_reached(objects: list) -> None:
    index = make_index(objects, num_classes=1)

    found = curves(match(index, []))

    assert found.best_confidence is None
    assert not np.nan_to_num(found.recall).any() and not np.nan_to_num(found.precision_at_recall).any()


def test_the_confusion_matrix_of_a_few_pairs() -> None:
    index = make_index(
        [[(0, A), (1, B)], [], [(1, A)]],
        num_classes=2,
    )
    detections = [
        # Found as class 1; B found twice, the worse box is a false alarm.
        make_detections(0, [(1, 0.9, A), (1, 0.8, (200, 0, 300, 70)), (1, 0.7, B)]),
        make_detections(1, [(0, 0.5, FAR), (0, 0.2, A)]),
    ]

    matrix = confusion_matrix(index, detections, conf=0.25)

    assert matrix.tolist() == [
        [0, 1, 0],  # the one object of class 0 is taken for class 1
        [0, 1, 1],  # one of class 1 is found, one is missed
        [1, 1, 0],  # false alarms
    ]


def test_detections_in_a_crowd_region_are_no_confusion() -> None:
    index = make_index([[(0, A), (1, B)]], crowd=[[True, False]])
    detections = [make_detections(0, [(1, 0.9, (10, 10, 40, 40)), (0, 0.8, B), (0, 0.7, FAR)])]

    matrix = confusion_matrix(index, detections, conf=0.25)

    assert matrix.tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 0]]


def test_the_cost_of_an_image_is_what_ap_would_gain() -> None:
    index = make_index([[(0, A)], [(0, B)], [(0, A)], []], num_classes=1)
    detections = [
        make_detections(0, [(0, 0.9, A)]),
        make_detections(1, []),
        make_detections(2, [(0, 0.5, IOU_60)]),
        make_detections(3, [(0, 0.7, FAR)]),
    ]

    costs = costly_images(match(index, detections), 24)

    # The curve of three objects is read at 34 recalls up to 1/3, 33 up to 2/3, 34 up to 1. The detection of image 2 is
    # a hit at IoU 0.5, 0.55 and 0.6. Now: hit, false, hit at those three, else hit, false, false.
    now = (3 * (34 + 33 * 2 / 3) + 7 * 34) / 10 / 101
    # Image 1 perfect: hit, hit, false, hit at three; hit, hit, false, false at seven.
    with_1 = (3 * (67 + 34 * 3 / 4) + 7 * 67) / 10 / 101
    # Image 2 perfect: hit, hit, false at all.
    with_2 = 67 / 101
    # Image 3 perfect: hit, hit at three; hit, false at seven.
    with_3 = (3 * 67 + 7 * 34) / 10 / 101
    assert [cost.image for cost in costs] == [1, 2, 3]
    assert [cost.ap for cost in costs] == pytest.approx([with_1 - now, with_2 - now, with_3 - now])


def test_a_perfect_image_costs_nothing() -> None:
    index, _ = random_case(1)

    assert costly_images(match(index, perfect_detections(index)), 24) == []
    assert costly_images(match(make_index([[], []]), []), 24) == []
