from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from yolo_accum.contracts import WindowAware
from yolo_accum.model.batch_norm import EPS, MOMENTUM, BatchNorm, FrozenBatchNorm, SyncBatchNorm, window_momentum


def torch_norm(num_channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(num_channels, eps=EPS, momentum=MOMENTUM)


def same_affine(*norms: nn.Module) -> None:
    for norm in norms:
        torch.manual_seed(5)
        nn.init.uniform_(norm.weight, 0.5, 2.0)
        nn.init.normal_(norm.bias)


def state(norm: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in norm.state_dict().items()}


# momentum


def test_momentum_of_a_window_forgets_as_much_as_one_large_batch() -> None:
    assert window_momentum(0.03, 1) == pytest.approx(0.03)
    assert window_momentum(0.19, 2) == pytest.approx(0.1)  # 0.9 * 0.9 = 0.81
    assert math.prod([1 - window_momentum(0.03, 8)] * 8) == pytest.approx(0.97)


@pytest.mark.parametrize("length", [1, 2, 8])
def test_running_statistics_forget_as_much_in_any_window(length: int) -> None:
    norm = BatchNorm(2)
    norm.running_mean.fill_(1.0)
    norm.open_window(length)
    for _ in range(length):
        norm(torch.tensor([-1.0, 1.0]).expand(2, 2).reshape(2, 2, 1, 1).transpose(0, 1).contiguous())  # of mean 0
    assert norm.running_mean.tolist() == pytest.approx([1 - MOMENTUM] * 2)


def test_without_correction_every_micro_batch_counts_fully() -> None:
    norm = BatchNorm(1, momentum_correction=False)
    norm.running_mean.fill_(1.0)
    norm.open_window(2)
    for _ in range(2):
        norm(torch.tensor([-1.0, 1.0]).view(2, 1, 1, 1))
    assert norm.running_mean.item() == pytest.approx((1 - MOMENTUM) ** 2)


def test_each_window_sets_its_own_momentum() -> None:
    norm = BatchNorm(1)
    assert isinstance(norm, WindowAware)
    momenta = []
    for length in (1, 4, 1):
        norm.open_window(length)
        momenta.append(norm.momentum)
        norm.close_window(True)
    assert momenta == pytest.approx([MOMENTUM, 1 - (1 - MOMENTUM) ** 0.25, MOMENTUM])


def test_bn_is_torchs_batch_norm() -> None:
    ours, reference = BatchNorm(3), torch_norm(3)
    same_affine(ours, reference)
    x = torch.randn(4, 3, 5, 5)
    ours.open_window(1)
    assert torch.equal(ours(x), reference(x))
    assert torch.allclose(ours.running_var, reference.running_var, rtol=1e-6)
    assert torch.equal(ours.eval()(x), reference.eval()(x)) or torch.allclose(ours(x), reference(x), rtol=1e-6)


# one value per channel


def test_a_single_value_per_channel_takes_the_running_statistics() -> None:
    norm = BatchNorm(2)
    norm.running_mean.copy_(torch.tensor([1.0, 2.0]))
    norm.running_var.fill_(4.0 - 1e-3)
    norm.bias.data.fill_(0.5)
    before = state(norm)
    y = norm(torch.tensor([3.0, 3.0]).view(1, 2, 1, 1).requires_grad_())
    assert y.flatten().tolist() == pytest.approx([1.5, 1.0])  # (3 - 1) / 2 + 0.5, (3 - 2) / 2 + 0.5
    y.sum().backward()
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())


def test_no_image_at_all_passes_and_changes_nothing() -> None:
    norm = BatchNorm(2)
    before = state(norm)
    assert norm(torch.zeros(0, 2, 4, 4)).shape == (0, 2, 4, 4)
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())


# frozen


def test_frozen_stays_frozen_when_modes_are_switched() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), FrozenBatchNorm(4))
    norm = model[1]
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2.0)
    before, x = state(norm), torch.randn(2, 3, 4, 4)
    expected = model.eval()(x)
    for mode in (True, False, True):
        model.train(mode)
        assert torch.equal(model(x), expected)
        assert model.training is mode
        assert not norm.training
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())
    assert norm.weight.requires_grad
    copied = copy.deepcopy(model).train()
    assert torch.equal(copied(x), expected)


def test_the_affine_is_frozen_on_demand() -> None:
    norm = FrozenBatchNorm(2, freeze_affine=True)
    x = torch.randn(2, 2, 3, 3, requires_grad=True)
    norm(x).square().sum().backward()
    assert not norm.weight.requires_grad and not norm.bias.requires_grad
    assert x.grad is not None and x.grad.abs().sum() > 0


# over replicas (tests/ddp has real ones)


def alone(_: Tensor) -> None:
    """The sum over one replica."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_syncbn_with_one_replica_is_batch_norm(dtype: torch.dtype) -> None:
    ours, reference = SyncBatchNorm(3, sum_over_replicas=alone).to(dtype), torch_norm(3).to(dtype)
    same_affine(ours, reference)
    x = torch.randn(4, 3, 5, 5, dtype=dtype) * 3 + 10
    weights = torch.randn_like(x)
    gradients = []
    for norm in (ours, reference):
        images = x.clone().requires_grad_()
        y = norm(images)
        (y * weights).sum().backward()
        gradients.append(
            (y.detach(), images.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var)
        )
    for found, expected in zip(*gradients, strict=True):
        assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5 if dtype == torch.float32 else 1e-12)


def test_syncbn_of_two_replicas_with_constant_shares_by_hand() -> None:
    """The other replica holds 5 three times, this one 1 and 3: the sum is 19, that of the squares 85."""

    def with_the_other(sums: Tensor) -> None:
        sums += torch.tensor([[3.0], [15.0], [75.0]])

    norm = SyncBatchNorm(1, sum_over_replicas=with_the_other)
    norm.open_window(1)
    y = norm(torch.tensor([1.0, 3.0]).view(2, 1, 1, 1))
    mean, var = 19 / 5, 85 / 5 - (19 / 5) ** 2
    assert y.flatten().tolist() == pytest.approx([(v - mean) / math.sqrt(var + 1e-3) for v in (1.0, 3.0)], rel=1e-5)
    assert norm.running_mean.item() == pytest.approx(MOMENTUM * mean)
    assert norm.running_var.item() == pytest.approx(1 - MOMENTUM + MOMENTUM * var * 5 / 4)


def test_syncbn_of_one_value_in_all_takes_the_running_statistics() -> None:
    norm = SyncBatchNorm(1, sum_over_replicas=alone)
    norm.running_mean.fill_(1.0)
    norm.running_var.fill_(4.0 - 1e-3)
    before = state(norm)
    x = torch.full((1, 1, 1, 1), 3.0, requires_grad=True)
    y = norm(x)
    y.sum().backward()
    assert (y.item(), x.grad.item()) == (pytest.approx(1.0), pytest.approx(0.5))
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())
