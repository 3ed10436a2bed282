"""What the checks of a GPU are made of: a device, sizes, and the parts of a training on noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from yolo_accum.config.schema import LossConfig
from yolo_accum.contracts import Batch
from yolo_accum.engine.distributed import Replicas
from yolo_accum.engine.ema import EmaModel
from yolo_accum.engine.gradients import KeepGradients, WindowMeasurement, measure_window
from yolo_accum.engine.groups import build_optimizer
from yolo_accum.engine.ledger import Ledger
from yolo_accum.engine.loop import EmaSettings, Loop
from yolo_accum.engine.memory_probe import dense_batch
from yolo_accum.engine.plan import Plan
from yolo_accum.engine.precision import Precision
from yolo_accum.engine.ramp import Schedule
from yolo_accum.engine.update import Stepper
from yolo_accum.loss.yolox import YoloxCriterion
from yolo_accum.model.build import build_model
from yolo_accum.model.norms import norm_factory
from yolo_accum.model.yolox import YOLOX

NUM_CLASSES = 6
NUM_OBJECTS = 5
"""Of every image."""
LR = 0.001


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of one check."""

    ok: bool
    text: str
    """What was found, in a line."""
    figures: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Where and how large."""

    device: torch.device
    reduced: bool
    """So small that a CPU carries everything out in seconds; times mean nothing then."""
    model: str
    size_px: int
    batch: int
    nbs: int

    @property
    def window_length(self) -> int:
        return self.nbs // self.batch

    def build_model(self, norm: str = "frozen") -> YOLOX:
        """The detector with one kind of norm, by default one without batch statistics; the same weights for all."""
        torch.manual_seed(0)
        factory = norm_factory(norm, sum_over_replicas=Replicas().sum_, device_type=self.device.type)
        return build_model(self.model, NUM_CLASSES, factory).to(self.device)

    def noise(self, num_images: int, batch: int | None = None) -> list[Batch]:
        """The same images however they are cut: micro-batches of ``batch``, by default one of all; on the CPU."""
        whole = dense_batch(num_images, num_objects=NUM_OBJECTS, num_classes=NUM_CLASSES, size_px=self.size_px, epoch=0)
        batch = batch or num_images
        return [_part(whole, start, min(start + batch, num_images)) for start in range(0, num_images, batch)]

    def stepper(
        self, model: nn.Module, *, precision: str = "off", channels_last: bool = False, keep_gradients: bool = False
    ) -> Stepper:
        """With adamw, or with an optimizer that keeps gradients only."""
        model.to(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
        optimizer = KeepGradients(model) if keep_gradients else build_optimizer(model, "adamw", LR, 0.9, 0.0005)
        return Stepper(
            model=model.train(),
            criterion=criterion(),
            optimizer=optimizer,
            precision=Precision(precision),
            device=self.device,
            max_grad_norm=0.0,
            channels_last=channels_last,
        )

    def loop(self, stepper: Stepper, num_updates: int, num_images: int | None = None) -> Loop:
        """So many full windows, in epochs of ``num_images``; by default a window is an epoch."""
        num_images = num_images or self.nbs
        epochs = -(-num_updates * self.nbs // num_images)
        plan = Plan(num_images=num_images, epochs=epochs, batch=self.batch, nbs=self.nbs, warmup_epochs=0, tail="carry")
        schedule = Schedule(
            total_images=num_images * epochs,
            warmup_images=0,
            lr0=LR,
            lrf=1.0,
            shape="linear",
            warmup_lr=1.0,
            momentum=0.9,
            warmup_momentum=0.9,
        )
        return Loop(
            stepper=stepper,
            plan=plan,
            schedule=schedule,
            ema=EmaSettings(model=EmaModel(stepper.model), decay=0.999, tau=100.0),
            ledger=Ledger(num_images),
            observers=(),
            size_px=self.size_px,
        )

    def measure(
        self, model: YOLOX, batches: list[Batch], *, dtype: torch.dtype = torch.float32, channels_last: bool = False
    ) -> WindowMeasurement:
        """The gradient of a window, weights and buffers left alone."""
        memory_format = torch.channels_last if channels_last else torch.contiguous_format
        model.to(dtype).to(memory_format=memory_format)
        device = next(model.parameters()).device
        nbs = sum(batch.num_images for batch in batches)
        return measure_window(
            model, criterion(), batches, nbs=nbs, device=device, channels_last=channels_last, dtype=dtype
        )


def criterion() -> YoloxCriterion:
    return YoloxCriterion(LossConfig(), NUM_CLASSES, None)


def synchronize(device: torch.device) -> None:
    """Wait for the device, before the clock is read."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def tf32(on: bool) -> Iterator[None]:
    """Let matrix products and convolutions on CUDA round their factors to 10 bits, or not."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = on
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def _part(whole: Batch, start: int, stop: int) -> Batch:
    """Images ``start..stop-1`` with their objects."""
    rows = slice(start * NUM_OBJECTS, stop * NUM_OBJECTS)
    return Batch(
        images=whole.images[start:stop],
        boxes_xyxy_px=whole.boxes_xyxy_px[rows],
        labels=whole.labels[rows],
        sample_of_box=whole.sample_of_box[rows] - start,
        image_indices=whole.image_indices[start:stop],
        epoch=whole.epoch,
    )
