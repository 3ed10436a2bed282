"""What the process does with memory that tensors have freed."""

from __future__ import annotations

import resource

import pytest
import torch
from torch import multiprocessing

from yolo_accum.engine.memory import keep_freed_memory, peak_memory_mib, restart_peak_memory

NUM_FLOATS = 16 * 2**20
PAGES = NUM_FLOATS * 4 // resource.getpagesize()
CPU = torch.device("cpu")


def _faults_of_a_second_tensor(keep: bool, answer: multiprocessing.SimpleQueue) -> None:
    if keep and not keep_freed_memory():
        answer.put(None)
        return
    torch.ones(2 * NUM_FLOATS)  # freed at once, and with room for what alignment needs
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(NUM_FLOATS)
    answer.put(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


def faults(keep: bool) -> int | None:
    """Page faults of a process of its own, whose C library nobody else's options have changed."""
    context = multiprocessing.get_context("spawn")
    answer = context.SimpleQueue()
    process = context.Process(target=_faults_of_a_second_tensor, args=(keep, answer))
    process.start()
    process.join()
    return answer.get()


def test_freed_memory_is_taken_again_without_asking_the_system() -> None:
    kept = faults(keep=True)
    if kept is None:
        pytest.skip("this C library has no such option")
    assert kept < PAGES / 100
    assert faults(keep=False) > PAGES / 2  # pages may come in larger pieces


def test_the_peak_is_counted_from_where_it_was_restarted() -> None:
    large = torch.ones(NUM_FLOATS)
    del large
    with_large = peak_memory_mib(CPU)
    if not restart_peak_memory(CPU):
        pytest.skip("the peak cannot be restarted here")
    assert peak_memory_mib(CPU) <= with_large
    before = peak_memory_mib(CPU)
    large = torch.ones(NUM_FLOATS)
    assert peak_memory_mib(CPU) > before
    del large
