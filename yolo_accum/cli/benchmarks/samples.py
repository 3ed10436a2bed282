"""What a training picture costs over plain decoding, alternating in one process and thread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import torch

from yolo_accum.cli.picture_caching import cached_pictures
from yolo_accum.config.schema import AugmentConfig, DataConfig
from yolo_accum.contracts import DetectionIndex, SampleKey
from yolo_accum.data.dataset import TrainDataset
from yolo_accum.data.loader import train_loader
from yolo_accum.engine.distributed import Replicas
from yolo_accum.engine.memory import keep_freed_memory
from yolo_accum.report.console import Console

SIZES_PX = (320, 640)
BATCH = 8
NUM_EPOCHS = 1_000_000
"""So many that mosaic never closes."""


@dataclass(frozen=True, kw_only=True)
class SampleSpeed:
    """Medians over the rounds."""

    ratio: float
    """Pictures/s of training samples over pictures/s of ``cv2.imread``."""
    sample_ms: float
    imread_ms: float


def measure_samples(
    index: DetectionIndex, rounds: int, progress: Callable[[int], None]
) -> dict[tuple[str, int], SampleSpeed]:
    """Mosaic, zoom, shift, flip and HSV with the default strengths, in batches of 8, by place and input size.

    In every round each picture is decoded once by ``cv2.imread`` and stands once for a training sample, from shared
    memory (``ram``) and from files with nothing decoded before (``file``).

    Args:
        index: the pictures.
        rounds: alternations.
        progress: called after each.
    """
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    keep_freed_memory()  # as training does
    found = {}
    for number, size_px in enumerate(SIZES_PX):
        seconds: dict[str, list[float]] = {"imread": [], "ram": [], "file": []}
        config = DataConfig(imgsz=size_px, cache="ram")
        with cached_pictures(config, index, Replicas(), Console(quiet=True)) as pictures:
            cached = _dataset(index)
            cached.pictures = pictures
            _run(cached, size_px, 0)
            for done in range(rounds):
                from_files = _dataset(index)
                seconds["imread"].append(_seconds(_imread, index))
                seconds["ram"].append(_seconds(_run, cached, size_px, 1 + done))
                seconds["file"].append(_seconds(_run, from_files, size_px, 1 + done))
                progress(number * rounds + done + 1)
        for place in ("ram", "file"):
            found[place, size_px] = _speed(seconds[place], seconds["imread"], len(index))
    return found


def _dataset(index: DetectionIndex) -> TrainDataset:
    return TrainDataset(index, AugmentConfig(), seed=0, num_epochs=NUM_EPOCHS)


def _imread(index: DetectionIndex) -> None:
    for path in index.image_paths:
        cv2.imread(path)


def _run(dataset: TrainDataset, size_px: int, epoch: int) -> None:
    def keys() -> Iterator[list[SampleKey]]:
        for start in range(0, len(dataset), BATCH):
            yield [SampleKey(epoch, place, size_px) for place in range(start, min(start + BATCH, len(dataset)))]

    for _ in train_loader(dataset, keys(), workers=0, pin_memory=False):
        pass


def _seconds(work: Callable[..., None], *arguments: Any) -> float:
    start_s = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - start_s


def _speed(samples: Sequence[float], imreads: Sequence[float], num_images: int) -> SampleSpeed:
    return SampleSpeed(
        ratio=statistics.median(plain / sample for sample, plain in zip(samples, imreads, strict=True)),
        sample_ms=1000 * statistics.median(samples) / num_images,
        imread_ms=1000 * statistics.median(imreads) / num_images,
    )
