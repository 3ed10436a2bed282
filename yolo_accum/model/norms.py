"""Norms by name. A model is built with a factory, so that no block knows which norm it carries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from yolo_accum.model.batch_norm import BatchNorm, CudaSyncBatchNorm, FrozenBatchNorm, SyncBatchNorm
from yolo_accum.model.moments import SumOverReplicas
from yolo_accum.model.window_norm import CrossMiniBatchNorm, WindowRenorm

MAX_GROUPS = 32
"""Group count of the paper, for channels that it divides."""

NormFactory = Callable[[int], nn.Module]
"""Makes the norm of so many channels."""


def norm_factory(
    name: str,
    *,
    momentum_correction: bool = True,
    freeze_affine: bool = False,
    sum_over_replicas: SumOverReplicas | None = None,
    device_type: str = "cpu",
) -> NormFactory:
    """Makes norms of the named kind.

    Args:
        name: bn, syncbn, cmbn, wrn, gn or frozen.
        momentum_correction: for bn and syncbn: spread the momentum over the window's micro-batches.
        freeze_affine: for frozen: do not train scale and shift either.
        sum_over_replicas: for syncbn: adds a tensor up over the replicas; None where there is one replica only, for
            which syncbn is bn.
        device_type: for syncbn: on "cuda" it is torch's own.
    Raises:
        ValueError: there is no such norm.
    """
    own = partial(BatchNorm, momentum_correction=momentum_correction)
    synchronised: NormFactory = own
    if sum_over_replicas is not None and device_type == "cuda":
        synchronised = partial(CudaSyncBatchNorm, momentum_correction=momentum_correction)
    elif sum_over_replicas is not None:
        synchronised = partial(
            SyncBatchNorm, sum_over_replicas=sum_over_replicas, momentum_correction=momentum_correction
        )
    factories: dict[str, NormFactory] = {
        "bn": own,
        "syncbn": synchronised,
        "cmbn": CrossMiniBatchNorm,
        "wrn": WindowRenorm,
        "gn": GroupNorm,
        "frozen": partial(FrozenBatchNorm, freeze_affine=freeze_affine),
    }
    if name not in factories:
        raise ValueError(f"norm {name}: one of {', '.join(factories)} is needed")
    return factories[name]


def batch_norm(num_channels: int) -> nn.Module:
    """Batch norm with its defaults."""
    return BatchNorm(num_channels)


def group_count(num_channels: int) -> int:
    """The largest divisor of the channels that is not above `MAX_GROUPS`."""
    return max(count for count in range(1, MAX_GROUPS + 1) if num_channels % count == 0)


class GroupNorm(nn.GroupNorm):
    """Group norm: statistics of every image by itself, over the channels of a group.

    Source: Wu and He 2018, arXiv:1803.08494.
    """

    def __init__(self, num_channels: int) -> None:
        super().__init__(group_count(num_channels), num_channels)

    def forward(self, x: Tensor) -> Tensor:
        # nn.GroupNorm refuses one image with a single value per group, although it takes two of them
        return torch.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)
