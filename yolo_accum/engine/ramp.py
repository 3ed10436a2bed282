"""Learning rate and momentum as pure functions of the images seen, the same however they were cut. No torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from yolo_accum.config.schema import OptimConfig

DEFAULT_LR0 = {"sgd": 0.01, "adamw": 0.002, "adam": 0.002}
SHORT_RUN_UPDATES = 10_000
"""`auto` takes adamw below this number of updates: it needs no long warm-up, sgd generalises better in long runs."""


def choose_optimizer(config: OptimConfig, num_updates: int) -> tuple[str, float]:
    """Name and peak learning rate, with ``auto`` and a missing ``lr0`` resolved."""
    name = config.optimizer
    if name == "auto":
        name = "adamw" if num_updates < SHORT_RUN_UPDATES else "sgd"
    return name, config.lr0 if config.lr0 is not None else DEFAULT_LR0[name]


@dataclass(frozen=True)
class Hyperparameters:
    """What one update uses."""

    lr: float
    momentum: float


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Warm-up, then a cosine or a line from ``lr0`` down to ``lr0 * lrf`` at the last image."""

    total_images: int
    warmup_images: int
    lr0: float
    lrf: float
    shape: Literal["cosine", "linear"]
    warmup_lr: float
    """Share of the course that warm-up starts from."""
    momentum: float
    warmup_momentum: float

    def at(self, images: int) -> Hyperparameters:
        """Values for the update that follows ``images`` images.

        At 0 the learning rate is ``warmup_lr * lr0`` (``lr0`` without warm-up), at ``total_images`` it is
        ``lrf * lr0``; warm-up multiplies the course by a factor that reaches 1 exactly at its end.
        """
        done = min(1.0, images / self.total_images)
        course = (1 + math.cos(math.pi * done)) / 2 if self.shape == "cosine" else 1 - done
        lr = self.lr0 * (self.lrf + (1 - self.lrf) * course)
        momentum = self.momentum
        if images < self.warmup_images:
            warm = images / self.warmup_images
            lr *= self.warmup_lr + (1 - self.warmup_lr) * warm
            momentum = self.warmup_momentum + (self.momentum - self.warmup_momentum) * warm
        return Hyperparameters(lr, momentum)
