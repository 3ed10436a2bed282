"""How many processes work on pictures, by the cores of this machine."""

from __future__ import annotations

import os

from yolo_accum.config.schema import DataConfig
from yolo_accum.data.worker_count import default_workers


def available_cores(num_processes: int = 1) -> int:
    """Cores for each of ``num_processes`` that share those this process may run on; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // num_processes)


def num_workers(config: DataConfig, num_images: int, num_processes: int = 1) -> int:
    """Loader processes of a replica: as asked, else one for each of its cores; none for a smaller set than that."""
    if config.workers is not None:
        return config.workers
    return min(default_workers(available_cores(num_processes)), num_images)
