from __future__ import annotations

import pytest
import torch
from torchvision.ops import box_iou

from yolo_accum.loss.boxes import aligned_iou, pairwise_iou


def random_boxes(num: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(num, 2, generator=generator) * 50
    return torch.cat((corner, corner + torch.rand(num, 2, generator=generator) * 40), dim=1)


def test_iou_by_hand() -> None:
    a = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
    b = torch.tensor([[5.0, 0.0, 15.0, 10.0], [0.0, 0.0, 10.0, 10.0], [20.0, 20.0, 30.0, 30.0], [0.0, 0.0, 5.0, 2.0]])
    expected = [50 / 150, 1.0, 0.0, 10 / 100]
    assert pairwise_iou(a, b)[0].tolist() == pytest.approx(expected)
    assert aligned_iou(a, b).tolist() == pytest.approx(expected)


def test_pairwise_agrees_with_torchvision() -> None:
    a, b = random_boxes(30, 0), random_boxes(40, 1)
    assert torch.allclose(pairwise_iou(a, b), box_iou(a, b), atol=1e-6)


def test_boxes_without_area_overlap_nothing() -> None:
    point = torch.tensor([[3.0, 3.0, 3.0, 3.0]])
    assert pairwise_iou(point, point).item() == 0.0
    assert aligned_iou(point, point).item() == 0.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_areas_beyond_float16_are_computed_in_float32(dtype: torch.dtype) -> None:
    box = torch.tensor([[0.0, 0.0, 512.0, 512.0]], dtype=dtype)
    for iou in (pairwise_iou(box, box), aligned_iou(box, box)):
        assert iou.dtype == torch.float32
        assert iou.item() == 1.0


def test_float64_stays() -> None:
    box = random_boxes(2, 0).double()
    assert pairwise_iou(box, box).dtype == aligned_iou(box, box).dtype == torch.float64


def test_gradient_of_the_aligned_iou() -> None:
    a = random_boxes(6, 0).double().requires_grad_()
    b = a.detach() + torch.tensor([2.0, -1.0, 3.0, 1.5], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: aligned_iou(x, b), (a,))
