"""A run for Weights & Biases, kept on the disk: ``wandb sync RUN/wandb/offline-run-*`` sends it when you want that."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yolo_accum.contracts import RunEnded, RunStarted
from yolo_accum.report.log_values import card_rows, final_values, logger_package, pictures

PROJECT = "yolo-accum"


class WandbRun:
    """Offline whatever the environment says: nothing leaves this machine while a run trains.

    Raises:
        UserError: the package is not installed.
    """

    def __init__(self) -> None:
        os.environ["WANDB_ERROR_REPORTING"] = "false"  # reports of its own crashes would go to the network
        self._package = logger_package("wandb", "wandb")
        self._run: Any = None

    def open(self, event: RunStarted) -> None:
        """A run that goes on keeps its id; the server puts both parts together."""
        self._run = self._package.init(
            mode="offline",
            project=PROJECT,
            name=event.folder.resolve().name,
            id=_earlier_id(event.folder),
            dir=str(event.folder),
            config={"options": dict(event.config), "settings": dict(event.settings)},
            settings=self._package.Settings(console="off", silent=True, disable_git=True, save_code=False),
        )
        self._run.define_metric("images_seen")
        self._run.define_metric("update")
        self._run.define_metric("*", step_metric="update")

    def log(self, values: Mapping[str, float], *, update: int, images_seen: int) -> None:
        """``update`` is the axis that charts begin with, ``images_seen`` can be chosen there."""
        self._run.log({**values, "update": update, "images_seen": images_seen})

    def close(self, event: RunEnded) -> None:
        """Pictures, run card as summary."""
        shown = {f"pictures/{name}": self._package.Image(str(path)) for name, path in pictures(event).items()}
        if shown:
            counters = event.counters
            self._run.log({**shown, "update": counters["updates_applied"], "images_seen": counters["images_seen"]})
        self._run.summary.update({**final_values(event), "run_card": card_rows(event)})
        self._run.finish(exit_code=event.exit_code)


def _earlier_id(folder: Path) -> str | None:
    """The id in the name of the latest folder ``offline-run-DATE_TIME-ID``."""
    earlier = sorted(path.name for path in folder.glob("wandb/offline-run-*-*"))
    return earlier[-1].rpartition("-")[2] if earlier else None
