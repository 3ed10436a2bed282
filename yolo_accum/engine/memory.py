"""Peak memory of the process or the device."""

from __future__ import annotations

import ctypes
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import torch

_RSS_UNIT = 1 if sys.platform == "darwin" else 1024
_CLEAR_REFS = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Options of glibc's `mallopt`: give back only above so much; ask the system for so many single pieces at most."""
_RESTART_PEAK = "5"
"""What Linux wants to read there (man 5 proc)."""


def peak_memory_mib(device: torch.device) -> float:
    """Highest memory so far in MiB: allocated by tensors on CUDA, resident set of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    # Where there is one, the kernel's own mark: that of getrusage begins with what the parent held when it started us.
    if _STATUS.exists() and (mark := re.search(rb"VmHWM:\s+(\d+) kB", _STATUS.read_bytes())):
        return int(mark[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT / 2**20


def restart_peak_memory(device: torch.device) -> bool:
    """Let `peak_memory_mib` count from now on.

    Returns:
        whether that is possible here: on CUDA, and on Linux.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return True
    try:
        # glibc keeps freed memory, which would count as if it were in use (up to 3 GiB after a large batch)
        ctypes.CDLL(None).malloc_trim(0)
        _CLEAR_REFS.write_text(_RESTART_PEAK)
    except (AttributeError, OSError, TypeError):  # another C library, not Linux, Windows
        return False
    return True


def keep_freed_memory() -> bool:
    """Let the C library keep what tensors on a CPU free, for the next ones, in place of giving it back at once.

    Every micro-batch makes and frees the same activations. Given back to the system, each of their pages has to be
    mapped and cleared again, by one thread while the others wait: a window of 64 images at 320 px took 151,000 page
    faults and a tenth of its time for that, and takes 3,000 now. Forked loader workers inherit it, whatever the
    device: decoding a picture of 640 x 480 px into fresh pages takes twice as long.

    Returns:
        whether that is possible here: with glibc.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, Windows
        return False
    return bool(set_option(_M_TRIM_THRESHOLD, -1) and set_option(_M_MMAP_MAX, 0))


def saved_mib(forward: Callable[[], object]) -> float:
    """What a forward pass keeps for the backward pass, in MiB, each piece of memory once (parameters among it)."""
    storages: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = forward()
    del output
    return sum(storages.values()) / 2**20
