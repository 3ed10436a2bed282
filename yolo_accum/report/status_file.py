"""Writes where a run is into its folder, for `yolo-accum status`."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from yolo_accum.contracts import Observer, RunEnded, RunStarted
from yolo_accum.report.life_sign import HEARTBEAT_S, STATUS_FILE, this_process


class StatusFile(Observer):
    """Keeps ``status.json``: who trains, since when, and how it ended; what the tables of the run say is left to them.

    A thread touches the file while the process lives. A process that is killed cannot write a last word; that it is
    gone is seen from outside.

    Args:
        heartbeat_s: seconds between two signs of life.
    """

    def __init__(self, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._heartbeat_s = heartbeat_s
        self._path = Path()
        self._content: dict[str, Any] = {}
        self._over = threading.Event()

    def on_run_start(self, event: RunStarted) -> None:
        """Write the first state.

        Raises:
            OSError: it cannot be written, here and below (names the file).
        """
        self._path = event.folder / STATUS_FILE
        self._content = {
            "state": "running",
            "doing": "training",
            "process": this_process(),
            "started_at": time.time(),
            "num_epochs": event.num_epochs,
            "num_micro_batches": event.num_micro_batches,
            "start_micro_batch": event.start_micro_batch,
        }
        self._write()
        threading.Thread(target=self._beat, daemon=True, name="status heartbeat").start()

    def on_training_end(self) -> None:
        """Evaluation and pictures come next."""
        self._content["doing"] = "final evaluation and pictures"
        self._write()

    def on_run_end(self, event: RunEnded) -> None:
        """Write how it ended."""
        self._over.set()
        best = event.card.get("best", event.best_metrics)
        self._content |= {
            "state": event.outcome,
            "doing": "",
            "message": event.message,
            "exit_code": event.exit_code,
            "ended_at": time.time(),
            "counters": dict(event.counters),
            "epochs_done": event.epochs_done,
            "best_epoch": event.best_epoch,
            "best_metrics": {name: value for name, value in best.items() if isinstance(value, float)},
        }
        self._write()

    def _write(self) -> None:
        temporary = self._path.with_name(f"{self._path.name}.part")
        temporary.write_text(json.dumps(self._content, indent=1) + "\n", encoding="utf-8")
        temporary.replace(self._path)

    def _beat(self) -> None:
        while not self._over.wait(self._heartbeat_s):
            with contextlib.suppress(OSError):  # a folder that is not there for a moment
                os.utime(self._path)
