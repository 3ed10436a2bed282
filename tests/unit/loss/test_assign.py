from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision.ops import box_iou

from yolo_accum.contracts import Batch, DenseOutput
from yolo_accum.loss.assign import Assignment, assign

MakeOutput = Callable[..., DenseOutput]
MakeBatch = Callable[..., Batch]


def simota_of_one_image(output: DenseOutput, image: int, boxes: Tensor, labels: Tensor) -> dict[int, int]:
    """Place -> object, as the paper's algorithm 1 reads with the official constants; loops and plain numbers."""
    centres = ((output.grid_xy + 0.5) * output.stride_px[:, None]).tolist()
    strides = output.stride_px.tolist()

    def is_near(place: int, box: list[float]) -> bool:
        (x, y), radius = centres[place], 1.5 * strides[place]
        return abs(x - (box[0] + box[2]) / 2) < radius and abs(y - (box[1] + box[3]) / 2) < radius

    candidates = [place for place in range(len(strides)) if any(is_near(place, box) for box in boxes.tolist())]
    assert output.objectness_logits is not None
    classes = output.class_logits[image].double().sigmoid().tolist()
    objectness = output.objectness_logits[image].double().sigmoid().tolist()
    ious = box_iou(boxes.double(), output.boxes_xyxy_px[image].detach().double()).tolist()
    costs: list[dict[int, float]] = []
    for row, box in enumerate(boxes.tolist()):
        cost = {}
        for place in candidates:
            scores = [sqrt(score * objectness[place]) for score in classes[place]]
            entropy = sum(
                -log(score) if index == labels[row] else -log(1 - score) for index, score in enumerate(scores)
            )
            cost[place] = entropy - 3 * log(ious[row][place] + 1e-8) + (0 if is_near(place, box) else 1e6)
        costs.append(cost)
    takers: dict[int, list[int]] = {}
    for row, cost in enumerate(costs):
        num_wanted = max(1, int(sum(sorted((ious[row][place] for place in candidates), reverse=True)[:10])))
        for place in sorted(cost, key=lambda place: cost[place])[:num_wanted]:
            takers.setdefault(place, []).append(row)
    everybody = range(len(costs))
    return {
        place: rows[0] if len(rows) == 1 else min(everybody, key=lambda row: costs[row][place])
        for place, rows in takers.items()
    }


def matches(assignment: Assignment) -> dict[tuple[int, int], int]:
    keys = zip(assignment.sample.tolist(), assignment.place.tolist(), strict=True)
    return dict(zip(keys, assignment.box.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("num_boxes", "max_side_px"), [([3, 0, 8], 40), ([40, 1, 25], 20), ([0, 12, 0], 90)])
def test_agrees_with_the_plain_algorithm(
    make_output: MakeOutput, make_batch: MakeBatch, seed: int, num_boxes: list[int], max_side_px: float
) -> None:
    output = make_output(3, 96, 5, seed=seed, dtype=torch.float64)
    batch = make_batch(num_boxes, 96, 5, seed=seed, max_side_px=max_side_px)
    expected = {}
    first = 0
    for image, num in enumerate(num_boxes):
        rows = slice(first, first + num)
        found = simota_of_one_image(output, image, batch.boxes_xyxy_px[rows], batch.labels[rows])
        expected |= {(image, place): first + row for place, row in found.items()}
        first += num
    assert matches(assign(output, batch)) == expected


def test_an_object_takes_the_surest_place_near_it(make_output: MakeOutput, make_batch: MakeBatch) -> None:
    output = make_output(1, 64, 2)
    assert output.objectness_logits is not None
    with torch.no_grad():
        output.boxes_xyxy_px.copy_(torch.tensor([0.0, 0.0, 1.0, 1.0]))  # no IoU anywhere, so k is 1
        output.objectness_logits.fill_(-2.0)
        output.class_logits.fill_(-2.0)
        output.class_logits[0, 4 * 8 + 3, 1] = 1.0  # stride 8, row 4, column 3: centre (28, 36)
        output.class_logits[0, 0, 1] = 5.0  # surer, but far away
    batch = Batch(
        images=torch.zeros(1, 3, 64, 64, dtype=torch.uint8),
        boxes_xyxy_px=torch.tensor([[24.0, 24.0, 40.0, 40.0]]),
        labels=torch.tensor([1]),
        sample_of_box=torch.tensor([0]),
        image_indices=torch.tensor([0]),
    )
    assert matches(assign(output, batch)) == {(0, 35): 0}


def test_a_place_has_one_object_and_the_order_is_by_image_and_place(
    make_output: MakeOutput, make_batch: MakeBatch
) -> None:
    found = assign(make_output(4, 64, 3), make_batch([30, 0, 5, 60], 64, 3))
    keys = list(zip(found.sample.tolist(), found.place.tolist(), strict=True))
    assert keys == sorted(set(keys))


def test_the_result_does_not_depend_on_the_blocks(make_output: MakeOutput, make_batch: MakeBatch) -> None:
    output, batch = make_output(2, 96, 3), make_batch([120, 7], 96, 3)
    expected = matches(assign(output, batch))
    for max_pairs in (1, 500, 3000):
        assert matches(assign(output, batch, max_pairs)) == expected


def test_images_are_matched_by_themselves(make_output: MakeOutput, make_batch: MakeBatch) -> None:
    output, batch = make_output(3, 64, 3), make_batch([6, 0, 9], 64, 3)
    together = matches(assign(output, batch))
    apart = {}
    for image, rows in ((0, slice(0, 6)), (2, slice(6, 15))):
        assert output.objectness_logits is not None
        one = DenseOutput(
            box_raw=output.box_raw[image : image + 1],
            boxes_xyxy_px=output.boxes_xyxy_px[image : image + 1],
            objectness_logits=output.objectness_logits[image : image + 1],
            class_logits=output.class_logits[image : image + 1],
            grid_xy=output.grid_xy,
            stride_px=output.stride_px,
        )
        alone = Batch(
            images=batch.images[image : image + 1],
            boxes_xyxy_px=batch.boxes_xyxy_px[rows],
            labels=batch.labels[rows],
            sample_of_box=torch.zeros(rows.stop - rows.start, dtype=torch.long),
            image_indices=torch.tensor([image]),
        )
        apart |= {(image, place): row + rows.start for (_, place), row in matches(assign(one, alone)).items()}
    assert together == apart


class LargestTensor(TorchDispatchMode):
    """Remembers the number of elements of the largest tensor that any operation made."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for item in result if isinstance(result, tuple | list) else (result,):
            if isinstance(item, Tensor):
                self.numel = max(self.numel, item.numel())
        return result


def test_thousands_of_objects_in_one_small_picture(make_output: MakeOutput, make_batch: MakeBatch) -> None:
    output = make_output(8, 96, 80)
    batch = make_batch([2, 3000, 5, 0, 1, 4, 2, 3], 96, 80, max_side_px=10)
    with LargestTensor() as largest:
        found = assign(output, batch, max_pairs=20_000)
    # what an implementation at one go would hold: 3000 objects x 189 places x 80 classes
    assert largest.numel < 200_000 < 3000 * 189 * 80
    assert matches(found) == matches(assign(output, batch))
    assert 1 < (found.sample == 1).sum() <= 189


def test_no_objects_give_no_positives(make_output: MakeOutput, make_batch: MakeBatch) -> None:
    found = assign(make_output(2, 64, 3), make_batch([0, 0], 64, 3))
    assert len(found.sample) == len(found.place) == len(found.box) == 0


def test_an_object_off_the_picture_has_no_place(make_output: MakeOutput, make_batch: MakeBatch) -> None:
    batch = make_batch([1], 64, 3)
    batch.boxes_xyxy_px.copy_(torch.tensor([[500.0, 500.0, 520.0, 520.0]]))
    assert len(assign(make_output(1, 64, 3), batch).sample) == 0


def test_values_that_are_not_finite_do_not_stop_it(make_output: MakeOutput, make_batch: MakeBatch) -> None:
    output = make_output(1, 64, 3)
    with torch.no_grad():
        output.boxes_xyxy_px[:, ::2] = torch.nan
        output.class_logits[:, ::3] = torch.inf
    assert len(assign(output, make_batch([20], 64, 3)).sample) > 0
