"""syncbn over two processes against batch norm over all images in one."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

from yolo_accum.engine.distributed import Replicas
from yolo_accum.model.batch_norm import BatchNorm
from yolo_accum.model.norms import NormFactory, norm_factory

NUM_REPLICAS = 2
CASES = [(shares, dtype) for shares in ((2, 2), (3, 1), (4, 0)) for dtype in (torch.float32, torch.float64)]
"""Images of each replica, and the arithmetic."""

Outcomes = dict[tuple[tuple[int, int], torch.dtype], dict[str, Tensor]]


def network(norm: NormFactory, dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), norm(8), nn.SiLU(), nn.Conv2d(8, 8, 3, bias=False), norm(8)
    ).to(dtype)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


def pictures(num: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Images, and the gradient that reaches the network's output."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(num, 3, 9, 8, generator=generator, dtype=dtype) * 3 + 1
    return images, torch.randn(num, 8, 7, 6, generator=generator, dtype=dtype)


def outcome(model: nn.Module, images: Tensor, upstream: Tensor) -> dict[str, Tensor]:
    """Of two passes, so that running statistics move twice; gradients of the second."""
    for _ in range(2):
        model.zero_grad()
        x = images.clone().requires_grad_()
        y = model(x)
        (y * upstream).sum().backward()
    assert x.grad is not None
    return {
        "output": y.detach(),
        "input gradient": x.grad,
        **{f"gradient of {name}": item.grad for name, item in model.named_parameters() if item.grad is not None},
        **{name: item for name, item in model.named_buffers() if item.is_floating_point()},
    }


def replica(rank: int, folder: str) -> None:
    """All cases in one process, as starting one takes far longer than they do."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=NUM_REPLICAS)
    replicas = Replicas(rank=rank, size=NUM_REPLICAS)
    found = {}
    for shares, dtype in CASES:
        model = network(norm_factory("syncbn", sum_over_replicas=replicas.sum_), dtype)
        images, upstream = (item.split(shares)[rank] for item in pictures(sum(shares), dtype))
        found[shares, dtype] = outcome(model, images, upstream)
        for name, value in found[shares, dtype].items():
            if name.startswith("gradient of"):
                replicas.sum_(value)
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Outcomes]:
    """What each replica found, by case."""
    folder = tmp_path_factory.mktemp("replicas")
    mp.spawn(replica, (str(folder),), nprocs=NUM_REPLICAS)
    return [torch.load(folder / f"{rank}.pt") for rank in range(NUM_REPLICAS)]


@pytest.mark.parametrize(("shares", "dtype"), CASES)
def test_two_processes_equal_one_with_both_halves(
    parts: list[Outcomes], shares: tuple[int, int], dtype: torch.dtype
) -> None:
    expected = outcome(network(BatchNorm, dtype), *pictures(sum(shares), dtype))
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    one, two = (part[shares, dtype] for part in parts)
    for name, value in expected.items():
        if name in ("output", "input gradient"):
            found = torch.cat([one[name], two[name]])
        else:
            found = one[name]
            assert torch.equal(found, two[name]), name
        assert (found - value).norm() <= tolerance * value.norm(), name
