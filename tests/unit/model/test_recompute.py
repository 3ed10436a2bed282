"""Blocks that are computed again in the backward pass change neither gradients nor buffers."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from yolo_accum.contracts import DenseOutput, WindowAware
from yolo_accum.model.build import build_model
from yolo_accum.model.norms import norm_factory
from yolo_accum.model.recompute import Recomputable, is_recomputing, recompute_activations
from yolo_accum.model.sizes import model_sizes
from yolo_accum.model.yolox import YOLOX


def train_a_window(model: nn.Module, micro_batches: list[Tensor], *, amp: bool = False) -> None:
    norms = [module for module in model.modules() if isinstance(module, WindowAware)]
    for norm in norms:
        norm.open_window(len(micro_batches))
    for images in micro_batches:
        with torch.autocast("cpu", torch.bfloat16, enabled=amp):
            output: DenseOutput = model(images)
        (output.box_raw.float().square().mean() + output.scores().mean()).backward()
    for norm in norms:
        norm.close_window(True)


def assert_same_gradients_and_buffers(plain: nn.Module, recomputed: nn.Module) -> None:
    for (name, expected), found in zip(plain.named_parameters(), recomputed.parameters(), strict=True):
        assert (expected.grad is None) == (found.grad is None), name
        if expected.grad is not None and found.grad is not None:
            assert torch.equal(expected.grad, found.grad), name
    for (name, buffer), found in zip(plain.named_buffers(), recomputed.buffers(), strict=True):
        assert torch.equal(buffer, found), name


def pair(size: str = "yolox_nano", norm: str = "bn") -> tuple[YOLOX, YOLOX]:
    plain = build_model(size, 2, norm_factory(norm)).train()
    recomputed = copy.deepcopy(plain)
    assert recompute_activations(recomputed) > 20
    return plain, recomputed


@pytest.mark.parametrize("amp", [False, True], ids=["fp32", "bf16"])
@pytest.mark.parametrize("norm", ["bn", "cmbn", "wrn", "gn", "frozen"])
def test_gradients_and_buffers_are_those_of_the_plain_run(norm: str, amp: bool) -> None:
    plain, recomputed = pair(norm=norm)
    window = [torch.rand(num_images, 3, 64, 64) for num_images in (3, 2, 1)]

    for model in (plain, recomputed):
        train_a_window(model, window, amp=amp)

    assert_same_gradients_and_buffers(plain, recomputed)


@pytest.mark.parametrize("size", [size for size in model_sizes() if size not in ("yolox_nano", "yolox_l", "yolox_x")])
def test_every_size_of_the_family_can_do_it(size: str) -> None:
    plain, recomputed = pair(size)
    images = torch.rand(2, 3, 64, 64)

    for model in (plain, recomputed):
        train_a_window(model, [images])

    assert_same_gradients_and_buffers(plain, recomputed)


def test_no_activations_are_kept_but_the_inputs_of_blocks() -> None:
    plain, recomputed = pair()
    kept = []
    for model in (plain, recomputed):
        sizes: dict[int, int] = {}

        def pack(tensor: Tensor, sizes: dict[int, int] = sizes) -> Tensor:
            sizes[tensor.data_ptr()] = tensor.nbytes
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model(torch.rand(2, 3, 128, 128))
        kept.append(sum(sizes.values()))

    assert kept[1] < kept[0] / 4


def test_random_draws_are_repeated() -> None:
    class Noisy(Recomputable):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.drop = nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            return self.drop(self.linear(x).tanh()).tanh()

    block = Noisy()
    gradients, draws = [], []
    for on in (False, True):
        recompute_activations(block, on)
        block.zero_grad()
        torch.manual_seed(3)
        block(torch.ones(5, 4)).sum().backward()
        assert block.linear.weight.grad is not None
        gradients.append(block.linear.weight.grad.clone())
        draws.append(torch.rand(1))

    assert torch.equal(*gradients) and torch.equal(*draws)
    assert not is_recomputing()


def test_outside_of_training_blocks_are_computed_as_always() -> None:
    plain, recomputed = pair()
    images = torch.rand(1, 3, 64, 64)

    with torch.inference_mode():
        assert torch.equal(plain.eval()(images).box_raw, recomputed.eval()(images).box_raw)

    assert recompute_activations(recomputed, on=False) == recompute_activations(plain, on=False)


@pytest.fixture
def one_replica(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("one_replica")
def test_data_parallel_training_with_and_without_exchange() -> None:
    plain, recomputed = pair()
    first, last = torch.rand(2, 3, 64, 64), torch.rand(2, 3, 64, 64)
    wrapped = DistributedDataParallel(recomputed, broadcast_buffers=False)

    train_a_window(plain, [first, last])
    with wrapped.no_sync():
        train_a_window(wrapped, [first])
    train_a_window(wrapped, [last])

    assert plain.head.stems[0].conv.weight.grad is not None
    for (name, expected), found in zip(plain.named_parameters(), recomputed.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, msg=name)
