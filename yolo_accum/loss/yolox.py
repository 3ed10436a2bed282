"""The loss of YOLOX as sums and one denominator.

Source: Ge et al. 2021, arXiv:2107.08430.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from yolo_accum.config.schema import LossConfig
from yolo_accum.contracts import Batch, DenseOutput, LossSums
from yolo_accum.loss.assign import assign
from yolo_accum.loss.boxes import aligned_iou, at_least_float32


class YoloxCriterion:
    """IoU, objectness and class loss, and L1 on raw box values towards the end of a training.

    Args:
        config: gains.
        num_classes: c.
        l1_from_epoch: first 0-based epoch with the L1 term; None for never.
    """

    def __init__(self, config: LossConfig, num_classes: int, l1_from_epoch: int | None) -> None:
        self.config = config
        self.num_classes = num_classes
        self.l1_from_epoch = l1_from_epoch if config.l1_gain > 0 else None

    @property
    def term_names(self) -> tuple[str, ...]:
        return ("box", "obj", "cls") if self.l1_from_epoch is None else ("box", "obj", "cls", "l1")

    def __call__(self, output: DenseOutput, batch: Batch) -> LossSums:
        """Sums over the micro-batch.

        Args:
            output: of a model with objectness.
            batch: the objects, in pixels of the network input.
        Returns:
            All terms of `term_names`, in float32 (float64 for a float64 output); the denominator is the number of
            positives. Without positives only objectness has a gradient, yet every output of the network takes part
            with weight zero, as data parallelism needs it.
        """
        assert output.objectness_logits is not None, "YOLOX predicts objectness"
        positives = assign(output, batch)
        at = (positives.sample, positives.place)
        target_boxes = batch.boxes_xyxy_px.to(output.boxes_xyxy_px.dtype)[positives.box]
        iou = aligned_iou(output.boxes_xyxy_px[at], target_boxes)
        objectness = at_least_float32(output.objectness_logits)
        is_object = torch.zeros_like(objectness).index_put_(at, objectness.new_ones(()))
        classes = at_least_float32(output.class_logits[at])
        labels = batch.labels[positives.box].unsqueeze(1)
        # the better the box, the surer the class is to be
        class_targets = torch.zeros_like(classes).scatter_(1, labels, iou.detach().to(classes.dtype).unsqueeze(1))
        config = self.config
        terms = {
            "box": config.box_gain * (1 - iou.square()).sum(),
            "obj": config.obj_gain * _binary_cross_entropy(objectness, is_object),
            "cls": config.cls_gain * _binary_cross_entropy(classes, class_targets),
        }
        if self.l1_from_epoch is not None:
            raw = at_least_float32(output.box_raw[at])
            targets = encode_boxes(target_boxes, output.grid_xy[positives.place], output.stride_px[positives.place])
            weight = config.l1_gain if batch.epoch >= self.l1_from_epoch else 0.0
            terms["l1"] = weight * (raw - targets).abs().sum()
        return LossSums(terms=terms, denominator=objectness.new_full((), len(positives.place)))


def encode_boxes(boxes_xyxy_px: Tensor, grid_xy: Tensor, stride_px: Tensor) -> Tensor:
    """Raw values that a YOLOX head is to give for boxes; the inverse of its decoding.

    Args:
        boxes_xyxy_px: [P, 4].
        grid_xy: [P, 2] column and row of the place.
        stride_px: [P].
    Returns:
        [P, 4]: centre offset in cells, logarithm of width and height in cells.
    """
    in_cells = boxes_xyxy_px / stride_px.unsqueeze(1)
    top_left, bottom_right = in_cells[:, :2], in_cells[:, 2:]
    centre_offset = (top_left + bottom_right) / 2 - grid_xy
    # a box without area would have a side of minus infinity
    return torch.cat((centre_offset, (bottom_right - top_left + 1e-8).log()), dim=1)


def _binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
