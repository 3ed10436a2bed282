"""Overlap of boxes, in float32 even under autocast: areas in pixels overflow float16."""

from __future__ import annotations

import torch
from torch import Tensor

_TINY = 1e-16
"""Keeps the IoU of two boxes without area at 0."""


def at_least_float32(x: Tensor) -> Tensor:
    """``x`` itself when it is float64, else in float32."""
    return x if x.dtype == torch.float64 else x.float()


def aligned_iou(a: Tensor, b: Tensor) -> Tensor:
    """IoU of each box with its partner.

    Args:
        a, b: [..., 4] xyxy, same units; leading dimensions broadcast.
    Returns:
        [...] in 0..1, differentiable; float32 at least.
    """
    a, b = at_least_float32(a), at_least_float32(b)
    overlap = torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])
    intersection = overlap.clamp(min=0).prod(dim=-1)
    return intersection / (_area(a) + _area(b) - intersection + _TINY)


def pairwise_iou(a: Tensor, b: Tensor) -> Tensor:
    """IoU of every box of ``a`` with every box of ``b``.

    Args:
        a: [N, 4] xyxy.
        b: [M, 4] xyxy, same units.
    Returns:
        [N, M] in 0..1; float32 at least.
    """
    a, b = at_least_float32(a), at_least_float32(b)
    # column by column: one [N, M, 4] tensor would be four times slower to walk through
    left, top, right, bottom = a.unsqueeze(1).unbind(-1)
    width = (torch.minimum(right, b[:, 2]) - torch.maximum(left, b[:, 0])).clamp_(min=0)
    height = (torch.minimum(bottom, b[:, 3]) - torch.maximum(top, b[:, 1])).clamp_(min=0)
    intersection = width.mul_(height)
    union = (_area(a).unsqueeze(1) + _area(b)).sub_(intersection).add_(_TINY)
    return intersection.div_(union)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).prod(dim=-1)
