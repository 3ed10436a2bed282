"""Trainings that the tests of replicas carry out, in one process and in several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from yolo_accum.cli.failures import exit_code
from yolo_accum.cli.training.build import Training, build_training
from yolo_accum.config.arguments import parse_train
from yolo_accum.contracts import UpdateRecord
from yolo_accum.data.description import open_data
from yolo_accum.engine.distributed import Replicas, join_replicas
from yolo_accum.engine.loop import Loop, LoopState
from yolo_accum.engine.totals import Requests

SIZE_PX = 64


@dataclass(frozen=True)
class Case:
    """A short training, without batch statistics: those are what cutting does change."""

    data: Path
    batch: int
    tail: str = "step"
    double: bool = False
    norm: str = "gn"
    num_updates: int = 3
    workers: int = 0
    poisoned_rank: int | None = None
    """This replica's loss is not a number at its third micro-batch."""
    asking_rank: int | None = None
    """This replica wants to stop, for SIGTERM, and another one to save."""


@dataclass(frozen=True)
class Outcome:
    """What a training came to, on one replica."""

    weights: dict[str, Tensor]
    average: dict[str, Tensor]
    before: dict[str, Tensor]
    records: list[UpdateRecord]
    requests: list[Requests]
    epochs: list[tuple[int, int, int]]
    """Epoch, images, distinct images."""


def build(case: Case, replicas: Replicas) -> Training:
    """The parts of the run."""
    words = ["--data", str(case.data), "--imgsz", str(SIZE_PX), "--batch", str(case.batch), "--nbs", "8"]
    words += ["--tail", case.tail, "--epochs", "4", "--warmup-epochs", "0", "--amp", "off", "--optimizer", "sgd"]
    words += ["--lr0", "0.001", "--workers", str(case.workers), "--device", "cpu", "--threads", "1"]
    words += ["--close-mosaic", "2", "--ema-tau", "1"]
    words += ["--norm", case.norm]
    config = parse_train(words).config
    index = open_data(config.data, default_data=None).train
    return build_training(config, index, replicas=replicas, dtype=torch.float64 if case.double else torch.float32)


def copied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in state.items()}


def poison(loop: Loop) -> None:
    """The loss of the third forward pass is not a number."""
    forward, calls = loop.stepper.forward, []

    def poisoned(batch: Any) -> Any:
        calls.append(1)
        sums = forward(batch)
        if len(calls) == 3:
            sums = type(sums)({name: term * float("nan") for name, term in sums.terms.items()}, sums.denominator)
        return sums

    loop.stepper.forward = poisoned  # type: ignore[method-assign]


def train(case: Case, replicas: Replicas) -> Outcome:
    """Carry a training out."""
    training = build(case, replicas)
    loop = training.loop
    if case.poisoned_rank == replicas.rank:
        poison(loop)
    if case.asking_rank is not None:
        asks = Requests(sigterm=1) if case.asking_rank == replicas.rank else Requests(save=1)
        loop.requests = lambda: asks
    before = copied(training.model.state_dict())
    records, requests, epochs = [], [], []
    for finished in islice(loop.run(training.batches(), LoopState()), case.num_updates):
        if finished.record is not None and finished.totals is not None:
            records.append(finished.record)
            requests.append(finished.totals.requests)
        epochs += [(item.epoch, item.images, item.distinct_images) for item in finished.finished_epochs]
    average = copied(loop.ema.model.model.state_dict()) if loop.ema is not None else {}
    return Outcome(copied(training.model.state_dict()), average, before, records, requests, epochs)


@contextmanager
def joined() -> Iterator[Replicas]:
    """The group, with one thread of torch."""
    with join_replicas(exit_code) as replicas:
        yield replicas


def train_all(cases: list[Case]) -> list[Outcome]:
    """All trainings in this replica, one after the other."""
    with joined() as replicas:
        return [train(case, replicas) for case in cases]


def relative_difference(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Norm of the difference over the norm, of all weights together; running statistics would hide what moves."""
    names = [name for name, value in expected.items() if value.is_floating_point() and ".running_" not in name]
    one = torch.cat([found[name].double().flatten() for name in names])
    two = torch.cat([expected[name].double().flatten() for name in names])
    return ((one - two).norm() / two.norm()).item()
