"""Where a training starts from: a new run, or the last checkpoint of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolo_accum.config.arguments import TrainArguments
from yolo_accum.config.load import from_mapping
from yolo_accum.config.schema import TrainConfig
from yolo_accum.engine.checkpoint import RUN_STATE, read_checkpoint
from yolo_accum.errors import UserError
from yolo_accum.report.status import training_process

CHANGEABLE_ON_RESUME = frozenset(
    {"batch", "memory", "workers", "device", "threads", "val_batch", "checkpoint_activations"}
    | {"cache", "cache_dir", "cache_limit"}
    | {"data", "val_data", "images", "val_images", "save_minutes", "plots", "log", "callbacks"}
)
"""How the work is cut, where the data lie, who follows; anything else would make it another run."""
RUN_CARD = "run_card.json"
"""The last file of a run."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """A new run, or one to go on with."""

    config: TrainConfig
    folder: Path | None = None
    """Of the run to go on with."""
    checkpoint: Mapping[str, Any] | None = None


def find_start(arguments: TrainArguments) -> Start:
    """What is asked for: a new run, or one to go on with.

    Raises:
        UserError: there is no such run, it is finished, or options are to change that would make it another run.
    """
    return _resumed(arguments) if arguments.resume is not None else Start(config=arguments.config)


def _resumed(arguments: TrainArguments) -> Start:
    """The run to go on with; what may be changed comes from the command line."""
    folder = Path(str(arguments.resume))
    if folder.suffix == ".pt":  # its checkpoint says just as clearly which run is meant
        folder = folder.parent.parent
    last = folder / "weights" / "last.pt"
    if not folder.is_dir():
        raise UserError(f"--resume {arguments.resume}: no such run folder")
    process = training_process(folder)
    if process is not None:
        raise UserError(f"--resume {arguments.resume}: this run is still running, {process}; stop that first")
    refused = sorted(arguments.explicit - CHANGEABLE_ON_RESUME)
    if refused:
        allowed = ", ".join("--" + name.replace("_", "-") for name in sorted(CHANGEABLE_ON_RESUME))
        raise UserError(
            f"--{refused[0].replace('_', '-')} cannot be changed when a run is resumed, only {allowed}; "
            f"for another course start a new run from its weights: yolo-accum train --weights {last} ..."
        )
    if not last.is_file() and not (folder / "config.yaml").is_file():
        raise UserError(f"--resume {arguments.resume}: this is no run folder, {last} is missing")
    if not last.is_file():
        raise UserError(
            f"--resume {arguments.resume}: this run has saved nothing yet, {last} is missing; to begin anew with its "
            f"options: yolo-accum train --recipe {folder / 'config.yaml'}"
        )
    checkpoint = read_checkpoint(last, RUN_STATE)
    if checkpoint["progress"].get("finished") and (folder / RUN_CARD).is_file():
        raise UserError(
            f"--resume {arguments.resume}: this run is finished after {checkpoint['progress']['epochs_done']} epochs; "
            f"to train on, start a new run from its weights: yolo-accum train --weights {last} --epochs N ..."
        )
    config = from_mapping({**checkpoint["config"], **arguments.given}, str(last))
    return Start(config=config, folder=folder, checkpoint=checkpoint)
