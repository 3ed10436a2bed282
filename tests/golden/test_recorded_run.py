"""Two dozen updates of a small detector with recorded losses: a refactoring that changes them changed the arithmetic.

In float64 and with hardly any learning rate: processors round differently, and training would amplify that until
objects are assigned elsewhere. What an optimizer makes of a gradient is held by other tests. The tolerance is one tie.

To record anew after a change that is meant to change them:
``PYTHONPATH=tests python tests/golden/test_recorded_run.py``.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
import torch
from small_data import write_data

from yolo_accum.cli.training.build import build_training
from yolo_accum.config.load import from_mapping
from yolo_accum.data.description import open_data
from yolo_accum.engine.loop import LoopState

RECORDED = Path(__file__).with_name("recorded_run.json")


def run(folder: Path) -> list[dict[str, float]]:
    """What the updates of three epochs report: ramp, short windows, images without objects, closed mosaic."""
    options = {
        "data": str(write_data(folder)),
        "epochs": 4,
        "imgsz": 64,
        "batch": 2,
        "nbs": 6,
        "warmup_epochs": 2,
        "workers": 0,
        "threads": 1,
        "amp": "off",
        "close_mosaic": 2,
        "seed": 5,
        "lr0": 1e-9,
    }
    config = from_mapping(options)
    training = build_training(config, open_data(config.data).train, dtype=torch.float64)
    rows = []
    for finished in training.loop.run(training.batches(), LoopState()):
        record = finished.record
        assert record is not None
        rows.append(
            {
                "images": record.images,
                "objects": record.objects,
                "denominator": record.denominator,
                "lr": record.lr["decay"],
                "grad_norm": record.grad_norm,
                **record.losses,
            }
        )
    return rows


def test_updates_are_those_recorded(tmp_path: Path) -> None:
    recorded, rows = json.loads(RECORDED.read_text()), run(tmp_path)
    assert len(rows) == len(recorded)
    for number, (row, expected) in enumerate(zip(rows, recorded, strict=True)):
        for name in ("images", "objects", "lr"):
            assert row[name] == pytest.approx(expected[name], rel=1e-9), (number, name)
        for name in set(expected) - {"images", "objects", "lr"}:
            assert row[name] == pytest.approx(expected[name], rel=0.02, abs=1e-6), (number, name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        RECORDED.write_text(json.dumps(run(Path(scratch)), indent=1) + "\n")
