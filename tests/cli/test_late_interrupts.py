"""Signals that come when the last window is over: they are asked for as much as earlier ones."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_data import write_data
from train_command import Train, train_command

from yolo_accum.cli.training.build import Training
from yolo_accum.cli.training.run import TrainingRun


@pytest.fixture
def train(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Train:
    return train_command(write_data(tmp_path / "data"), tmp_path / "runs", capfd, "--epochs", "1")


def test_a_signal_in_the_evaluation_of_the_last_epoch_ends_the_run(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate = TrainingRun._validate

    def interrupted(run: Any, *arguments: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return validate(run, *arguments)

    monkeypatch.setattr(TrainingRun, "_validate", interrupted)
    assert "interrupted: stopped after the last update" in train(code=143)["said"]
    monkeypatch.undo()
    assert Path(train("--resume", str(tmp_path / "runs" / "exp"))["files"]["card"]).is_file()


def test_a_signal_while_the_loader_is_taken_down_ends_the_run(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = Training.batches

    def interrupted(training: Training) -> Iterator[Any]:
        try:
            yield from batches(training)
        finally:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Training, "batches", interrupted)
    assert "interrupted: stopped before the final evaluation" in train(code=130)["said"]
