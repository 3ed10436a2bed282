"""Peak memory of the process or the device."""

from __future__ import annotations

import resource
import sys

import torch

_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def peak_memory_mib(device: torch.device) -> float:
    """Highest memory so far in MiB: allocated by tensors on CUDA, resident set of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT / 2**20
