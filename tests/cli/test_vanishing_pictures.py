"""A training picture that becomes unreadable while training goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_data import write_data

from yolo_accum.cli.main import main
from yolo_accum.cli.training.run import TrainingRun
from yolo_accum.data.order import epoch_order
from yolo_accum.report.records import read_epochs, read_updates

NUM_TRAIN, SEED = 7, 3
WORDS = "--model yolox_nano --imgsz 64 --epochs 2 --batch 1 --nbs 1 --workers 0 --threads 1 --device cpu --amp off"
PLAIN = "--mosaic 0 --no-plots --warmup-epochs 0 --save-minutes 1000"


def test_it_is_named_once_and_neither_ends_the_run_nor_shifts_the_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    data = write_data(tmp_path / "data", num_train=NUM_TRAIN, num_val=1)
    position = 4
    broken = data.parent / "images" / f"train_{epoch_order(SEED, 0, NUM_TRAIN)[position]:03d}.png"
    carry_out = TrainingRun.carry_out

    def with_a_broken_picture(run: Any) -> Any:
        broken.write_bytes(broken.read_bytes()[:60])
        return carry_out(run)

    def train(name: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[str]]:
        words = [
            *WORDS.split(),
            *PLAIN.split(),
            "--seed",
            str(SEED),
            "--project",
            str(tmp_path / "runs"),
            "--name",
            name,
        ]
        assert main(["train", "--data", str(data), *words]) == 0
        told = [line for line in capfd.readouterr().out.splitlines() if "grey picture" in line]
        folder = tmp_path / "runs" / name
        return read_updates(folder), read_epochs(folder), told

    whole, _, silent = train("whole")
    monkeypatch.setattr(TrainingRun, "carry_out", with_a_broken_picture)
    updates, epochs, told = train("broken")

    assert silent == []
    assert len(told) == 1 and broken.name in told[0] and "1 so far" in told[0]
    assert epochs["images"].tolist() == epochs["distinct_images"].tolist() == [NUM_TRAIN, NUM_TRAIN]
    # Up to the broken picture every update is the one of the whole set, and only its own objects are missing.
    before = slice(0, position)
    assert updates["loss_box"][before].tolist() == whole["loss_box"][before].tolist()
    assert updates["objects"][position] == 0
    others = np.arange(NUM_TRAIN) != position
    assert updates["objects"][:NUM_TRAIN][others].tolist() == whole["objects"][:NUM_TRAIN][others].tolist()
