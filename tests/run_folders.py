"""Run folders and comparisons for tests of pages, as `train` and `compare` leave them, without a training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from run_of_records import UPDATES_PER_EPOCH, epoch_record, update_record

from yolo_accum.cli.page_records import PageRecords, write_evaluation
from yolo_accum.contracts import Batch, DetectionIndex, Detections, RunStarted
from yolo_accum.metrics.evaluate import measure
from yolo_accum.report.messages import MessageLog
from yolo_accum.report.records import CsvRecords


def write_run(
    folder: Path,
    index: DetectionIndex,
    detections: Sequence[Detections] | None,
    *,
    num_epochs: int = 3,
    num_updates: int | None = None,
    warnings: Sequence[str] = (),
) -> Path:
    """A run that is not finished: all that is written while it goes on, but no weights.

    Args:
        index: both splits.
        detections: one entry an image, or None where nothing was evaluated.
        num_epochs: finished ones.
        num_updates: by default those of the epochs.
    """
    folder.mkdir(parents=True)
    (folder / "weights").mkdir()
    (folder / "config.yaml").write_text("epochs: 10\n")
    messages = MessageLog(clock=lambda: 0.0)
    messages.open(folder)
    for warning in warnings:
        messages(f"warning: {warning}")
    write_tables(folder, num_epochs, num_updates)
    page = PageRecords(index, index, 64, messages)
    page.on_run_start(
        RunStarted(
            folder=folder, num_epochs=10, num_micro_batches=320, start_micro_batch=0, settings={"model": "yolox_nano"}
        )
    )
    page.keep_samples([_batch(index.num_classes)])
    if detections is not None:
        write_evaluation(folder, index, measure(detections, index))
    return folder


def write_tables(folder: Path, num_epochs: int, num_updates: int | None = None) -> None:
    """``updates.csv`` and ``epochs.csv``."""
    records = CsvRecords(folder)
    for number in range(UPDATES_PER_EPOCH * num_epochs if num_updates is None else num_updates):
        records.on_update(update_record(number + 1))
    for number in range(num_epochs):
        records.on_epoch(epoch_record(number))


def _batch(num_classes: int) -> Batch:
    return Batch(
        images=torch.full((2, 3, 64, 64), 90, dtype=torch.uint8),
        boxes_xyxy_px=torch.tensor([[8.0, 8.0, 40.0, 32.0]]),
        labels=torch.tensor([num_classes - 1]),
        sample_of_box=torch.tensor([1]),
        image_indices=torch.tensor([0, 1]),
    )


def comparison(folder: Path, arms: Sequence[str], *, seeds: int = 1, num_epochs: int = 3) -> dict[str, Any]:
    """The content of ``compare.json`` for arms that all finished, and their tables below ``folder``; the first arm is
    the reference."""
    entries = []
    for number, name in enumerate(arms):
        runs = []
        for seed in range(seeds):
            run = folder / name / f"seed{seed}"
            run.mkdir(parents=True)
            write_tables(run, num_epochs)
            runs.append(_run(name, seed, num_epochs))
        means = {"AP": 0.4 - 0.01 * number, "AP50": 0.6, "peak_memory_mib": 900.0 - 100 * number, "images_per_s": 24.0}
        entries.append(
            {
                "name": name,
                "label": f"{name}, bn",
                "changes": {"batch": 8 * (number + 1)},
                "options": {
                    "batch": 8 * (number + 1),
                    "epochs": num_epochs,
                    "classes": [],
                    "plots": False,
                    "memory": None,
                },
                "batch": 8 * (number + 1),
                "window_length": 8,
                "images_per_update": 64,
                "norm": "bn",
                "tail": "step",
                "same_windows": True,
                "activations": "kept",
                "notes": [],
                "summary": {name: {"mean": mean, "sd": None, "num": seeds} for name, mean in means.items()},
                "per_class": [],
                "runs": runs,
            }
        )
    return {
        "format": 1,
        "ok": True,
        "finished": True,
        "verdict": f"{arms[-1]} and {arms[0]} are equal within 0.01 AP.",
        "settings": {"train_images": 256, "class_names": ["cat", "dog"]},
        "options": {},
        "reference": arms[0],
        "moments": [{"name": "first", "update": 1}],
        "warnings": [],
        "arms": entries,
        "comparisons": [_against(name, arms[0], seeds) for name in arms[1:]],
        "verify": _verify(),
        "files": {"compare": "compare.json", "table": "compare.csv"},
    }


def _run(name: str, seed: int, num_epochs: int) -> dict[str, Any]:
    epochs = [epoch_record(number) for number in range(num_epochs)]
    return {
        "seed": seed,
        "status": "finished",
        "message": None,
        "folder": f"{name}/seed{seed}",
        "log": f"{name}/seed{seed}.log",
        "updates_csv": f"{name}/seed{seed}/updates.csv",
        "epochs": {
            "epoch": [record.epoch for record in epochs],
            "AP": [record.metrics["AP"] for record in epochs],
        },
        "run_card": {"counters": {"images_seen": 640}, "epochs": num_epochs},
        "warnings": ["the batch is not the nominal one"],
    }


def _against(arm: str, reference: str, seeds: int) -> dict[str, Any]:
    agreement = {"cosine": 0.9, "relative_difference": 0.4, "norm_ratio": 1.02, "norm": 3.1, "reference_norm": 3.0}
    return {
        "arm": arm,
        "reference": reference,
        "same_windows": True,
        "differences": {"AP": {"mean": -0.01, "low": -0.03, "high": 0.01, "sd": 0.01, "num": seeds, "values": [-0.01]}},
        "per_class": [
            {"name": "<b>cat</b>", "AP": {"mean": 0.02, "low": -0.01, "high": 0.05}},
            {"name": "dog", "AP": {"mean": -0.04, "low": None, "high": None}},
        ],
        "verdict": {"kind": "equal", "metric": "AP", "sentence": f"{arm} is equal within 0.01."},
        "loss": {
            "num_updates": 3,
            "by_seed": [{"seed": 0, "relative_differences": [1e-4, 2e-4, None]}],
        },
        "gradients": [
            {
                "seed": 0,
                "moment": "first",
                "update": 1,
                "overall": agreement,
                "parts": {"stem": agreement, "head": agreement},
            }
        ],
    }


def _verify() -> dict[str, Any]:
    overall = {"cosine": 0.43, "relative_difference": 1.1, "norm_ratio": 1.2}
    return {
        "ok": True,
        "settings": {},
        "checks": [{"text": "gn is exact", "holds": True}],
        "comparisons": [
            {"label": "bn", "norm": "bn", "micro_batch": 8, "mean_of_means": False, "overall": overall, "parts": {}},
            {"label": "gn", "norm": "gn", "micro_batch": 8, "mean_of_means": False, "overall": overall, "parts": {}},
        ],
    }


def coloured(size_px: tuple[int, int] = (64, 48)) -> np.ndarray:
    """[H, W, 3] uint8: a picture that is not one colour."""
    return np.random.default_rng(0).integers(0, 256, (size_px[1], size_px[0], 3)).astype(np.uint8)
