"""A window cut into micro-batches gives the gradient of the large batch, with the real model and the real criterion.

Norms are in evaluation mode: batch statistics are the one thing that cutting does change.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from yolo_accum.config.schema import LossConfig
from yolo_accum.contracts import Batch, LossSums
from yolo_accum.engine.totals import gradient_factor
from yolo_accum.loss.yolox import YoloxCriterion
from yolo_accum.model.blocks import ConvNorm
from yolo_accum.model.build import build_model
from yolo_accum.model.yolox import YOLOX

NUM_IMAGES = 64
NUM_CLASSES = 3
SIZE_PX = 64
CUTS = {"8 x 8": [8] * 8, "16 x 4": [4] * 16, "short last": [9] * 7 + [1]}


def new_model(dtype: torch.dtype) -> YOLOX:
    """A new model whose activations keep their size from layer to layer although no norm corrects it.

    With the usual weights they die out, the predictions of all places become equal to the last digits, and rounding
    would decide which place finds an object.
    """
    torch.manual_seed(0)
    model = build_model("yolox_nano", NUM_CLASSES)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, ConvNorm):
                module.conv.weight.mul_(2.5)
    return model.to(dtype).eval()


def new_window() -> Batch:
    """64 images with 0 to 9 objects each; the first 8 and the last have none."""
    generator = torch.Generator().manual_seed(1)
    num_boxes = torch.randint(0, 4, (NUM_IMAGES,), generator=generator) ** 2
    num_boxes[:8] = num_boxes[-1] = 0
    total = int(num_boxes.sum())
    corner = torch.rand(total, 2, generator=generator) * (SIZE_PX - 8)
    side = 4 + torch.rand(total, 2, generator=generator) * 30
    return Batch(
        images=torch.randint(0, 256, (NUM_IMAGES, 3, SIZE_PX, SIZE_PX), generator=generator, dtype=torch.uint8),
        boxes_xyxy_px=torch.cat((corner, (corner + side).clamp(max=SIZE_PX)), dim=1),
        labels=torch.randint(0, NUM_CLASSES, (total,), generator=generator),
        sample_of_box=torch.repeat_interleave(torch.arange(NUM_IMAGES), num_boxes),
        image_indices=torch.arange(NUM_IMAGES),
    )


def micro_batches(window: Batch, cut: list[int]) -> list[Batch]:
    batches, first = [], 0
    for num_images in cut:
        last = first + num_images
        rows = (window.sample_of_box >= first) & (window.sample_of_box < last)
        batches.append(
            Batch(
                images=window.images[first:last],
                boxes_xyxy_px=window.boxes_xyxy_px[rows],
                labels=window.labels[rows],
                sample_of_box=window.sample_of_box[rows] - first,
                image_indices=window.image_indices[first:last],
            )
        )
        first = last
    assert first == window.num_images
    return batches


def loss_sums(model: nn.Module, batch: Batch) -> LossSums:
    dtype = next(model.parameters()).dtype
    return YoloxCriterion(LossConfig(), NUM_CLASSES, 0)(model(batch.images.to(dtype) / 255), batch)


def gradient(model: nn.Module) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])


def gradient_of_the_large_batch(model: nn.Module, window: Batch) -> Tensor:
    model.zero_grad()
    sums = loss_sums(model, window)
    (sums.total() / sums.denominator.clamp(min=1)).backward()
    return gradient(model)


def accumulated_gradient(model: nn.Module, batches: list[Batch], provisional: float) -> Tensor:
    model.zero_grad()
    denominator = 0.0
    for batch in batches:
        sums = loss_sums(model, batch)
        (sums.total() / provisional).backward()
        denominator += sums.denominator.item()
    images = sum(batch.num_images for batch in batches)
    return gradient(model) * gradient_factor(
        provisional=provisional, images=images, nbs=NUM_IMAGES, denominator=denominator
    )


def gradient_of_means(model: nn.Module, batches: list[Batch]) -> Tensor:
    """What trainers do that normalise every micro-batch by itself."""
    model.zero_grad()
    for batch in batches:
        sums = loss_sums(model, batch)
        (sums.total() / sums.denominator.clamp(min=1) / len(batches)).backward()
    return gradient(model)


def relative_difference(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()


@pytest.fixture(scope="module", params=[torch.float32, torch.float64], ids=["fp32", "fp64"])
def large_batch(request: pytest.FixtureRequest) -> tuple[YOLOX, Batch, Tensor]:
    model, window = new_model(request.param), new_window()
    return model, window, gradient_of_the_large_batch(model, window)


@pytest.mark.parametrize(
    ("cut", "provisional"), [("8 x 8", 1.0), ("8 x 8", 317.0), ("16 x 4", 40.0), ("short last", 0.1)]
)
def test_sums_over_one_denominator_give_the_large_batch(
    large_batch: tuple[YOLOX, Batch, Tensor], cut: str, provisional: float
) -> None:
    model, window, expected = large_batch
    found = accumulated_gradient(model, micro_batches(window, CUTS[cut]), provisional)
    tolerance = 1e-5 if expected.dtype == torch.float32 else 1e-10
    assert relative_difference(found, expected) <= tolerance


@pytest.mark.parametrize("cut", CUTS)
def test_a_mean_of_means_does_not(large_batch: tuple[YOLOX, Batch, Tensor], cut: str) -> None:
    model, window, expected = large_batch
    assert relative_difference(gradient_of_means(model, micro_batches(window, CUTS[cut])), expected) > 1e-2


def test_a_window_without_objects_trains_objectness_and_stays_finite() -> None:
    model, window = new_model(torch.float64), micro_batches(new_window(), [8, 56])[0]
    expected = gradient_of_the_large_batch(model, window)
    found = accumulated_gradient(model, micro_batches(window, [4, 3, 1]), 5.0) * (NUM_IMAGES / 8)
    assert expected.isfinite().all()
    assert expected.norm() > 0
    assert relative_difference(found, expected) <= 1e-10
