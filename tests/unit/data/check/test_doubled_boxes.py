"""Objects that are annotated twice."""

from __future__ import annotations

from small_index import make_index

from yolo_accum.data.check.boxes import report_coinciding_boxes
from yolo_accum.data.findings import FindingLog

BOX = (10.0, 10.0, 110.0, 110.0)
NEAR = (10.0, 10.0, 110.0, 101.0)  # IoU 0.91
LESS = (10.0, 10.0, 110.0, 99.0)  # IoU 0.89


def test_boxes_that_nearly_coincide_are_told_by_class() -> None:
    objects = [
        [(0, BOX), (1, (300.0, 300.0, 320.0, 320.0)), (0, NEAR)],
        [(0, BOX), (0, LESS)],
        [(0, BOX)],
        [],
        [(0, BOX), (1, BOX)],
        [(0, BOX), (0, BOX)],
    ]
    crowd = [[False] * len(image) for image in objects[:-1]] + [[False, True]]
    log = FindingLog()

    report_coinciding_boxes(make_index(objects, crowd=crowd), log)

    told = {finding.kind.code: finding for finding in log.findings}
    assert set(told) == {"coinciding-boxes", "two-classes"}
    assert told["coinciding-boxes"].places == ("/pictures/0.jpg: class 0 at [10, 10, 110, 110] px",)
    assert told["two-classes"].places == ("/pictures/4.jpg: class 0 and class 1 at [10, 10, 110, 110] px",)
    assert told["coinciding-boxes"].marks[0].box_xyxy_px == NEAR


def test_nothing_is_told_of_a_split_without_boxes() -> None:
    log = FindingLog()

    report_coinciding_boxes(make_index([[], []]), log)

    assert log.findings == ()
