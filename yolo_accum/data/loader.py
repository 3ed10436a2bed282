"""Batches from samples, in this process or in worker processes, always in the order asked for."""

from __future__ import annotations

import itertools
import math
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, cast

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from yolo_accum.contracts import Batch, Sample, SampleKey
from yolo_accum.data.dataset import EvalDataset, TrainDataset
from yolo_accum.data.hand_over import Delivery, Places, Request, Requests, shared_memory

PREFETCH_BATCHES = 4
"""Batches that every worker prepares ahead."""
_NICENESS = 19
"""Of workers where the network runs on the same cores: all of its threads wait for the one whose core a worker takes
(two workers on two cores: 0.89 of the bare loop's speed without it, 0.93 with it)."""
_START_METHOD = "fork" if sys.platform == "linux" else None

_Keys = Sequence[SampleKey] | Sequence[int]


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
        self.places: Places | None = None
        """Memory for batches on their way to another process."""

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitems__(self, request: Request | Sequence[Any]) -> Batch | Delivery:
        if self.places is None:
            keys = cast("Sequence[Any]", request)
            return self._filled(keys, torch.empty(self._shape(keys), dtype=torch.uint8))
        assert isinstance(request, Request)
        shape = self._shape(request.keys)
        if request.place is None:
            images = shared_memory(math.prod(shape)).view(shape)
        else:
            images = torch.from_numpy(self.places.images(request.place, shape))
        return Delivery(self._filled(request.keys, images), self.places, request.place)

    def num_bytes(self, keys: Sequence[Any]) -> int:
        """Of the images of a batch."""
        return math.prod(self._shape(keys))

    def _shape(self, keys: Sequence[Any]) -> tuple[int, int, int, int]:
        return len(keys), 3, *self._dataset.shape_px(keys[0])

    def _filled(self, keys: Sequence[Any], images: Tensor) -> Batch:
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
    batches: Iterable[_Keys],
    workers: int,
    pin_memory: bool,
    start_method: str | None,
    stay: bool,
) -> DataLoader[Batch]:
    # OpenCV's own threads would compete with torch's, and must not be running when workers are forked.
    cv2.setNumThreads(0)
    loaded = _Batches(dataset)
    if workers:
        first, batches = _peeked(batches)
        # Workers that stay would hold the memory between their passes, where training needs it.
        num_bytes = loaded.num_bytes(first) if first and not stay else 0
        loaded.places = Places(workers * PREFETCH_BATCHES, num_bytes)
    return DataLoader(
        loaded,
        batch_sampler=Requests(batches, loaded.places, loaded.num_bytes) if loaded.places else batches,  # type: ignore[arg-type]
        num_workers=workers,
        collate_fn=_as_it_is,
        pin_memory=pin_memory,
        worker_init_fn=partial(_start_worker, niceness=0 if pin_memory else _NICENESS),
        prefetch_factor=PREFETCH_BATCHES if workers else None,
        persistent_workers=stay and workers > 0,
        multiprocessing_context=(start_method or _START_METHOD) if workers else None,
        generator=torch.Generator(),  # its base seed would otherwise come out of the run's random state
    )


def _peeked(batches: Iterable[_Keys]) -> tuple[_Keys | None, Iterable[_Keys]]:
    """The first batch, and all of them."""
    if isinstance(batches, Sequence):
        return (batches[0] if batches else None), batches
    rest = iter(batches)
    first = next(rest, None)
    return first, rest if first is None else itertools.chain([first], rest)


def _start_worker(worker: int, niceness: int) -> None:
    """One thread a worker; interruptions are the main process's business."""
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A group of its own: Ctrl-C and `kill -- -group` reach the main process alone, which then ends its workers.
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    if hasattr(os, "nice"):
        os.nice(niceness)
    sys.excepthook = _silence_hang_up


def _silence_hang_up(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """An interrupted main process may hang up while a batch is handed over: no traceback for that.

    Only the threads of the hand-over end here; what fails in loading a sample is raised in the main process.
    """
    if not issubclass(kind, (ConnectionError, EOFError)):
        sys.__excepthook__(kind, error, traceback)
