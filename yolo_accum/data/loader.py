"""Batches from samples, in this process or in worker processes, always in the order asked for."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from multiprocessing.reduction import ForkingPickler
from types import TracebackType
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from yolo_accum.contracts import Batch, Sample, SampleKey
from yolo_accum.data.dataset import EvalDataset, TrainDataset

MAX_WORKERS = 8
PREFETCH_BATCHES = 4
"""Batches that every worker prepares ahead."""
_START_METHOD = "fork" if sys.platform == "linux" else None


def default_workers(num_cores: int) -> int:
    """Worker processes for a replica that may use ``num_cores`` cores: one each, at most 8.

    Workers and training share the cores without harm: when the network is the slower part, workers mostly wait.
    """
    return max(1, min(num_cores, MAX_WORKERS))


def collate(samples: Sequence[Sample]) -> Batch:
    """Stack samples of one size; images stay uint8 (the network scales them on its own device).

    Args:
        samples: at least one; all of the same epoch and size.
    """
    images = torch.empty((len(samples), *samples[0].image.shape), dtype=torch.uint8)
    for target, sample in zip(images.numpy(), samples, strict=True):
        target[...] = sample.image
    return _batch(samples, images)


def _batch(samples: Sequence[Sample], images: Tensor) -> Batch:
    """The batch of samples whose images are in ``images``."""
    counts = [len(sample.labels) for sample in samples]
    return Batch(
        images=images,
        boxes_xyxy_px=torch.from_numpy(np.concatenate([sample.boxes_xyxy_px for sample in samples])),
        labels=torch.from_numpy(np.concatenate([sample.labels for sample in samples])),
        sample_of_box=torch.from_numpy(np.repeat(np.arange(len(samples)), counts)),
        image_indices=torch.tensor([sample.image_index for sample in samples]),
        epoch=samples[0].epoch,
        letterboxes=tuple(sample.letterbox for sample in samples if sample.letterbox is not None),
        problems=tuple(problem for sample in samples for problem in sample.problems),
    )


class _Batches(Dataset[Batch]):
    """Makes whole batches, every sample straight in the memory in which the batch leaves this process."""

    def __init__(self, dataset: TrainDataset | EvalDataset) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitems__(self, keys: Sequence[Any]) -> Batch:
        shape = (len(keys), 3, *self._dataset.shape_px(keys[0]))
        if get_worker_info() is None:
            images = torch.empty(shape, dtype=torch.uint8)
        else:
            memory = torch.UntypedStorage._new_shared(math.prod(shape), device="cpu")
            images = torch.empty(0, dtype=torch.uint8).set_(memory, 0, (math.prod(shape),), (1,)).view(shape)
        targets = images.numpy()
        return _batch([self._dataset.sample(key, out=out) for key, out in zip(keys, targets, strict=True)], images)


def _as_it_is(batch: Any) -> Any:
    return batch


def train_loader(
    dataset: TrainDataset,
    micro_batches: Iterable[Sequence[SampleKey]],
    *,
    workers: int,
    pin_memory: bool,
    start_method: str | None = None,
) -> DataLoader[Batch]:
    """The batches of the given keys, one for each micro-batch, in order; iterate once.

    Workers are started once and load ahead across epochs, so ``micro_batches`` should cover the rest of the run. It
    may be a generator: it is asked for a few micro-batches ahead of the one in use, from this process.

    Args:
        workers: processes; 0 loads in this one. Batches are byte for byte the same for every number.
        pin_memory: batches in page-locked memory, for a CUDA device.
        start_method: fork, spawn or forkserver; by default fork on Linux, so that workers share the index, and the
            platform's elsewhere.
    Returns:
        An iterable of ``Batch``.
    """
    return _loader(dataset, micro_batches, workers, pin_memory, start_method, stay=False)


def eval_loader(
    dataset: EvalDataset,
    batch: int,
    *,
    workers: int,
    pin_memory: bool,
    indices: Sequence[int] | None = None,
    start_method: str | None = None,
) -> DataLoader[Batch]:
    """The pictures in batches, in order, for as many passes as wanted; workers stay from one pass to the next.

    Args:
        batch: images of one batch; the last one may be shorter.
        indices: rows to go through, for example those of one replica; by default all.
    Returns:
        An iterable of ``Batch`` with a length.
    """
    rows = range(len(dataset)) if indices is None else indices
    batches = [rows[start : start + batch] for start in range(0, len(rows), batch)]
    return _loader(dataset, batches, workers, pin_memory, start_method, stay=True)


def _loader(
    dataset: TrainDataset | EvalDataset,
    batches: Iterable[Sequence[SampleKey]] | Iterable[Sequence[int]],
    workers: int,
    pin_memory: bool,
    start_method: str | None,
    stay: bool,
) -> DataLoader[Batch]:
    # OpenCV's own threads would compete with torch's, and must not be running when workers are forked.
    cv2.setNumThreads(0)
    return DataLoader(
        _Batches(dataset),
        batch_sampler=batches,  # type: ignore[arg-type]
        num_workers=workers,
        collate_fn=_as_it_is,
        pin_memory=pin_memory,
        worker_init_fn=_start_worker,
        prefetch_factor=PREFETCH_BATCHES if workers else None,
        persistent_workers=stay and workers > 0,
        multiprocessing_context=(start_method or _START_METHOD) if workers else None,
        generator=torch.Generator(),  # its base seed would otherwise come out of the run's random state
    )


def _start_worker(worker: int) -> None:
    """One thread a worker; interruptions are the main process's business."""
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A group of its own: Ctrl-C and `kill -- -group` reach the main process alone, which then ends its workers.
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    sys.excepthook = _silence_hang_up


def _silence_hang_up(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """An interrupted main process may hang up while a batch is handed over: no traceback for that.

    Only the threads of the hand-over end here; what fails in loading a sample is raised in the main process.
    """
    if not issubclass(kind, (ConnectionError, EOFError)):
        sys.__excepthook__(kind, error, traceback)


def _send(batch: Batch) -> tuple[Callable[..., Batch], tuple[dict[str, Any]]]:
    """Let only the images go through shared memory: a tensor there costs the receiver 0.2 ms, an array nothing."""
    parts = {part.name: getattr(batch, part.name) for part in fields(batch)}
    small = {name: value.numpy() for name, value in parts.items() if isinstance(value, Tensor) and name != "images"}
    return _receive, (parts | small,)


def _receive(parts: dict[str, Any]) -> Batch:
    arrays = {name: torch.tensor(value) for name, value in parts.items() if isinstance(value, np.ndarray)}
    return Batch(**(parts | arrays))


ForkingPickler.register(Batch, _send)
