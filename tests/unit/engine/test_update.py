"""Order and arithmetic of one update, on a model of one weight whose gradient is known by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from yolo_accum.contracts import Batch, LossSums
from yolo_accum.engine.precision import Precision, choose_precision
from yolo_accum.engine.update import Stepper
from yolo_accum.model.batch_norm import MOMENTUM, BatchNorm
from yolo_accum.model.window_norm import CrossMiniBatchNorm, WindowRenorm

CPU = torch.device("cpu")


class OneWeight(nn.Module):
    """Multiplies the mean of every image by one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0]))
        self.norm: nn.Module = nn.BatchNorm2d(3, affine=False)

    def forward(self, images: Tensor) -> Tensor:
        self.norm(images)
        return images.mean(dim=(1, 2, 3)) * self.weight


class SumOfOutputs:
    """The sum of the outputs, over the number of boxes."""

    term_names = ("sum",)

    def __call__(self, output: Any, batch: Batch) -> LossSums:
        return LossSums({"sum": output.float().sum()}, torch.tensor(float(batch.labels.shape[0])))


def batch_of(levels: list[int], num_boxes: int = 1) -> Batch:
    """One grey image a level."""
    images = torch.tensor(levels, dtype=torch.uint8).reshape(-1, 1, 1, 1).expand(-1, 3, 4, 4)
    return Batch(
        images=images,
        boxes_xyxy_px=torch.zeros(num_boxes, 4),
        labels=torch.zeros(num_boxes, dtype=torch.int64),
        sample_of_box=torch.zeros(num_boxes, dtype=torch.int64),
        image_indices=torch.arange(len(levels)),
    )


def stepper(
    precision: str = "off", *, lr: float = 1.0, max_grad_norm: float = 0.0, model: OneWeight | None = None
) -> Stepper:
    model = model or OneWeight()
    return Stepper(
        model=model,
        criterion=SumOfOutputs(),  # type: ignore[arg-type]
        optimizer=torch.optim.SGD(model.parameters(), lr=lr),
        precision=Precision(precision),
        device=CPU,
        max_grad_norm=max_grad_norm,
    )


def test_weight_moves_by_factor_times_gradient() -> None:
    one = stepper()
    one.open_window(1)
    for levels in ([255, 255], [255]):
        one.backward(one.forward(batch_of(levels)), provisional=4.0)
    update = one.apply(2.0, finite=True)  # gradient of the sum is 3, divided by 4, times 2
    assert update.grad_norm == pytest.approx(1.5)
    assert one.model.weight.item() == pytest.approx(2.0 - 1.5)
    assert not one.model.weight.grad.any()


@pytest.mark.parametrize("provisional", [0.25, 1.0, 64.0, 37.5])
def test_result_does_not_depend_on_the_provisional_divisor(provisional: float) -> None:
    one = stepper()
    one.open_window(1)
    one.backward(one.forward(batch_of([255, 128])), provisional)
    one.apply(provisional, finite=True)
    assert one.model.weight.item() == pytest.approx(2.0 - (1 + 128 / 255), rel=1e-6)


def test_clipping_sees_the_true_gradient_and_acts_once() -> None:
    one = stepper("fp16", max_grad_norm=2.0)
    one.open_window(1)
    one.backward(one.forward(batch_of([255, 255, 255])), 1.0)
    assert one.model.weight.grad.any()
    assert one.model.weight.grad.item() == pytest.approx(3 * 65536)  # scaled while the window is open
    update = one.apply(1.0, finite=True)
    assert update.grad_norm == pytest.approx(3.0)
    assert update.clip_coefficient == pytest.approx(2 / 3)
    assert update.scaler_scale == 65536
    assert one.model.weight.item() == pytest.approx(0.0, abs=1e-6)


def test_a_clip_above_the_norm_does_nothing() -> None:
    one = stepper("fp16", max_grad_norm=10.0)
    one.open_window(1)
    one.backward(one.forward(batch_of([255, 255, 255])), 1.0)
    assert one.apply(1.0, finite=True).clip_coefficient == 1.0
    assert one.model.weight.item() == pytest.approx(-1.0)


@pytest.mark.parametrize("precision", ["off", "fp16", "bf16"])
def test_refused_update_leaves_no_trace(precision: str) -> None:
    one = stepper(precision)
    before = {name: value.clone() for name, value in one.model.state_dict().items() if value.is_floating_point()}
    one.open_window(1)
    one.backward(one.forward(batch_of([255])), 1.0)
    assert one.model.weight.grad.any()
    one.model.weight.grad.fill_(float("inf"))
    update = one.apply(1.0, finite=True)
    assert not update.applied
    for name, value in before.items():
        assert torch.equal(one.model.state_dict()[name], value), name
    if one.scaler is not None:
        assert update.scaler_scale == 65536
        assert one.scaler.get_scale() == 32768  # lowered once, after the window


def test_loss_that_is_not_finite_refuses_the_update() -> None:
    one = stepper()
    one.open_window(1)
    one.backward(one.forward(batch_of([255])), 1.0)
    assert not one.apply(1.0, finite=False).applied
    assert one.model.weight.item() == 2.0


def test_scale_survives_a_new_process() -> None:
    one = stepper("fp16")
    one.open_window(1)
    one.backward(one.forward(batch_of([255])), 1.0)
    one.model.weight.grad.fill_(float("nan"))  # type: ignore[union-attr]
    one.apply(1.0, finite=True)
    other = stepper("fp16")
    other.scaler.load_state_dict(one.scaler.state_dict())  # type: ignore[union-attr]
    assert other.scaler.get_scale() == 32768  # type: ignore[union-attr]


def test_explicit_precisions_are_taken_without_measuring() -> None:
    def trial(precision: Precision) -> None:
        raise AssertionError("explicit choices are not measured")

    assert choose_precision("off", CPU, trial).name == "off"
    assert choose_precision("bf16", CPU, trial).dtype is torch.bfloat16


def test_auto_measures_on_a_cpu_with_native_bf16() -> None:
    tried: list[str] = []
    choice = choose_precision("auto", CPU, lambda precision: tried.append(precision.name))
    assert choice.name in ("off", "bf16")
    if tried:
        assert set(tried) == {"off", "bf16"}
        assert "measured" in choice.reason
    else:
        assert "no native bf16" in choice.reason


@pytest.mark.parametrize("norm", [CrossMiniBatchNorm, WindowRenorm])
@pytest.mark.parametrize("applied", [True, False])
def test_norms_of_a_window_follow_applied_updates_only(norm: type[nn.Module], applied: bool) -> None:
    model = OneWeight()
    model.norm = norm(3)
    one = stepper(model=model)
    one.open_window(2)
    for levels in ([0, 255], [255, 255]):
        one.backward(one.forward(batch_of(levels)), 1.0)
        assert model.norm.running_mean.tolist() == [0, 0, 0]
    one.apply(1.0, finite=applied)
    assert model.norm.running_mean.tolist() == pytest.approx([MOMENTUM * 0.75 if applied else 0.0] * 3)


def test_momentum_of_batch_norm_is_that_of_the_window() -> None:
    model = OneWeight()
    model.norm = BatchNorm(3)
    one = stepper(model=model)
    for length in (2, 1):
        before = model.norm.running_mean.clone()
        one.open_window(length)
        for _ in range(length):
            one.backward(one.forward(batch_of([255, 255])), 1.0)
        one.apply(1.0, finite=True)
        assert torch.allclose(1 - model.norm.running_mean, (1 - before) * (1 - MOMENTUM))
