"""Runs a function in several replicas on this machine: gloo processes, forked from one that has imported everything."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["yolo_accum.cli.train", "yolo_accum.cli.main"])
TIME_LIMIT_S = 300
"""A hang is a failure, not the end of the test run; generous, as the machine may be busy."""


@dataclass(frozen=True)
class Ended:
    """How the replicas ended, by rank."""

    codes: list[int | None]
    results: list[Any]
    """What the function returned; None where it did not."""
    output: list[str]
    """Standard output and error."""


def run_replicas(function: Callable[..., Any], *args: Any, folder: Path, size: int = 2) -> Ended:
    """Call ``function(*args)`` in ``size`` processes whose environment is that of torchrun.

    Args:
        function: of a module; what it returns must be loadable by ``torch.load(weights_only=False)``.
        folder: for results and outputs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    processes = [
        CONTEXT.Process(target=_replica, args=(rank, size, port, folder, function, args)) for rank in range(size)
    ]
    for process in processes:
        process.start()
    deadline_s = time.monotonic() + TIME_LIMIT_S
    for process in processes:
        process.join(max(0.0, deadline_s - time.monotonic()))
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    files = [folder / f"{rank}.pt" for rank in range(size)]
    return Ended(
        codes,
        [torch.load(file, weights_only=False) if file.exists() else None for file in files],
        [(folder / f"{rank}.txt").read_text() for rank in range(size)],
    )


def _replica(
    rank: int, size: int, port: int, folder: Path, function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    with (folder / f"{rank}.txt").open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    (folder / f"{rank}.pt").unlink(missing_ok=True)
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(size),
        LOCAL_RANK=str(rank),
        LOCAL_WORLD_SIZE=str(size),
        MASTER_ADDR="localhost",
        MASTER_PORT=str(port),
    )
    torch.set_num_threads(1)
    result = function(*args)
    torch.save(result, folder / f"{rank}.pt")
    sys.stdout.flush()
    sys.stderr.flush()


def exit_with(code: int) -> None:
    """End a replica with an exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
