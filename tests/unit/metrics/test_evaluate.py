"""Every validation image is counted exactly once."""

from __future__ import annotations

import pytest
import torch
from small_index import make_index, perfect_detections

from yolo_accum.contracts import Batch, Detections
from yolo_accum.metrics.evaluate import detect_all, measure

INDEX = make_index([[(0, (0, 0, 20, 20))], [], [(1, (5, 5, 60, 60)), (0, (100, 100, 300, 300))]])
PERFECT = perfect_detections(INDEX)


def batch_of(*rows: int) -> Batch:
    return Batch(
        images=torch.zeros(len(rows), 3, 32, 32, dtype=torch.uint8),
        boxes_xyxy_px=torch.zeros(0, 4),
        labels=torch.zeros(0, dtype=torch.int64),
        sample_of_box=torch.zeros(0, dtype=torch.int64),
        image_indices=torch.tensor(rows),
    )


def find(batch: Batch) -> list[Detections]:
    return [PERFECT[row] for row in batch.image_indices]


def test_all_images_in_any_order() -> None:
    done: list[int] = []
    result = measure(detect_all([batch_of(2, 0), batch_of(1)], find, progress=done.append), INDEX)
    assert done == [2, 3]
    assert result.metrics.values["AP"] == pytest.approx(1.0)
    assert [item.image_index for item in result.detections] == [0, 1, 2]


def test_shares_of_two_replicas_give_the_same_numbers() -> None:
    shares = detect_all([batch_of(1, 2)], find) + detect_all([batch_of(0)], find)
    assert measure(shares, INDEX).metrics == measure(detect_all([batch_of(0, 1, 2)], find), INDEX).metrics


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([batch_of(0, 1)], "not evaluated: 1, the first is 102"),
        ([batch_of(0, 1), batch_of(2, 0)], "image 100 come twice"),
    ],
)
def test_missing_and_repeated_images_are_refused(batches: list[Batch], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measure(detect_all(batches, find), INDEX)


def test_a_row_that_the_index_lacks_is_refused() -> None:
    extra = perfect_detections(make_index([[]] * 4))[3]
    with pytest.raises(ValueError, match="image row 3: the index has rows"):
        measure([*PERFECT, extra], INDEX)


def test_detections_of_other_images_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rows \[2, 1\] came for the batch of rows \[1, 2\]"):
        detect_all([batch_of(1, 2)], lambda batch: find(batch)[::-1])
