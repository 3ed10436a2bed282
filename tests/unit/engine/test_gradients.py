"""Gradients of a window and their comparison, with values known by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from yolo_accum.contracts import Batch, DenseOutput, LossSums
from yolo_accum.engine.gradients import agreement, agreement_by_part, measure_window

CPU = torch.device("cpu")


def test_agreement_of_two_vectors() -> None:
    found = {"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([4.0])}
    expected = {"a": torch.tensor([0.0, 0.0]), "b": torch.tensor([2.5])}

    both = agreement(found, expected, ["a", "b"])

    assert both.cosine == pytest.approx(4 / 5)  # (3, 0, 4) and (0, 0, 2.5)
    assert both.norm_ratio == pytest.approx(2)
    assert both.relative_difference == pytest.approx(math.sqrt(9 + 1.5**2) / 2.5)


def test_agreement_is_not_a_number_without_a_gradient() -> None:
    nothing = agreement({"a": torch.ones(2)}, {"a": torch.zeros(2)}, ["a"])

    assert all(math.isnan(value) for value in (nothing.cosine, nothing.relative_difference, nothing.norm_ratio))


def test_parts_keep_their_order() -> None:
    gradient = {"x.1": torch.ones(1), "y.1": torch.full((1,), 2.0), "x.2": torch.ones(1)}

    parts = agreement_by_part(gradient, gradient, lambda name: name[0])

    assert list(parts) == ["x", "y"]
    assert {item.relative_difference for item in parts.values()} == {0.0}


class OneWeight(nn.Module):
    """Mean of every image, times one weight; a counter that must not move."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0]))
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        return images.mean(dim=(1, 2, 3)) * self.weight


class SumOverBoxes:
    """The sum of the outputs, over the number of boxes."""

    term_names = ("sum",)

    def __call__(self, output: DenseOutput, batch: Batch) -> LossSums:
        assert isinstance(output, Tensor)
        return LossSums({"sum": output.sum()}, torch.tensor(float(batch.labels.shape[0])))


def batch_of(num_images: int, num_boxes: int) -> Batch:
    """White images."""
    return Batch(
        images=torch.full((num_images, 3, 4, 4), 255, dtype=torch.uint8),
        boxes_xyxy_px=torch.zeros(num_boxes, 4),
        labels=torch.zeros(num_boxes, dtype=torch.int64),
        sample_of_box=torch.zeros(num_boxes, dtype=torch.int64),
        image_indices=torch.arange(num_images),
    )


def test_a_window_is_normalised_by_its_total_or_by_micro_batches() -> None:
    model, window = OneWeight(), [batch_of(3, 6), batch_of(1, 0)]

    total = measure_window(model, SumOverBoxes(), window, nbs=8, device=CPU)
    means = measure_window(model, SumOverBoxes(), window, nbs=8, device=CPU, mean_of_means=True)

    assert total.gradient["weight"].item() == pytest.approx(4 / 8 * (3 + 1) / 6)
    # 3 of 4 images have 3 / 6, 1 of 4 has 1 / max(0, 1)
    assert means.gradient["weight"].item() == pytest.approx(4 / 8 * (3 / 4 * 3 / 6 + 1 / 4 * 1 / 1))
    assert total.denominator == 6 and total.loss == pytest.approx(2 * 4 / 6)
    assert (model.weight.item(), model.calls.item()) == (2.0, 0.0)


def test_a_gradient_that_is_not_finite_is_refused() -> None:
    model = OneWeight()
    with torch.no_grad():
        model.weight.fill_(float("inf"))

    with pytest.raises(ValueError, match="not finite"):
        measure_window(model, SumOverBoxes(), [batch_of(1, 1)], nbs=1, device=CPU)
