"""Loggers for programs that people look at runs with; every one keeps its files in the run folder, offline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from yolo_accum.contracts import EpochRecord, Observer, RunEnded, RunStarted, UpdateRecord
from yolo_accum.report.log_mlflow import MlflowStore
from yolo_accum.report.log_tensorboard import TensorBoardFiles
from yolo_accum.report.log_values import epoch_values, update_values
from yolo_accum.report.log_wandb import WandbRun


class Backend(Protocol):
    """One of these programs, as far as a run needs it. Each call may raise whatever the program raises."""

    def open(self, event: RunStarted) -> None:
        """Make the files, or go on with those that an earlier part of the run left."""
        ...

    def log(self, values: Mapping[str, float], *, update: int, images_seen: int) -> None:
        """Numbers by name, at their place on both axes."""
        ...

    def close(self, event: RunEnded) -> None:
        """Pictures, run card, and nothing more."""
        ...


class RunLogger(Observer):
    """Turns the events of a run into numbers: every applied update and every epoch, against updates and images seen.

    Args:
        backend: where they go.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._updates_applied = self._images_seen = 0

    def on_run_start(self, event: RunStarted) -> None:
        """Take over the counters of a run that goes on."""
        self._updates_applied, self._images_seen = event.updates_applied, event.images_seen
        self._backend.open(event)

    def on_update_applied(self, record: UpdateRecord) -> None:
        """Refused updates show in the counters of the next one that is applied."""
        self._updates_applied, self._images_seen = record.updates_applied, record.images_seen
        self._log(update_values(record))

    def on_epoch(self, record: EpochRecord) -> None:
        """At the place of the epoch's last update."""
        self._log(epoch_values(record))

    def on_run_end(self, event: RunEnded) -> None:
        """Close the files, however the run ended."""
        self._backend.close(event)

    def _log(self, values: Mapping[str, float]) -> None:
        self._backend.log(values, update=self._updates_applied, images_seen=self._images_seen)


BACKENDS: dict[str, Callable[[], Backend]] = {
    "tensorboard": TensorBoardFiles,
    "wandb": WandbRun,
    "mlflow": MlflowStore,
}
"""By the name that ``--log`` takes."""


def open_logger(name: str) -> RunLogger:
    """The logger of that name.

    Raises:
        UserError: its package is not installed.
    """
    return RunLogger(BACKENDS[name]())
