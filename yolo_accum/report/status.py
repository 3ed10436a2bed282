"""Where a run is, read from its folder alone; nothing is written and torch is not needed."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from yolo_accum.errors import UserError
from yolo_accum.report.csv_rows import EPOCHS_FILE, UPDATES_FILE, last_row, read_rows
from yolo_accum.report.life_sign import SILENT_AFTER_S, STATUS_FILE, is_alive

State = Literal["running", "finished", "interrupted", "failed", "killed", "unknown"]
MAX_DEPTH = 4
"""Folders below the one that is asked about in which runs are looked for."""
COUNTERS = (
    "images_seen", "images_applied", "images_dropped", "updates_applied", "updates_skipped",
)  # fmt: skip
"""Columns of ``updates.csv`` that only grow."""


_WRITTEN: Mapping[str, type] = {
    "started_at": float, "ended_at": float, "num_epochs": int, "num_micro_batches": int, "start_micro_batch": int,
    "process": dict, "best_metrics": dict,
}  # fmt: skip
"""What `StatusFile` writes under these names, where it does."""


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """What the files of a run say. Times are seconds since 1970."""

    folder: Path
    state: State
    reason: str
    """How the state is known, one sentence."""
    doing: str = ""
    """What a running one is busy with."""
    started_at: float | None = None
    """Of the process that trained last."""
    last_sign_at: float | None = None
    """When that process gave its last sign of life, or ended."""
    micro_batches_done: int = 0
    num_micro_batches: int | None = None
    epochs_done: int = 0
    num_epochs: int | None = None
    eta_s: float | None = None
    """For a running one; further epochs are taken to last as long as those of its process so far."""
    last_update: Mapping[str, float] = field(default_factory=dict)
    """Last row of ``updates.csv``."""
    last_update_at: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    best_epoch: int | None = None
    """0-based."""
    best_metrics: Mapping[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """Files that cannot be read."""


def is_run(folder: Path) -> bool:
    """Whether a training wrote this folder."""
    return (folder / STATUS_FILE).is_file() or ((folder / "config.yaml").is_file() and (folder / "weights").is_dir())


def find_runs(folder: Path) -> list[Path]:
    """The folder itself if it is a run, else the runs below it, by name; runs hold no runs.

    Raises:
        OSError: the folder cannot be read.
    """
    if is_run(folder):
        return [folder]
    found = []
    for place, folders, _ in os.walk(folder, onerror=_raise_for(folder)):
        here = Path(place)
        if here != folder and is_run(here):
            found.append(here)
            folders.clear()
        elif len(here.relative_to(folder).parts) >= MAX_DEPTH:
            folders.clear()
    return sorted(found)


def _raise_for(folder: Path) -> Any:
    """A folder below that cannot be read hides its runs only; the one that was named has to be readable."""

    def handle(error: OSError) -> None:
        if error.filename == str(folder):
            raise error

    return handle


def read_status(folder: Path, now: float | None = None) -> RunStatus:
    """Where a run is.

    Args:
        folder: a run.
        now: seconds since 1970; the present by default.
    """
    now = time.time() if now is None else now
    problems: list[str] = []
    written, sign_at = _read_written(folder / STATUS_FILE, problems)
    state, reason = _state(folder, written, sign_at, now)
    update = _read_last_update(folder / UPDATES_FILE, problems)
    epochs = _read_epochs(folder / EPOCHS_FILE, problems)
    best = next((row for row in reversed(epochs) if row.get("is_best")), {})
    metrics = {name: value for name, value in best.items() if name.startswith(("AP", "AR"))}
    done = int(update.get("last_micro_batch", -1)) + 1
    total = written.get("num_micro_batches")
    ended_at = written.get("ended_at")
    return RunStatus(
        folder=folder,
        state=state,
        reason=reason,
        doing=_doing(written, done, len(epochs)) if state == "running" else "",
        started_at=written.get("started_at"),
        last_sign_at=ended_at or sign_at,
        micro_batches_done=done,
        num_micro_batches=total,
        epochs_done=len(epochs),
        num_epochs=written.get("num_epochs"),
        eta_s=_eta_s(written, done, now) if state == "running" else None,
        last_update=update,
        last_update_at=(folder / UPDATES_FILE).stat().st_mtime if update else None,
        counters={name: int(update[name]) for name in COUNTERS if name in update},
        best_epoch=int(best["epoch"]) if best else None,
        best_metrics=written.get("best_metrics") or metrics,
        problems=tuple(problems),
    )


def training_process(folder: Path) -> str | None:
    """The other process of this machine that trains in a folder; None where none does, or that cannot be told."""
    written, _ = _read_written(folder / STATUS_FILE, [])
    process = written.get("process")
    if written.get("state") != "running" or not isinstance(process, dict) or process.get("pid") == os.getpid():
        return None
    return _named(process) if is_alive(process) else None


def _named(process: Mapping[str, Any]) -> str:
    return f"process {process.get('pid')} on {process.get('host')}"


def _read_written(path: Path, problems: list[str]) -> tuple[dict[str, Any], float | None]:
    """What the run itself wrote, and when it last touched that."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not all(
            isinstance(content.get(name, kind()), kind) for name, kind in _WRITTEN.items()
        ):
            raise ValueError
        return content, path.stat().st_mtime
    except FileNotFoundError:
        return {}, None
    except (OSError, ValueError, RecursionError):
        problems.append(f"{path} cannot be read")
        return {}, None


def _state(folder: Path, written: Mapping[str, Any], sign_at: float | None, now: float) -> tuple[State, str]:
    said = written.get("state")
    if said == "finished":
        return "finished", "it said so at its end"
    if said in ("interrupted", "failed"):
        return said, str(written.get("message") or "it said so at its end")
    if said != "running" or sign_at is None:
        if (folder / "run_card.json").is_file():
            return "finished", "it has a run card, its last file"
        return "unknown", f"it has no usable {STATUS_FILE} and no run card"
    process = written.get("process", {})
    who = _named(process)
    silent_s = max(0.0, now - sign_at)
    alive = is_alive(process)
    if alive:
        silence = f", but gave no sign of life for {silent_s:.0f} s" if silent_s > SILENT_AFTER_S else ""
        return "running", f"{who} is there{silence}"
    if alive is None and silent_s <= SILENT_AFTER_S:
        return "running", f"{who} gave a sign of life {silent_s:.0f} s ago"
    gone = "is gone" if alive is False else f"gave no sign of life for {silent_s:.0f} s"
    return "killed", f"{who} {gone} without a last word: killed, short of memory, or its machine went down"


def _doing(written: Mapping[str, Any], micro_batches_done: int, epochs_done: int) -> str:
    """An epoch whose micro-batches are all done and that has no row yet is being evaluated."""
    per_epoch = written.get("num_micro_batches", 0) / max(written.get("num_epochs", 1), 1)
    if written.get("doing") == "training" and micro_batches_done >= (epochs_done + 1) * per_epoch > 0:
        return f"evaluation of epoch {epochs_done + 1}"
    return str(written.get("doing", ""))


def _eta_s(written: Mapping[str, Any], micro_batches_done: int, now: float) -> float | None:
    total, started_at = written.get("num_micro_batches"), written.get("started_at")
    done_now = micro_batches_done - written.get("start_micro_batch", 0)
    if total is None or started_at is None or done_now <= 0:
        return None
    return float((now - started_at) / done_now * (total - micro_batches_done))


def _read_last_update(path: Path, problems: list[str]) -> dict[str, float]:
    try:
        row = last_row(path)
        odd = [name for name in ("last_micro_batch", *COUNTERS) if not math.isfinite(row.get(name, 0))]
        if odd:
            raise ValueError(f"{odd[0]} is no whole number")
        return row
    except (OSError, ValueError) as error:
        problems.append(f"{path} cannot be read ({error})")
        return {}


def _read_epochs(path: Path, problems: list[str]) -> list[dict[str, float]]:
    """Its rows by column, without empty cells."""
    if not path.is_file():
        return []
    try:
        rows = read_rows(path)
        header = next(rows, [])
        epochs = [{name: float(cell) for name, cell in zip(header, row, strict=True) if cell} for row in rows]
        if not all(math.isfinite(row.get("epoch", math.nan)) for row in epochs):
            raise UserError(f"{path} has a row without the number of its epoch")
        return epochs
    except (OSError, UserError) as error:
        problems.append(str(error))
        return []
