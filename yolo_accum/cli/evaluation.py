"""Measures models on a split, for every verb that does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import torch
from torch import nn

from yolo_accum.cli.problems import ProblemReporter
from yolo_accum.config.schema import EvalConfig
from yolo_accum.contracts import Batch, DetectionIndex, Detections
from yolo_accum.data.dataset import EvalDataset
from yolo_accum.data.loader import eval_loader
from yolo_accum.data.rectangles import rectangular_batches
from yolo_accum.engine.distributed import Replicas
from yolo_accum.engine.update import network_input
from yolo_accum.metrics.evaluate import Detect, Evaluation, detect_all, measure
from yolo_accum.model.postprocess import detect

WORTH_WORKERS_IMAGES = 500
"""A smaller split is loaded in this process: workers would take longer to start."""


def make_detect(model: nn.Module, device: torch.device, config: EvalConfig, channels_last: bool) -> Detect:
    """A function that finds objects in the images of a batch with ``model`` in evaluation mode."""
    memory_format = torch.channels_last if channels_last else torch.contiguous_format

    @torch.inference_mode()
    def detect_in(batch: Batch) -> list[Detections]:
        images = network_input(batch.images.to(device, non_blocking=True), memory_format)
        return detect(
            model(images),
            batch.letterboxes,
            batch.image_indices.tolist(),
            conf=config.conf,
            iou=config.iou,
            max_det=config.max_det,
        )

    return detect_in


LARGEST_BATCH_IMAGES = 32
"""Of an evaluation batch by default: the training batch, up to this."""


def default_val_batch(config: EvalConfig, batch: int) -> int:
    """Images of an evaluation batch: as asked, else those of training, up to 32.

    The number of replicas does not enter: the same pictures are always detected together, so that rounding, and with
    it the order of equal scores, does not depend on how the work is spread.
    """
    return config.val_batch or min(batch, LARGEST_BATCH_IMAGES)


def share_of_batches(num_images: int, batch: int, replicas: Replicas) -> list[int]:
    """The rows that one replica evaluates: whole batches, dealt in turn; every row is in one share."""
    starts = range(0, num_images, batch)[replicas.rank :: replicas.size]
    return [row for start in starts for row in range(start, min(start + batch, num_images))]


class SplitEvaluator:
    """Measures models on one split; its loader stays from one call to the next. All replicas call it together.

    Args:
        index: the split.
        size_px: side of the network input.
        batch: images of one batch.
        workers: loader processes; none are started for a split that is loaded in a moment.
        config: how detections are made and measured.
        device: where the models lie.
        channels_last: memory format of the images.
        warn: is told of pictures that cannot be read; a grey picture takes their place and their objects are missed.
        replicas: share the batches among them; alone by default.
    """

    def __init__(
        self,
        index: DetectionIndex,
        *,
        size_px: int,
        batch: int,
        workers: int,
        config: EvalConfig,
        device: torch.device,
        channels_last: bool,
        warn: Callable[[str], None],
        replicas: Replicas | None = None,
    ) -> None:
        self.index = index
        self._replicas = replicas or Replicas()
        self._config = config
        self._device = device
        self._channels_last = channels_last
        self._problems = ProblemReporter(warn)
        rectangles = rectangular_batches(index, size_px, batch) if config.rect else None
        rows = share_of_batches(len(index), batch, self._replicas)
        if rectangles is not None:
            rows = rectangles.rows[rows].tolist()
        self.num_images = len(rows)
        """Images that this replica evaluates, for progress."""
        self._batches = eval_loader(
            EvalDataset(index, size_px, rectangles),
            batch,
            workers=workers if len(index) >= WORTH_WORKERS_IMAGES else 0,
            pin_memory=device.type == "cuda",
            indices=rows,
        )

    def __call__(self, model: nn.Module, progress: Callable[[int], None] | None = None) -> Evaluation:
        """COCO numbers and detections of all replicas; the model's training mode is restored afterwards.

        The numbers are computed on the first replica, from every image once.
        """
        was_training = model.training
        model.eval()
        try:
            detections = detect_all(
                self._problems.watch(cast("Iterable[Batch]", self._batches)),
                make_detect(model, self._device, self._config, self._channels_last),
                progress=progress,
            )
        finally:
            model.train(was_training)
        detections = self._replicas.gather(detections)
        return self._replicas.decide(
            lambda: measure(detections, self.index, evaluator=self._config.evaluator, max_det=self._config.max_det)
        )
