"""What all loggers record of a run, by name, and how they find the package that they need."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from yolo_accum.contracts import METRIC_NAMES, EpochRecord, RunEnded, UpdateRecord
from yolo_accum.errors import UserError


def logger_package(module: str, logger: str) -> ModuleType:
    """A package that is installed with the extra of the same name as the logger.

    Raises:
        UserError: it is not there, or cannot be used.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"--log {logger} needs a package that cannot be imported here ({error}); install it with "
            f"pip install 'yolo-accum[{logger}]'"
        ) from error


def update_values(record: UpdateRecord) -> dict[str, float]:
    """The numbers of one applied update, as ``group/name``."""
    return {
        "loss/total": sum(record.losses.values()),
        **{f"loss/{name}": value for name, value in record.losses.items()},
        **{f"lr/{name}": value for name, value in record.lr.items()},
        "gradient/norm": record.grad_norm,
        "gradient/clip_coefficient": record.clip_coefficient,
        "gradient/scaler_scale": record.scaler_scale,
        "window/images": record.images,
        "window/objects": record.objects,
        "window/denominator": record.denominator,
        "optimizer/momentum": record.momentum,
        "optimizer/ema_decay": record.ema_decay,
        "counters/images_dropped": record.images_dropped,
        "counters/updates_skipped": record.updates_skipped,
        "speed/images_per_s": record.images_per_s,
        "memory/peak_mib": record.peak_memory_mib,
    }


def epoch_values(record: EpochRecord) -> dict[str, float]:
    """The numbers of an epoch: losses over all its updates, and metrics when it was evaluated."""
    return {
        "epoch/number": record.epoch + 1,
        "epoch/loss": sum(record.losses.values()),
        "epoch/images_per_s": record.images_per_s,
        "epoch/train_s": record.train_s,
        "epoch/val_s": record.val_s,
        **{f"val/{name}": value for name, value in record.metrics.items()},
    }


def final_values(event: RunEnded) -> dict[str, float]:
    """The metrics of the best weights, as the run card has them, else as their epoch was evaluated."""
    best = event.card.get("best", event.best_metrics)
    return {f"best/{name}": best[name] for name in METRIC_NAMES if best.get(name) is not None}


def pictures(event: RunEnded) -> dict[str, Path]:
    """The pictures of the run folder by name."""
    return {name: path for name, path in event.files.items() if path.suffix == ".png"}


def card_rows(event: RunEnded) -> dict[str, str]:
    """How the run ended and its card, flat: label -> text."""
    rows = {"outcome": event.outcome, **({"message": event.message} if event.message else {})}
    return {**rows, "epochs done": str(event.epochs_done), **_flat("counters", event.counters), **_flat("", event.card)}


def _flat(prefix: str, content: Mapping[str, Any]) -> dict[str, str]:
    rows: dict[str, str] = {}
    for name, value in content.items():
        label = f"{prefix} {name}".strip()
        if isinstance(value, Mapping):
            rows |= _flat("" if name == "settings" else label, value)
        elif name != "per_class":
            rows[label] = str(value)
    return rows
