"""How a run starts and ends, as its observers are told: only the command that owns the run knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yolo_accum.cli.failures import describe_failure, exit_code
from yolo_accum.cli.training.build import Training
from yolo_accum.config.load import to_mapping
from yolo_accum.contracts import Observer, RunEnded, RunStarted
from yolo_accum.engine.trainer import Trainer
from yolo_accum.report.guarded import Guarded

_INTERRUPTED = (130, 143)


def run_started(training: Training, trainer: Trainer, folder: Path, settings: Mapping[str, str]) -> RunStarted:
    """The start of a run, or of the rest of one that goes on.

    Args:
        settings: the start-up table.
    """
    plan, clock = training.plan, trainer.state.clock
    return RunStarted(
        folder=folder,
        num_epochs=plan.epochs,
        num_micro_batches=plan.num_micro_batches,
        start_micro_batch=plan.start_micro_batch,
        images_seen=clock.images_seen,
        updates_applied=clock.updates_applied,
        config=to_mapping(training.config),
        settings=settings,
    )


def run_ended(
    trainer: Trainer,
    files: Mapping[str, Path],
    *,
    card: Mapping[str, Any] | None = None,
    error: BaseException | None = None,
) -> RunEnded:
    """The end of a run: finished with its card, or by an error."""
    progress = trainer.progress
    code = exit_code(error) if error is not None else 0
    return RunEnded(
        outcome="finished" if error is None else "interrupted" if code in _INTERRUPTED else "failed",
        message=_sentence(error) if error is not None else "",
        exit_code=code,
        epochs_done=progress.epochs_done,
        counters=trainer.state.clock.as_dict(),
        best_epoch=progress.best_epoch,
        best_metrics=dict(progress.best_metrics),
        files=files,
        card=card or {},
    )


def _sentence(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return "ended by SIGTERM" if error.code == _INTERRUPTED[1] else "ended because another replica failed"
    if isinstance(error, KeyboardInterrupt):
        return "ended by Ctrl-C at once"
    return describe_failure(error)[1].partition(": ")[2]


def switched_off(observers: Sequence[Observer]) -> list[dict[str, Any]]:
    """Observers that failed, for the run card."""
    return [
        {**vars(item.failure), "events_missed": item.num_missed}
        for item in observers
        if isinstance(item, Guarded) and item.failure is not None
    ]
