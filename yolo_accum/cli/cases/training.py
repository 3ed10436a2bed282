"""What a training of a case left in its run folder, against what the case says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolo_accum.cli.cases.commands import Outcome
from yolo_accum.cli.cases.setup import Case
from yolo_accum.engine.checkpoint import read_checkpoint
from yolo_accum.report.records import read_epochs, read_updates


def wrong_in_training(case: Case, outcome: Outcome) -> Iterator[str]:
    """What is wrong with a training that was carried out."""
    expect, folder = case.expect, Path(outcome.result["run"])
    updates, epochs = read_updates(folder), read_epochs(folder)
    per_epoch = np.bincount(updates["epoch"].astype(int), weights=updates["applied"]).astype(int).tolist()
    for name in ("steps_per_epoch", "steps_per_epoch_if_flushed"):
        if name in expect and set(per_epoch) != {expect[name]}:
            yield f"{per_epoch} updates in the epochs, expected {expect[name]} in each"
    total = sum(per_epoch)
    if "steps_total_if_flushed" in expect and total != expect["steps_total_if_flushed"]:
        yield f"{total} updates, expected {expect['steps_total_if_flushed']}"
    if "samples_per_epoch" in expect:
        for column in ("images", "distinct_images"):
            if set(epochs[column].tolist()) != {expect["samples_per_epoch"]}:
                yield f"{column} in the epochs: {epochs[column].tolist()}, expected {expect['samples_per_epoch']}"
    losses = np.concatenate([values for name, values in updates.items() if name.startswith("loss_")])
    if expect.get("all_losses_finite") and not np.isfinite(losses).all():
        yield "a loss is not finite"
    checkpoint = read_checkpoint(folder / "weights" / "last.pt")
    if expect.get("all_weights_finite") and not _all_finite(checkpoint):
        yield "a weight is not finite"
    if expect.get("weights_must_change") and not _live_weights_left_their_average(checkpoint):
        yield "the weights did not change"
    if expect.get("metric") == "undefined":
        yield from _wrong_undefined_metric(outcome, folder)


def _wrong_undefined_metric(outcome: Outcome, folder: Path) -> Iterator[str]:
    best = outcome.result["best"]
    if best.get("AP", "missing") is not None:
        yield f"AP is {best.get('AP')!r} on a split without objects; null is expected"
    if not (folder / "weights" / "best.pt").is_file():
        yield "there are no best weights"


def _floats(state: dict[str, Any]) -> list[torch.Tensor]:
    return [value for value in state.values() if isinstance(value, torch.Tensor) and value.is_floating_point()]


def _all_finite(checkpoint: dict[str, Any]) -> bool:
    return all(bool(torch.isfinite(value).all()) for key in ("live", "model") for value in _floats(checkpoint[key]))


def _live_weights_left_their_average(checkpoint: dict[str, Any]) -> bool:
    """Both start equal; they differ as soon as an update has moved the weights."""
    live, average = checkpoint["live"], checkpoint["model"]
    return any(name.endswith("weight") and not torch.equal(live[name], average[name].float()) for name in live)
