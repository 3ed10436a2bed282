"""Where a comparison is, read from its folder alone; nothing is written and torch is not needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from yolo_accum.errors import UserError
from yolo_accum.report.status import RunStatus, is_run, read_status

try:
    import fcntl
except ImportError:  # Windows, where no comparison runs either
    fcntl = None  # type: ignore[assignment]

COMPARISON_FILE = "compare.json"
"""Written when a comparison starts, and again after every run."""
LOCK_FILE = ".lock"
"""Locked as long as the comparison or a run of it lives."""

ComparisonState = Literal["running", "finished", "failed", "interrupted"]
_ENDED_EARLY = ("failed", "does not fit")


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One arm with one seed."""

    arm: str
    seed: int
    state: str
    """Of the run, or "waiting" where it has not begun, or "does not fit"."""
    message: str | None
    """Why it has failed or does not fit."""
    num_images: int
    """Of all epochs."""
    status: RunStatus | None
    """What its folder says; None where there is none yet."""

    @property
    def images_done(self) -> int:
        """That it has trained on or dropped."""
        counters = self.status.counters if self.status is not None else {}
        return min(counters.get("images_seen", 0) + counters.get("images_dropped", 0), self.num_images)


@dataclass(frozen=True, kw_only=True)
class ComparisonStatus:
    """What the files of a comparison say."""

    folder: Path
    state: ComparisonState
    reason: str
    """How the state is known, one sentence."""
    reference: str
    verdict: str
    runs: tuple[ComparedRun, ...]
    """Arm by arm."""

    @property
    def counts(self) -> dict[str, int]:
        """State of a run -> how many there are."""
        states = [run.state for run in self.runs]
        return {state: states.count(state) for state in dict.fromkeys(states)}


def is_comparison(folder: Path) -> bool:
    """Whether a comparison was started in this folder."""
    return (folder / COMPARISON_FILE).is_file()


def read_comparison(folder: Path) -> ComparisonStatus:
    """Where a comparison is.

    Raises:
        UserError: its ``compare.json`` cannot be used.
    """
    path = folder / COMPARISON_FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        runs = tuple(_run(folder, content, arm, run) for arm in content["arms"] for run in arm["runs"])
        is_finished, is_ok = bool(content["finished"]), bool(content["ok"])
        reference, verdict = str(content["reference"]), str(content["verdict"])
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path}: not a file that `yolo-accum compare` has written") from error
    state, reason = _state(folder, runs, is_finished, is_ok)
    return ComparisonStatus(folder=folder, state=state, reason=reason, reference=reference, verdict=verdict, runs=runs)


def _run(folder: Path, content: Mapping[str, Any], arm: Mapping[str, Any], run: Mapping[str, Any]) -> ComparedRun:
    place = folder / run["folder"]
    status = read_status(place) if is_run(place) else None
    state = run["status"] if run["status"] in _ENDED_EARLY else status.state if status is not None else "waiting"
    return ComparedRun(
        arm=str(arm["name"]),
        seed=int(run["seed"]),
        state="running" if status is not None and status.state == "running" else state,  # one that is tried again
        message=run["message"],
        num_images=int(content["settings"]["train_images"]) * int(arm["options"]["epochs"]),
        status=status,
    )


def _state(folder: Path, runs: tuple[ComparedRun, ...], is_finished: bool, is_ok: bool) -> tuple[ComparisonState, str]:
    if _is_locked(folder / LOCK_FILE):
        return "running", "somebody works in its folder"
    running = next((run for run in runs if run.state == "running"), None)
    if running is not None:
        return "running", f"{running.arm}, seed {running.seed}, is trained"
    if not is_finished:
        return "interrupted", "runs are missing, and nobody works in its folder"
    if not is_ok:
        return "failed", f"{sum(run.state == 'failed' for run in runs)} of {len(runs)} runs failed"
    return "finished", "all runs have ended"


def _is_locked(path: Path) -> bool:
    """Whether another process holds the lock; False where that cannot be told."""
    if fcntl is None:
        return False
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
