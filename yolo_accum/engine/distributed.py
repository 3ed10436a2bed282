"""Replicas: the only module that knows torch.distributed. One process is one replica, also when it is alone."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from yolo_accum.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """This process's place among the replicas."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this replica writes the files and speaks."""
        return self.rank == 0

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model as it is called in training: its gradients are averaged over the replicas in the backward pass."""
        if self.size == 1:
            return model
        return DistributedDataParallel(
            model, device_ids=[device] if device.type == "cuda" else None, broadcast_buffers=False
        )

    def sync_context(self, wrapped: nn.Module, is_last: bool) -> AbstractContextManager[None]:
        """Around forward and backward of a micro-batch: gradients are exchanged on the window's last one only."""
        if isinstance(wrapped, DistributedDataParallel) and not is_last:
            return wrapped.no_sync()
        return nullcontext()

    def sum_(self, values: Tensor) -> None:
        """Add ``values`` up over the replicas, in place."""
        if self.size > 1:
            dist.all_reduce(values)

    def barrier(self) -> None:
        """Wait for the others."""
        if self.size > 1:
            dist.barrier()

    def close(self) -> None:
        """Leave the group."""
        if self.size > 1:
            dist.destroy_process_group()


def join_replicas(device_type: str) -> Replicas:
    """Join the group that torchrun describes in the environment; alone when there is none.

    Raises:
        UserError: the environment is incomplete.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Replicas()
    missing = [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise UserError(f"WORLD_SIZE is {size} but {', '.join(missing)} is not set; start replicas with torchrun")
    dist.init_process_group("nccl" if device_type == "cuda" else "gloo")
    return Replicas(rank=dist.get_rank(), size=size, local_rank=int(os.environ["LOCAL_RANK"]))
