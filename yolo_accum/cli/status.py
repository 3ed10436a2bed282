"""`status`: where runs and comparisons are, from their folders alone, while they train or afterwards."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from yolo_accum.cli.comparison.status import comparison_json, show_comparison
from yolo_accum.config.status_arguments import parse_status
from yolo_accum.errors import UserError
from yolo_accum.report.comparison_status import is_comparison, read_comparison
from yolo_accum.report.status import COUNTERS, RunStatus, find_runs, is_run, read_status
from yolo_accum.report.tables import columns, open_terminal, pairs

SHOWN = ("AP", "AP50", "AP75", "AP_small", "AP_medium", "AP_large")
"""Metrics that a person wants at a glance."""


def run(argv: Sequence[str]) -> int | Mapping[str, Any]:
    """Print where each run and each comparison is; returns the same.

    Raises:
        UserError: there is no such folder, or no run in any of them.
    """
    arguments = parse_status(argv)
    named = [Path(name) for name in arguments.folders]
    for folder in named:
        if not folder.is_dir():
            is_file = folder.exists()
            raise UserError(f"{folder}: {'a file; the folder of a run is needed' if is_file else 'no such folder'}")
    comparisons = [read_comparison(folder) for folder in named if is_comparison(folder)]
    folders = [folder for folder in named if not is_comparison(folder)]
    found = {folder: find_runs(folder) for folder in folders}
    without = [folder for folder, runs in found.items() if not runs]
    statuses = [read_status(path) for runs in found.values() for path in runs]
    if not statuses and not comparisons:
        raise UserError("; ".join(f"{folder} is no run folder, and no run lies below it" for folder in without))
    terminal = open_terminal(as_json=arguments.json)
    now = time.time()
    for comparison in comparisons:
        show_comparison(comparison, terminal)
    is_one = len(named) == 1 and is_run(named[0])
    if is_one:
        terminal.print(pairs(str(statuses[0].folder), one_run(statuses[0], now)))
    elif statuses:
        headers = ("run", "state", "epochs", "done", "ETA", "AP", "AP50", "last sign")
        terminal.print(columns("Runs", headers, [row_of(status, now) for status in statuses]))
    for folder in without:
        terminal.print(
            f"{folder} is no run folder, and no run lies below it", markup=False, highlight=False, soft_wrap=True
        )
    for problem in (text for status in statuses for text in status.problems):
        terminal.print(f"warning: {problem}", markup=False, highlight=False, soft_wrap=True)
    if is_one:
        return as_json(statuses[0], now)
    if comparisons and len(named) == 1:
        return comparison_json(comparisons[0])
    return {
        "runs": [as_json(status, now) for status in statuses],
        "comparisons": [comparison_json(comparison) for comparison in comparisons],
        "no_runs": [str(folder) for folder in without],
    }


def one_run(status: RunStatus, now: float) -> dict[str, str]:
    """Label -> text."""
    rows = {"state": f"{status.state}: {status.reason}"}
    if status.doing:
        rows["doing"] = status.doing
    rows["progress"] = _progress(status)
    if status.eta_s is not None:
        rows["ETA"] = _duration(status.eta_s)
    if status.started_at is not None:
        end = status.last_sign_at if status.state != "running" else None
        lasted = f"{_duration(end - status.started_at)} long" if end is not None else _ago(now - status.started_at)
        rows["started"] = f"{_clock(status.started_at)}, {lasted}"
    if status.last_update:
        rows["last update"] = _update(status, now)
    if status.counters:
        seen = {name: status.counters.get(name, 0) for name in COUNTERS}
        rows["counters"] = (
            f"{seen['images_seen']} images seen, {seen['images_dropped']} dropped; {seen['updates_applied']} updates "
            f"applied, {seen['updates_skipped']} refused"
        )
    if status.best_epoch is not None:
        shown = [f"{name} {status.best_metrics[name]:.4f}" for name in SHOWN if name in status.best_metrics]
        rows["best"] = f"epoch {status.best_epoch + 1}{': ' if shown else ''}{', '.join(shown)}"
    if status.state in ("killed", "interrupted", "failed") and (status.folder / "weights" / "last.pt").is_file():
        rows["to go on"] = f"yolo-accum train --resume {shlex.quote(str(status.folder))}"
    return rows


def row_of(status: RunStatus, now: float) -> list[str]:
    """A line of the list."""
    epochs = f"{status.epochs_done}/{status.num_epochs}" if status.num_epochs else str(status.epochs_done)
    metrics = [f"{status.best_metrics[name]:.4f}" if name in status.best_metrics else "-" for name in ("AP", "AP50")]
    return [
        str(status.folder),
        status.state,
        epochs,
        f"{_share(status):.0%}" if status.num_micro_batches else "-",
        _duration(status.eta_s) if status.eta_s is not None else "-",
        *metrics,
        _ago(now - status.last_sign_at) if status.last_sign_at is not None else "-",
    ]


def as_json(status: RunStatus, now: float) -> dict[str, Any]:
    """All of it, for programs."""
    age_s = now - status.last_update_at if status.last_update_at is not None else None
    return {
        "run": str(status.folder),
        "state": status.state,
        "reason": status.reason,
        "doing": status.doing or None,
        "started_at": _iso(status.started_at),
        "last_sign_at": _iso(status.last_sign_at),
        "progress": {
            "micro_batches_done": status.micro_batches_done,
            "micro_batches": status.num_micro_batches,
            "epochs_done": status.epochs_done,
            "epochs": status.num_epochs,
            "share": _share(status) if status.num_micro_batches else None,
        },
        "eta_s": status.eta_s,
        "counters": status.counters,
        "last_update": {**status.last_update, "at": _iso(status.last_update_at), "age_s": age_s}
        if status.last_update
        else None,
        "best": {"epoch": status.best_epoch + 1, **status.best_metrics} if status.best_epoch is not None else None,
        "problems": list(status.problems),
    }


def _share(status: RunStatus) -> float:
    return status.micro_batches_done / status.num_micro_batches if status.num_micro_batches else 0.0


def _progress(status: RunStatus) -> str:
    epochs = f"{status.epochs_done} of {status.num_epochs}" if status.num_epochs else str(status.epochs_done)
    text = f"{epochs} epochs, {status.micro_batches_done}"
    if status.num_micro_batches:
        text += f" of {status.num_micro_batches}"
    return f"{text} micro-batches{f' ({_share(status):.0%})' if status.num_micro_batches else ''}"


def _update(status: RunStatus, now: float) -> str:
    update = status.last_update
    loss = sum(value for name, value in update.items() if name.startswith("loss_"))
    rates = [value for name, value in update.items() if name.startswith("lr_")]
    parts = [f"number {update.get('update', 0):.0f}", f"loss {loss:.3f}"]
    parts += [f"lr {max(rates):.3g}"] if rates else []
    parts += [f"{update['images_per_s']:.1f} images/s"] if "images_per_s" in update else []
    parts += [] if update.get("applied", 1) else ["refused"]
    when = f", {_ago(now - status.last_update_at)}" if status.last_update_at is not None else ""
    return ", ".join(parts) + when


def _ago(seconds: float) -> str:
    return f"{_duration(max(0.0, seconds))} ago"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours // 24} d {hours % 24} h" if hours >= 48 else f"{hours}:{minutes:02d}:{rest:02d}"


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def _iso(seconds: float | None) -> str | None:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds") if seconds is not None else None
