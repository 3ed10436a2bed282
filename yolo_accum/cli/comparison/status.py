"""How `status` shows a comparison."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import rich.console

from yolo_accum.report.comparison_status import ComparedRun, ComparisonStatus
from yolo_accum.report.tables import columns, pairs

HEADERS = ("arm", "seed", "state", "epochs", "images", "AP")


def show_comparison(found: ComparisonStatus, terminal: rich.console.Console) -> None:
    """Print its state, then a line for each run, and why runs have failed."""
    terminal.print(pairs(str(found.folder), _rows(found)))
    terminal.print(columns("Its runs", HEADERS, [_row(run, found.reference) for run in found.runs]))
    for run in found.runs:
        if run.message is not None and run.state != "running":
            terminal.print(
                f"warning: {run.arm}, seed {run.seed}: {run.state}: {run.message}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )


def comparison_json(found: ComparisonStatus) -> dict[str, Any]:
    """All of it, for programs."""
    done, total = _images(found.runs)
    return {
        "comparison": str(found.folder),
        "state": found.state,
        "reason": found.reason,
        "reference": found.reference,
        "verdict": found.verdict,
        "images_done": done,
        "images": total,
        "counts": found.counts,
        "runs": [
            {
                "arm": run.arm,
                "seed": run.seed,
                "state": run.state,
                "message": run.message,
                "run": str(run.status.folder) if run.status is not None else None,
                "images_done": run.images_done,
                "images": run.num_images,
                "epochs_done": run.status.epochs_done if run.status is not None else 0,
                "best_metrics": dict(run.status.best_metrics) if run.status is not None else {},
            }
            for run in found.runs
        ],
    }


def _rows(found: ComparisonStatus) -> dict[str, str]:
    done, total = _images(found.runs)
    rows = {
        "state": f"{found.state}: {found.reason}",
        "runs": f"{len(found.runs)}: " + ", ".join(f"{number} {state}" for state, number in found.counts.items()),
        "images": f"{done} of {total}" + (f" ({done / total:.0%})" if total else ""),
    }
    if found.state in ("finished", "failed"):
        rows["verdict"] = found.verdict
    if found.state in ("interrupted", "failed"):
        rows["to go on"] = f"yolo-accum compare --resume {shlex.quote(str(found.folder))}"
    return rows


def _row(run: ComparedRun, reference: str) -> list[str]:
    status = run.status
    ap = status.best_metrics.get("AP") if status is not None else None
    return [
        run.arm + (" (reference)" if run.arm == reference else ""),
        str(run.seed),
        run.state,
        f"{status.epochs_done}/{status.num_epochs}" if status is not None and status.num_epochs else "-",
        f"{run.images_done}/{run.num_images}",
        f"{ap:.4f}" if ap is not None else "-",
    ]


def _images(runs: Sequence[ComparedRun]) -> tuple[int, int]:
    """Done, and of all runs; those that have ended early count as done, as nothing more comes of them."""
    total = sum(run.num_images for run in runs)
    left = sum(run.num_images - run.images_done for run in runs if run.state not in ("failed", "does not fit"))
    return total - left, total
