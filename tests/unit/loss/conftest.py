"""Outputs and batches for the loss tests, made without a model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from yolo_accum.contracts import Batch, DenseOutput

STRIDES_PX = (8, 16, 32)


def places(size_px: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Grid and strides of a square input, written down cell by cell."""
    cells = [
        (column, row, stride)
        for stride in STRIDES_PX
        for row in range(size_px // stride)
        for column in range(size_px // stride)
    ]
    table = torch.tensor(cells, dtype=dtype)
    return table[:, :2], table[:, 2]


@pytest.fixture
def make_output() -> Callable[..., DenseOutput]:
    def make(
        num_images: int, size_px: int, num_classes: int, *, seed: int = 0, dtype: torch.dtype = torch.float32
    ) -> DenseOutput:
        """Plausible boxes around every place, random scores; leaves that record gradients."""
        generator = torch.Generator().manual_seed(seed)
        grid_xy, stride_px = places(size_px, dtype)
        num_places = len(stride_px)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

        box_raw = torch.cat((normal(num_images, num_places, 2), normal(num_images, num_places, 2) + 0.5), dim=-1)
        box_raw.requires_grad_()
        stride = stride_px.unsqueeze(-1)
        centre, half = (box_raw[..., :2] + grid_xy) * stride, box_raw[..., 2:].exp() * stride / 2
        return DenseOutput(
            box_raw=box_raw,
            boxes_xyxy_px=torch.cat((centre - half, centre + half), dim=-1),
            objectness_logits=normal(num_images, num_places).requires_grad_(),
            class_logits=normal(num_images, num_places, num_classes).requires_grad_(),
            grid_xy=grid_xy,
            stride_px=stride_px,
        )

    return make


@pytest.fixture
def make_batch() -> Callable[..., Batch]:
    def make(
        num_boxes: list[int], size_px: int, num_classes: int, *, seed: int = 0, epoch: int = 0, max_side_px: float = 40
    ) -> Batch:
        """Random boxes, so many in each image."""
        generator = torch.Generator().manual_seed(seed)
        total = sum(num_boxes)
        corner = torch.rand(total, 2, generator=generator) * (size_px - 4)
        side = 3 + torch.rand(total, 2, generator=generator) * max_side_px
        return Batch(
            images=torch.zeros(len(num_boxes), 3, size_px, size_px, dtype=torch.uint8),
            boxes_xyxy_px=torch.cat((corner, (corner + side).clamp(max=size_px)), dim=1),
            labels=torch.randint(0, num_classes, (total,), generator=generator),
            sample_of_box=torch.repeat_interleave(torch.arange(len(num_boxes)), torch.tensor(num_boxes)),
            image_indices=torch.arange(len(num_boxes)),
            epoch=epoch,
        )

    return make
