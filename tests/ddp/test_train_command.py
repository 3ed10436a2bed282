"""`train` on two replicas from its first word to its exit code."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from replica_processes import exit_with, run_replicas
from small_data import write_data

from yolo_accum.cli.main import main

COMMON = [
    "--imgsz",
    "64",
    "--threads",
    "1",
    "--batch",
    "4",
    "--nbs",
    "8",
    "--workers",
    "0",
    "--amp",
    "off",
    "--no-plots",
]
NUM_IMAGES = 9


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"), num_train=NUM_IMAGES, num_val=5)


def command(words: list[str]) -> None:
    """The command line in a replica."""
    exit_with(main(words))


def command_with_signal(words: list[str], updates: Path, number: int) -> None:
    """The same; the second replica receives a signal once three updates are recorded."""

    def send() -> None:
        while not updates.exists() or updates.read_text().count("\n") < 4:
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    if os.environ["RANK"] == "1":
        threading.Thread(target=send, daemon=True).start()
    exit_with(main(words))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def last_json(text: str) -> dict[str, Any]:
    return json.loads(next(line for line in reversed(text.splitlines()) if line.startswith("{")))


def test_one_replica_writes_and_speaks_for_both(data: Path, tmp_path: Path) -> None:
    project = tmp_path / "runs"
    words = ["train", "--data", str(data), *COMMON, "--epochs", "1", "--project", str(project), "--json"]
    ended = run_replicas(command, words, folder=tmp_path / "replicas")
    assert ended.codes == [0, 0], "\n".join(ended.output)
    assert ended.output[1] == ""
    assert [path.name for path in project.iterdir()] == ["exp"]
    result = last_json(ended.output[0])
    assert result["counters"]["images_seen"] == NUM_IMAGES
    assert [(row["images"], row["distinct_images"]) for row in rows(project / "exp" / "epochs.csv")] == [("9", "9")]
    predictions = json.loads((project / "exp" / "metrics.json").read_text())
    assert predictions["images"] == 5
    card = json.loads((project / "exp" / "run_card.json").read_text())
    assert card["settings"]["micro-batch (m x D)"] == "4 images (2 x 2 replicas)"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_to_one_replica_stops_both_and_one_process_goes_on(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], number: int, code: int
) -> None:
    project = tmp_path / "runs"
    words = ["train", "--data", str(data), *COMMON, "--epochs", "6", "--val-every", "6", "--warmup-epochs", "0"]
    words += ["--project", str(project), "--device", "cpu", "--tail", "carry"]
    updates = project / "exp" / "updates.csv"
    ended = run_replicas(command_with_signal, words, updates, number, folder=tmp_path / "replicas")
    assert ended.codes == [code, code], "\n".join(ended.output)
    assert "".join(ended.output).count("interrupted: ") == 1
    last = project / "exp" / "weights" / "last.pt"
    assert f"the state is in {last}" in "".join(ended.output)
    content = torch.load(last, weights_only=True)
    assert int(content["ledger"].sum()) == content["next_position"]
    capfd.readouterr()
    assert main(["train", "--resume", str(project / "exp"), "--batch", "2", "--json"]) == 0
    result = last_json(capfd.readouterr().out)
    assert result["counters"]["images_seen"] == 6 * NUM_IMAGES
    epochs = rows(project / "exp" / "epochs.csv")
    assert [(row["images"], row["distinct_images"]) for row in epochs] == [("9", "9")] * 6


@pytest.mark.parametrize(
    ("words", "pieces"),
    [(["--batch", "15"], ["--batch 15", "14 or 16"]), (["--bach", "4"], ["--bach", "--batch"])],
)
def test_what_is_wrong_is_told_once(data: Path, tmp_path: Path, words: list[str], pieces: list[str]) -> None:
    argv = ["train", "--data", str(data), *COMMON, "--project", str(tmp_path / "runs"), *words]
    ended = run_replicas(command, argv, folder=tmp_path / "replicas")
    assert ended.codes == [2, 2]
    everything = "".join(ended.output)
    assert everything.count("error: ") == 1
    for piece in pieces:
        assert piece in everything
    assert not (tmp_path / "runs").exists()


def launched(data: Path, project: Path, *words: str) -> subprocess.Popen[str]:
    argv = ["train", "--data", str(data), *COMMON, "--project", str(project), "--device", "cpu,cpu", *words]
    return subprocess.Popen(
        [sys.executable, "-m", "yolo_accum", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_a_list_of_devices_starts_a_replica_each(data: Path, tmp_path: Path) -> None:
    process = launched(data, tmp_path / "runs", "--epochs", "1", "--json")
    out, messages = process.communicate(timeout=300)
    assert process.returncode == 0, messages
    assert json.loads(out)["counters"]["images_seen"] == NUM_IMAGES


@pytest.mark.slow
def test_the_launcher_passes_on_codes_messages_and_signals(data: Path, tmp_path: Path) -> None:
    refused = launched(data, tmp_path / "refused", "--batch", "15")
    _, messages = refused.communicate(timeout=300)
    assert refused.returncode == 2
    assert messages.count("14 or 16") == 1
    assert "Traceback" not in messages
    stopped = launched(data, tmp_path / "runs", "--epochs", "200", "--val-every", "200")
    updates = tmp_path / "runs" / "exp" / "updates.csv"
    deadline_s = time.monotonic() + 300
    while time.monotonic() < deadline_s and not updates.exists():
        time.sleep(0.05)
    stopped.send_signal(signal.SIGTERM)
    _, messages = stopped.communicate(timeout=300)
    assert stopped.returncode == 143, messages
    assert messages.count("the state is in") == 1
