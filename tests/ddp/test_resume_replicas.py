"""A run goes on with more replicas, or with fewer, and ends with the weights of one that was never stopped."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from replica_processes import exit_with, run_replicas
from small_data import write_data
from training_cases import relative_difference

from yolo_accum.cli.main import main

NUM_IMAGES = 13
"""In micro-batches of 6, 6 and 1: a window is still open at the end of an epoch, and not all replicas have a share."""
WORDS = ["--imgsz", "64", "--batch", "6", "--nbs", "12", "--tail", "carry", "--epochs", "3", "--warmup-epochs", "0"]
WORDS += ["--optimizer", "sgd", "--lr0", "0.001", "--norm", "gn", "--amp", "off", "--workers", "0", "--threads", "1"]
WORDS += ["--val-every", "3", "--no-plots", "--device", "cpu", "--ema-tau", "1"]
STOP = """
import signal
from yolo_accum.api import Observer

class Stop(Observer):
    def on_update_applied(self, record):
        if record.update == 1:  # the window that opens next is the last
            signal.raise_signal(signal.SIGINT)
"""


def command(words: list[str]) -> None:
    """The command line in a replica."""
    exit_with(main(words))


def carried_out(words: list[str], replicas: int, folder: Path, code: int) -> None:
    """The command line on so many replicas."""
    if replicas == 1:
        assert main(words) == code
    else:
        ended = run_replicas(command, words, folder=folder, size=replicas)
        assert ended.codes == [code] * replicas, "\n".join(ended.output)


def last_of(folder: Path) -> dict[str, Any]:
    return torch.load(folder / "weights" / "last.pt", weights_only=True)


def images_of_updates(folder: Path) -> list[tuple[str, str]]:
    with (folder / "updates.csv").open(newline="") as file:
        return [(row["images"], row["objects"]) for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data, a callback that stops, and a run that was never stopped."""
    folder = tmp_path_factory.mktemp("project")
    data = write_data(folder, num_train=NUM_IMAGES, num_val=2)
    (folder / "stop.py").write_text(STOP)
    assert main(["train", "--data", str(data), *WORDS, "--project", str(folder), "--name", "whole"]) == 0
    return folder


@pytest.fixture(scope="module", params=[1, 2])
def stopped(request: pytest.FixtureRequest, project: Path) -> Path:
    """The same run on one or two replicas, stopped after its second update, within the second epoch."""
    name = f"stopped{request.param}"
    words = ["train", "--data", str(project / "data.yaml"), *WORDS, "--project", str(project), "--name", name]
    words += ["--callbacks", f"{project / 'stop.py'}:Stop"]
    carried_out(words, request.param, project / f"replicas of {name}", 130)
    content = last_of(project / name)
    assert (content["clock"]["updates_applied"], content["next_epoch"]) == (2, 1)
    assert json.loads((project / name / "status.json").read_text())["state"] == "interrupted"
    return project / name


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_it_ends_as_if_it_had_never_been_stopped(stopped: Path, project: Path, replicas: int, tmp_path: Path) -> None:
    folder = tmp_path / "resumed"
    shutil.copytree(stopped, folder)
    carried_out(["train", "--resume", str(folder)], replicas, tmp_path / "replicas", 0)

    resumed, whole = last_of(folder), last_of(project / "whole")
    start = last_of(stopped)
    assert relative_difference(whole["live"], start["live"]) > 1e-4
    assert relative_difference(resumed["live"], whole["live"]) <= 1e-5
    assert relative_difference(resumed["model"], whole["model"]) <= 1e-5
    assert resumed["clock"] == whole["clock"]
    assert images_of_updates(folder) == images_of_updates(project / "whole")
    with (folder / "epochs.csv").open(newline="") as file:
        epochs = [(row["images"], row["distinct_images"]) for row in csv.DictReader(file)]
    assert epochs == [(str(NUM_IMAGES), str(NUM_IMAGES))] * 3
