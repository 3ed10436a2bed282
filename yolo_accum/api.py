"""What programs may rely on: training with callbacks of their own. See docs/callbacks.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from yolo_accum.cli.train import carry_out, num_replicas_to_launch
from yolo_accum.config.arguments import train_arguments
from yolo_accum.contracts import (
    CheckpointSaved,
    EpochRecord,
    Observer,
    RunEnded,
    RunStarted,
    UpdateRecord,
    WindowOpened,
)
from yolo_accum.errors import Interrupted, TrainingError, UserError

__all__ = [
    "CheckpointSaved",
    "EpochRecord",
    "Interrupted",
    "Observer",
    "RunEnded",
    "RunStarted",
    "TrainingError",
    "UpdateRecord",
    "UserError",
    "WindowOpened",
    "train",
]


def train(*, callbacks: Sequence[Observer] = (), **options: object) -> Mapping[str, Any]:
    """The same as ``yolo-accum train``.

    Args:
        callbacks: are told what happens, in this process; with several replicas, on the first one.
        options: those of the command line, with underscores: ``data="mine.yaml", batch=8, warmup_epochs=1``.
    Returns:
        what ``--json`` prints: the run folder, best metrics, counters, files; nothing on all replicas but the first.
    Raises:
        UserError: an option, a file or a callback cannot be used.
        TrainingError: training started and could not go on.
        Interrupted: SIGINT or SIGTERM arrived; the state is saved.
    """
    arguments = train_arguments(options)
    num_devices = num_replicas_to_launch(arguments)
    if num_devices > 1:
        raise UserError(
            f"device {arguments.config.run.device}: {num_devices} devices are trained on by a process each; start this "
            f"program with torchrun --nproc-per-node {num_devices}"
        )
    return carry_out(arguments, callbacks)
