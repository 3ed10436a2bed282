from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from yolo_accum.model.batch_norm import EPS, MOMENTUM
from yolo_accum.model.moments import moments_of
from yolo_accum.model.recompute import Recomputable, recompute_activations
from yolo_accum.model.window_norm import CrossMiniBatchNorm, WindowNorm, WindowRenorm

KINDS = [CrossMiniBatchNorm, WindowRenorm]
SHAPE = (3, 4, 5, 6)


def norm_of(kind: type[WindowNorm], dtype: torch.dtype = torch.float64) -> WindowNorm:
    torch.manual_seed(3)
    norm = kind(SHAPE[1]).to(dtype)
    nn.init.uniform_(norm.weight, 0.5, 2.0)
    nn.init.normal_(norm.bias)
    return norm


def micro_batches(num: int = 3, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Of different means, spreads and sizes."""
    generator = torch.Generator().manual_seed(7)
    return [
        torch.randn(2 + number, *SHAPE[1:], generator=generator, dtype=dtype) * (1 + number) + number
        for number in range(num)
    ]


def channel_view(values: Tensor) -> Tensor:
    return values.view(1, -1, 1, 1)


def state(norm: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in norm.state_dict().items()}


# moments


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_moments_joined_are_those_of_all_values(dtype: torch.dtype) -> None:
    parts = [part.to(dtype) for part in micro_batches()]
    joint = moments_of(parts[0])
    for part in parts[1:]:
        joint = joint.joined(moments_of(part))
    together = torch.cat(parts).to(torch.float64)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    assert joint.mean.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert joint.count == together.numel() // SHAPE[1]
    assert torch.allclose(joint.mean.double(), together.mean((0, 2, 3)), rtol=tolerance, atol=tolerance)
    assert torch.allclose(joint.var.double(), together.var((0, 2, 3), correction=0), rtol=tolerance)
    assert torch.allclose(joint.unbiased_var().double(), together.var((0, 2, 3)), rtol=tolerance)


# value


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_normalised_with_the_window_so_far(kind: type[WindowNorm]) -> None:
    norm, parts = norm_of(kind), micro_batches()
    norm.open_window(len(parts))
    for number, part in enumerate(parts):
        seen = torch.cat(parts[: number + 1])
        mean, var = seen.mean((0, 2, 3), keepdim=True), seen.var((0, 2, 3), correction=0, keepdim=True)
        expected = (part - mean) / (var + EPS).sqrt() * channel_view(norm.weight) + channel_view(norm.bias)
        assert torch.allclose(norm(part), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("kind", KINDS)
def test_a_window_of_one_is_batch_norm(kind: type[WindowNorm], memory_format: torch.memory_format) -> None:
    norm = norm_of(kind, torch.float32)
    reference = nn.BatchNorm2d(SHAPE[1], eps=EPS, momentum=MOMENTUM)
    reference.load_state_dict(norm.state_dict())
    outcomes = []
    for each in (norm, reference):
        x = micro_batches(1, torch.float32)[0].contiguous(memory_format=memory_format).requires_grad_()
        if each is norm:
            norm.open_window(1)
        y = each(x)
        (y * torch.linspace(-1, 1, y.numel()).view_as(y)).sum().backward()
        if each is norm:
            norm.close_window(True)
        outcomes.append((y.detach(), x.grad, each.weight.grad, each.bias.grad, each.running_mean, each.running_var))
    for found, expected in zip(*outcomes, strict=True):
        assert torch.allclose(found, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_outside_a_window_it_is_batch_norm_and_remembers_nothing(kind: type[WindowNorm]) -> None:
    norm, reference = norm_of(kind), nn.BatchNorm2d(SHAPE[1], eps=EPS, momentum=MOMENTUM).double()
    reference.load_state_dict(norm.state_dict())
    for part in micro_batches():
        assert torch.allclose(norm(part), reference(part), rtol=1e-10, atol=1e-10)
    for name, value in reference.state_dict().items():
        assert torch.allclose(norm.state_dict()[name], value), name


# gradient


def gradients(norm: WindowNorm, parts: list[Tensor], upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of the last micro-batch of an open window: input, weight, bias."""
    norm.open_window(len(parts))
    with torch.no_grad():
        for part in parts[:-1]:
            norm(part)
    x = parts[-1].clone().requires_grad_()
    norm.zero_grad()
    (norm(x) * upstream).sum().backward()
    assert x.grad is not None and norm.weight.grad is not None and norm.bias.grad is not None
    return x.grad, norm.weight.grad, norm.bias.grad


def test_gradient_of_cmbn_is_that_of_the_window_with_the_earlier_part_constant() -> None:
    norm, parts = norm_of(CrossMiniBatchNorm), micro_batches()
    upstream = torch.randn_like(parts[-1])
    found = gradients(norm, parts, upstream)
    x = parts[-1].clone().requires_grad_()
    seen = torch.cat([*parts[:-1], x])
    mean, var = seen.mean((0, 2, 3), keepdim=True), seen.var((0, 2, 3), correction=0, keepdim=True)
    y = (x - mean) / (var + EPS).sqrt() * channel_view(norm.weight) + channel_view(norm.bias)
    expected = torch.autograd.grad((y * upstream).sum(), [x, norm.weight, norm.bias])
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-10)


def test_gradient_of_wrn_is_that_of_batch_renormalisation() -> None:
    norm, parts = norm_of(WindowRenorm), micro_batches()
    upstream = torch.randn_like(parts[-1])
    found = gradients(norm, parts, upstream)
    x = parts[-1].clone().requires_grad_()
    own_mean, own_sd = x.mean((0, 2, 3), keepdim=True), (x.var((0, 2, 3), correction=0, keepdim=True) + EPS).sqrt()
    seen = torch.cat(parts)
    mean, sd = seen.mean((0, 2, 3), keepdim=True), (seen.var((0, 2, 3), correction=0, keepdim=True) + EPS).sqrt()
    r, d = (own_sd / sd).detach(), ((own_mean - mean) / sd).detach()
    y = ((x - own_mean) / own_sd * r + d) * channel_view(norm.weight) + channel_view(norm.bias)
    expected = torch.autograd.grad((y * upstream).sum(), [x, norm.weight, norm.bias])
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_maps_give_half_precision_maps(kind: type[WindowNorm]) -> None:
    norm, parts = norm_of(kind, torch.float32), micro_batches(2, torch.float32)
    wide = gradients(norm, parts, torch.ones_like(parts[-1]))
    narrow = gradients(norm, [part.bfloat16() for part in parts], torch.ones_like(parts[-1]).bfloat16())
    assert narrow[0].dtype == torch.bfloat16
    assert torch.allclose(narrow[1], wide[1], rtol=0.02, atol=0.5)
    assert torch.allclose(narrow[2], wide[2], rtol=0.02)


# what outlives what


@pytest.mark.parametrize("kind", KINDS)
def test_running_statistics_follow_once_a_window_from_its_own(kind: type[WindowNorm]) -> None:
    norm, parts = norm_of(kind), micro_batches()
    before = state(norm)
    norm.open_window(len(parts))
    for part in parts:
        norm(part)
        assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())
    norm.close_window(True)
    together = torch.cat(parts)
    assert torch.allclose(norm.running_mean, MOMENTUM * together.mean((0, 2, 3)))
    assert torch.allclose(norm.running_var, 1 - MOMENTUM + MOMENTUM * together.var((0, 2, 3)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["applied", "refused", "dropped"])
def test_nothing_leaks_into_the_next_window(kind: type[WindowNorm], end: str) -> None:
    norm, parts = norm_of(kind), micro_batches()
    fresh = copy.deepcopy(norm)
    norm.open_window(2)
    norm(parts[2])
    if end != "dropped":
        norm.close_window(end == "applied")
    norm.open_window(2)
    fresh.open_window(2)
    assert torch.equal(norm(parts[0]), fresh(parts[0]))
    assert torch.equal(norm(parts[1]), fresh(parts[1]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_window_leaves_running_statistics_alone(kind: type[WindowNorm]) -> None:
    norm, parts = norm_of(kind), micro_batches()
    before = state(norm)
    norm.open_window(1)
    norm(parts[0])
    norm.close_window(False)
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())


@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_takes_the_running_statistics_and_leaves_the_window_alone(kind: type[WindowNorm]) -> None:
    norm, parts = norm_of(kind), micro_batches()
    undisturbed = copy.deepcopy(norm)
    plain = nn.BatchNorm2d(SHAPE[1], eps=EPS).double().eval()
    plain.load_state_dict(norm.state_dict())
    for each in (norm, undisturbed):
        each.open_window(2)
        each(parts[0])
    assert torch.equal(norm.eval()(parts[2]), plain(parts[2]))
    assert torch.equal(norm.train()(parts[1]), undisturbed(parts[1]))


@pytest.mark.parametrize("kind", KINDS)
def test_an_open_window_is_no_part_of_the_state(kind: type[WindowNorm]) -> None:
    norm = norm_of(kind)
    norm.open_window(2)
    norm(micro_batches()[0])
    assert set(norm.state_dict()) == set(nn.BatchNorm2d(1).state_dict())


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_value_per_channel_does_not_count(kind: type[WindowNorm]) -> None:
    norm, parts = norm_of(kind), micro_batches()
    undisturbed = copy.deepcopy(norm)
    for each in (norm, undisturbed):
        each.open_window(3)
        each(parts[0])
    single = torch.randn(1, SHAPE[1], 1, 1, dtype=torch.float64)
    assert torch.equal(norm(single), copy.deepcopy(norm).eval()(single))
    assert norm(torch.zeros(0, *SHAPE[1:], dtype=torch.float64)).shape[0] == 0
    assert torch.equal(norm(parts[1]), undisturbed(parts[1]))


class Block(Recomputable):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x).square()


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_pass_repeats_the_first(kind: type[WindowNorm]) -> None:
    plain, again = Block(norm_of(kind)), Block(norm_of(kind))
    recompute_activations(again)
    for block in (plain, again):
        block.norm.open_window(3)
        for part in micro_batches():
            block(part.requires_grad_()).sum().backward()
        block.norm.close_window(True)
    for (name, one), two in zip(plain.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad), name
    for name, value in state(plain).items():
        assert torch.equal(again.state_dict()[name], value), name
