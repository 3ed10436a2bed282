"""COCO numbers against values computed by hand and against pycocotools' own summary."""

from __future__ import annotations

import contextlib
import io
import json

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from small_index import make_detections, make_index, perfect_detections

from yolo_accum.contracts import METRIC_NAMES, DetectionIndex, Detections
from yolo_accum.metrics.coco import CocoMetrics, coco_metrics

EVALUATORS = ("hotcoco", "pycocotools")


def random_case(seed: int, *, num_images: int = 12, num_classes: int = 4, max_found: int = 150):
    """Ground truth with crowd regions and areas that differ from the boxes', detections with tied scores, several
    hits on one object, images without objects, without detections and without an entry."""
    draw = np.random.default_rng(seed)
    objects, crowd, detections = [], [], []
    for image in range(num_images):
        count = int(draw.integers(0, 15)) if image % 4 else 0
        corners = draw.uniform(0, 400, (count, 2))
        boxes = np.concatenate([corners, corners + draw.uniform(4, 200, (count, 2))], axis=1)
        labels = draw.integers(0, num_classes - 1, count)  # the last class has no ground truth
        objects.append([(int(label), tuple(box)) for label, box in zip(labels, boxes, strict=True)])
        crowd.append(list(draw.random(count) < 0.15))
        if image == 5:
            continue
        num_found = int(draw.integers(0, max_found)) if image != 7 else 0
        source = draw.integers(0, max(count, 1), num_found)
        found = []
        for place in range(num_found):
            near = boxes[source[place]] if count else np.array([10.0, 10, 60, 60])
            box = near + draw.normal(0, 6, 4)
            box[2:] = np.maximum(box[2:], box[:2] + 1)
            label = int(labels[source[place]]) if count and draw.random() < 0.8 else int(draw.integers(0, num_classes))
            found.append((label, round(float(draw.random()), 1), tuple(box)))
        found.sort(key=lambda item: -item[1])
        detections.append(make_detections(image, found))
    num_boxes = sum(len(image) for image in objects)
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for image in objects for _, b in image]
    index = make_index(
        objects,
        num_classes=num_classes,
        crowd=crowd,
        areas_px=list(np.array(areas) * draw.uniform(0.5, 1, num_boxes)),
    )
    return index, detections


def pycocotools_summary(index: DetectionIndex, detections: list[Detections]) -> np.ndarray:
    """The twelve numbers as pycocotools prints them, through its usual way: JSON objects and loadRes."""
    truth = COCO()
    truth.dataset = {
        "info": {},
        "images": [{"id": row} for row in range(len(index))],
        "categories": [{"id": label} for label in range(index.num_classes)],
        "annotations": [
            {
                "id": row + 1,
                "image_id": image,
                "category_id": int(index.labels[row]),
                "bbox": [*index.boxes_xyxy_px[row, :2], *(index.boxes_xyxy_px[row, 2:] - index.boxes_xyxy_px[row, :2])],
                "area": float(index.areas_px[row]),
                "iscrowd": int(index.is_crowd[row]),
            }
            for image in range(len(index))
            for row in range(*index.rows(image).indices(index.num_boxes))
        ],
    }
    found = []
    for item in detections:
        boxes = item.boxes_xyxy_px.astype(float)
        for box, score, label in zip(boxes, item.scores, item.labels, strict=True):
            sides = [box[2] - box[0], box[3] - box[1]]
            found.append(
                {
                    "image_id": item.image_index,
                    "category_id": int(label),
                    "bbox": [box[0], box[1], *sides],
                    "score": float(score),
                }
            )
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(found), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats


def numbers(metrics: CocoMetrics) -> list[float]:
    return [-1.0 if metrics.values[name] is None else metrics.values[name] for name in METRIC_NAMES]


@pytest.mark.parametrize("seed", range(4))
def test_both_evaluators_equal_pycocotools_summary(seed: int) -> None:
    index, detections = random_case(seed)
    expected = pycocotools_summary(index, detections)
    for evaluator in EVALUATORS:
        assert numbers(coco_metrics(index, detections, evaluator=evaluator)) == expected.tolist()


@pytest.mark.parametrize("max_det", [1, 5, 10, 30, 100, 300])
@pytest.mark.parametrize("seed", [10, 11])
def test_evaluators_agree_to_the_last_digit(seed: int, max_det: int) -> None:
    index, detections = random_case(seed, num_classes=2, max_found=400)
    assert max(len(item.scores) for item in detections) > 100
    fast = coco_metrics(index, detections, evaluator="hotcoco", max_det=max_det)
    reference = coco_metrics(index, detections, evaluator="pycocotools", max_det=max_det)
    assert fast.values["AP"] is not None and 0 < fast.values["AP"] < 1
    assert fast == reference


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_values_by_hand(evaluator: str) -> None:
    """Two objects of 100 x 100 = 10,000 px (large). One detection has IoU 0.8 with the first, a better-scored one
    lies on nothing, the second object is missed. At the seven thresholds 0.50 ... 0.80 the only true positive has
    precision 1/2 and recall 1/2, which covers 51 of the 101 recall points."""
    index = make_index([[(0, (0, 0, 100, 100)), (0, (200, 200, 300, 300))]])
    detections = [make_detections(0, [(0, 0.9, (400, 0, 500, 100)), (0, 0.8, (0, 0, 80, 100))])]
    metrics = coco_metrics(index, detections, evaluator=evaluator)
    at_one = 51 / 101 / 2
    assert metrics.values["AP50"] == pytest.approx(at_one, abs=1e-12)
    assert metrics.values["AP75"] == pytest.approx(at_one, abs=1e-12)
    assert metrics.values["AP"] == pytest.approx(0.7 * at_one, abs=1e-12)
    assert metrics.values["AP_large"] == pytest.approx(0.7 * at_one, abs=1e-12)
    assert metrics.values["AP_small"] is None and metrics.values["AP_medium"] is None
    assert metrics.values["AR_1"] == 0.0
    assert metrics.values["AR_10"] == metrics.values["AR_max"] == pytest.approx(0.35, abs=1e-12)
    first, second = metrics.per_class
    assert (first.name, first.class_id, first.num_boxes) == ("class 0", 10, 2)
    assert first.ap == metrics.values["AP"] and first.ap50 == metrics.values["AP50"]
    assert (second.num_boxes, second.ap, second.ap50) == (0, None, None)


@pytest.mark.parametrize("evaluator", EVALUATORS)
@pytest.mark.parametrize("detections", [[], [make_detections(0, []), make_detections(1, [])]])
def test_no_detections_are_zeros(evaluator: str, detections: list[Detections]) -> None:
    index = make_index([[(0, (0, 0, 20, 20)), (0, (0, 0, 50, 50)), (1, (9, 9, 300, 300))], []])
    metrics = coco_metrics(index, detections, evaluator=evaluator)
    assert set(metrics.values.values()) == {0.0}
    assert [item.ap for item in metrics.per_class] == [0.0, 0.0]
    assert metrics.num_detections == 0


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_only_background_is_undefined_not_zero(evaluator: str) -> None:
    metrics = coco_metrics(make_index([[], []]), [make_detections(1, [(0, 0.5, (0, 0, 9, 9))])], evaluator=evaluator)
    assert set(metrics.values.values()) == {None}
    assert metrics.defined() == {}
    assert (metrics.num_images, metrics.num_boxes, metrics.num_detections) == (2, 0, 1)
    assert json.loads(json.dumps(metrics.to_json(), allow_nan=False))["AP"] is None


@pytest.mark.parametrize("evaluator", EVALUATORS)
@pytest.mark.parametrize(
    ("image_ids", "class_ids"), [((0, 7), (0, 3)), (("0002", "a-1"), (10, 40)), (("2", 2), ("x", "y"))]
)
def test_perfect_detections_reach_one_whatever_the_ids(evaluator: str, image_ids: tuple, class_ids: tuple) -> None:
    index = make_index(
        [[(0, (0, 0, 20, 20))], [(1, (5, 5, 60, 60)), (0, (100, 100, 300, 300))]],
        image_ids=image_ids,
        class_ids=class_ids,
    )
    metrics = coco_metrics(index, perfect_detections(index), evaluator=evaluator)
    assert [metrics.values[name] for name in METRIC_NAMES if name != "AR_1"] == pytest.approx([1.0] * 11)
    assert [item.class_id for item in metrics.per_class] == list(class_ids)


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_max_det_counts_in_ap(evaluator: str) -> None:
    """150 objects, all found: only the limit decides. At 100 the recall ends at 2/3: 67 of 101 points."""
    grid = [(float(30 * (k % 15)), float(30 * (k // 15))) for k in range(150)]
    index = make_index([[(0, (x, y, x + 20, y + 20)) for x, y in grid]], num_classes=1)
    at_100 = coco_metrics(index, perfect_detections(index), evaluator=evaluator, max_det=100)
    assert at_100.values["AP"] == pytest.approx(67 / 101)
    assert at_100.values["AR_max"] == pytest.approx(2 / 3)
    assert at_100.num_images_above_max_det == 1
    at_300 = coco_metrics(index, perfect_detections(index), evaluator=evaluator, max_det=300)
    assert at_300.values["AP"] == pytest.approx(1.0)
    assert at_300.values["AR_max"] == 1.0
    assert at_300.values["AR_10"] == pytest.approx(10 / 150)
    assert (at_300.max_det, at_300.num_images_above_max_det) == (300, 0)


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_crowd_regions_are_neither_found_nor_false(evaluator: str) -> None:
    index = make_index([[(0, (0, 0, 50, 50)), (0, (100, 100, 400, 400))]], num_classes=1, crowd=[[False, True]])
    inside_crowd = [(0, 0.9, (110, 110, 160, 160)), (0, 0.8, (210, 210, 260, 260))]
    metrics = coco_metrics(index, [make_detections(0, [*inside_crowd, (0, 0.7, (0, 0, 50, 50))])], evaluator=evaluator)
    assert metrics.values["AP"] == pytest.approx(1.0)
    assert (metrics.num_boxes, metrics.num_crowd, metrics.per_class[0].num_boxes) == (1, 1, 1)


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_size_follows_the_area_of_the_index(evaluator: str) -> None:
    """A 60 x 60 box whose mask covers 900 px is a small object."""
    index = make_index([[(0, (0, 0, 60, 60))]], num_classes=1, areas_px=[900.0])
    metrics = coco_metrics(index, perfect_detections(index), evaluator=evaluator)
    assert metrics.values["AP_small"] == pytest.approx(1.0) and metrics.values["AP_medium"] is None


def test_order_of_images_does_not_matter() -> None:
    index, detections = random_case(3)
    assert coco_metrics(index, detections[::-1]) == coco_metrics(index, detections)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    index, detections = random_case(0, num_images=3)
    for evaluator in EVALUATORS:
        coco_metrics(index, detections, evaluator=evaluator, max_det=50)
    assert capfd.readouterr() == ("", "")


def test_the_index_is_left_as_it_was() -> None:
    index, detections = random_case(0)
    before = index.boxes_xyxy_px.copy(), detections[1].boxes_xyxy_px.copy()
    coco_metrics(index, detections)
    assert np.array_equal(index.boxes_xyxy_px, before[0])
    assert np.array_equal(detections[1].boxes_xyxy_px, before[1])


@pytest.mark.parametrize(
    ("detections", "message"),
    [
        ([make_detections(0, []), make_detections(0, [])], "image 100 come twice"),
        ([make_detections(1, [])], "rows 0..0"),
        ([make_detections(0, [(2, 0.5, (0, 0, 1, 1))])], r"outside 0\.\.1"),
        ([make_detections(0, [(1, float("nan"), (0, 0, 1, 1))])], "not a finite number"),
        ([make_detections(0, [(1, 0.5, (0, 0, float("inf"), 1))])], "not a finite number"),
    ],
)
def test_impossible_detections_are_refused(detections: list[Detections], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coco_metrics(make_index([[]]), detections)


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_of_one_class_ap_by_size_is_that_of_the_set(evaluator) -> None:
    index, detections = random_case(2, num_classes=2)  # the second class has no ground truth

    metrics = coco_metrics(index, detections, evaluator=evaluator)

    assert metrics.per_class[0].ap_by_size == {
        size: metrics.values[f"AP_{size}"] for size in ("small", "medium", "large")
    }
    assert metrics.per_class[1].ap_by_size == dict.fromkeys(("small", "medium", "large"))
