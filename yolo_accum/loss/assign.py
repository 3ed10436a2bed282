"""Which places of the network's output are to find which object: simplified optimal transport (SimOTA).

Source: Ge et al. 2021, arXiv:2107.08430, section 2.2; constants and order of operations follow the official code
(Megvii YOLOX 0.3, Apache-2.0).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from yolo_accum.contracts import Batch, DenseOutput
from yolo_accum.loss.boxes import at_least_float32, pairwise_iou

CENTRE_RADIUS_CELLS = 1.5
"""Half side of the square around an object's centre whose places are near it: 3 x 3 cells of every level."""
MAX_MATCHES = 10
"""Most places an object gets."""
IOU_WEIGHT = 3.0
FAR_COST = 1e6
"""Added to places that are near other objects only: taken where nothing better is left."""
MAX_PAIRS = 2**20
"""Objects times places that are compared at once (some 50 MB); pictures with more are done in blocks of objects."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Assignment:
    """P positives, ordered by image, then by place."""

    sample: Tensor
    """[P] int64, image of the micro-batch."""
    place: Tensor
    """[P] int64, 0..A-1."""
    box: Tensor
    """[P] int64, row of the batch's boxes."""


@torch.no_grad()
def assign(output: DenseOutput, batch: Batch, max_pairs: int = MAX_PAIRS) -> Assignment:
    """Match objects with places, each place with one object at most.

    An object takes its k cheapest places, k being the sum of its ten best IoUs (at least 1); the cost of a place is
    its classification loss plus three times the negative logarithm of its IoU. A place that several objects want goes
    to the one that is cheapest there. Every image is matched by itself, so the result does not depend on how images
    are cut into micro-batches.

    Args:
        output: m images, A places, with objectness.
        batch: the objects.
        max_pairs: bound on objects times places that are held at once; does not change the result.
    Returns:
        Row numbers, without graph. At least one positive for every object that has a place near it, unless another
        object is cheaper at all of them.
    """
    num_images, num_places = output.box_raw.shape[:2]
    stride = at_least_float32(output.stride_px)
    centres = (at_least_float32(output.grid_xy) + 0.5) * stride.unsqueeze(-1)
    boxes = batch.boxes_xyxy_px.to(output.boxes_xyxy_px.dtype)

    hits = torch.zeros(num_images, num_places, dtype=torch.int32, device=boxes.device)
    for rows in _blocks(0, len(boxes), max_pairs // num_places):
        hits.index_add_(0, batch.sample_of_box[rows], _is_near(boxes[rows], centres, stride).int())
    sample, place = hits.nonzero(as_tuple=True)
    # all sizes of the loop below in one transfer from the device
    counts = torch.stack((torch.bincount(batch.sample_of_box, minlength=num_images), (hits > 0).sum(dim=1))).tolist()

    predicted = at_least_float32(output.boxes_xyxy_px)[sample, place]
    probability = _joint_probability(output, sample, place)
    background_cost = torch.log1p(-probability).clamp_(min=-100).sum(dim=1).neg_()
    num_takers = torch.zeros_like(place)
    sum_of_takers = torch.zeros_like(place)
    cheapest = torch.full_like(background_cost, torch.inf)
    cheapest_box = torch.zeros_like(place)
    first_box = first = 0
    for num_boxes, num_candidates in zip(*counts, strict=True):
        last_box, last = first_box + num_boxes, first + num_candidates
        here = slice(first, last)
        for rows in _blocks(first_box, last_box, max_pairs // max(num_candidates, 1)):
            iou = pairwise_iou(boxes[rows], predicted[here])
            is_near = _is_near(boxes[rows], centres[place[here]], stride[place[here]])
            cost = _class_cost(probability[here], background_cost[here], batch.labels[rows])
            cost.add_(iou.add(1e-8).log_(), alpha=-IOU_WEIGHT).add_(~is_near, alpha=FAR_COST)
            places, taken = _cheapest_places(cost, iou)
            box = torch.arange(rows.start, rows.stop, device=place.device)
            num_takers[here].scatter_add_(0, places.flatten(), taken.flatten().long())
            sum_of_takers[here].scatter_add_(0, places.flatten(), (taken * box.unsqueeze(1)).flatten())
            lowest, lowest_row = cost.min(dim=0)
            lower = lowest < cheapest[here]
            cheapest[here] = torch.where(lower, lowest, cheapest[here])
            cheapest_box[here] = torch.where(lower, box[lowest_row], cheapest_box[here])
        first_box, first = last_box, last

    # the sum over one taker is that taker
    owner = torch.where(num_takers > 1, cheapest_box, sum_of_takers)
    positive = num_takers.nonzero(as_tuple=True)[0]
    return Assignment(sample=sample[positive], place=place[positive], box=owner[positive])


def _blocks(start: int, stop: int, length: int) -> list[slice]:
    length = max(length, 1)
    return [slice(first, min(first + length, stop)) for first in range(start, stop, length)]


def _is_near(boxes: Tensor, centres: Tensor, stride: Tensor) -> Tensor:
    """Whether places lie near the centres of boxes.

    Args:
        boxes: [N, 4] xyxy px.
        centres: [A, 2] px.
        stride: [A] px.
    Returns:
        [N, A] bool.
    """
    x, y = centres.unbind(-1)
    left, top, right, bottom = boxes.unsqueeze(1).unbind(-1)
    radius = CENTRE_RADIUS_CELLS * stride
    near_x = (x - (left + right) / 2).abs_() < radius
    near_y = (y - (top + bottom) / 2).abs_() < radius
    return near_x & near_y


def _joint_probability(output: DenseOutput, sample: Tensor, place: Tensor) -> Tensor:
    """[N, c] geometric mean of class probability and objectness at the candidates."""
    assert output.objectness_logits is not None, "YOLOX predicts objectness"
    classes = at_least_float32(output.class_logits[sample, place]).sigmoid()
    objectness = at_least_float32(output.objectness_logits[sample, place]).sigmoid()
    return classes.mul_(objectness.unsqueeze(1)).sqrt_()


def _class_cost(probability: Tensor, background_cost: Tensor, labels: Tensor) -> Tensor:
    """Binary cross entropy over all classes, for every object at every candidate.

    The sum over classes where none is true is the same for all objects of an image; only the term of the object's own
    class differs, so no [N, C, c] tensor is needed.

    Args:
        probability: [C, c].
        background_cost: [C], the sum over classes where none is true.
        labels: [N].
    Returns:
        [N, C].
    """
    own = probability.t().index_select(0, labels)
    if_false = torch.log1p(-own).clamp_(min=-100)
    if_true = own.log_().clamp_(min=-100)
    return if_false.sub_(if_true).add_(background_cost)


def _cheapest_places(cost: Tensor, iou: Tensor) -> tuple[Tensor, Tensor]:
    """The cheapest places of every object and which of them it takes.

    Args:
        cost, iou: [N, C].
    Returns:
        [N, K] int64 columns, the cheapest first, and [N, K] bool; K is 10 or C.
    """
    most = min(MAX_MATCHES, cost.shape[1])
    num_wanted = iou.topk(most, dim=1).values.sum(dim=1).int().clamp_(min=1)
    places = cost.topk(most, dim=1, largest=False).indices
    return places, torch.arange(most, device=cost.device) < num_wanted.unsqueeze(1)
