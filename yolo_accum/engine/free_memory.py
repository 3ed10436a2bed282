"""How much memory a process may fill."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import torch

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def free_memory_bytes(device: torch.device) -> int:
    """What this process may still fill, and what it has: of the GPU, or of the machine its container."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    if not _MEMINFO.is_file():  # not Linux: all that there is
        return page_bytes * os.sysconf("SC_PHYS_PAGES")
    fields = dict(line.split(":", 1) for line in _MEMINFO.read_text(encoding="ascii").splitlines())
    free = int(fields["MemAvailable"].split()[0]) * 1024
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit, whose file says "max"
        limit = int((_CGROUP / "memory.max").read_text(encoding="ascii"))
        free = min(free, limit - int((_CGROUP / "memory.current").read_text(encoding="ascii")))
    own = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * page_bytes
    return max(0, free) + own
