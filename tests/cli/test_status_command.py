"""`status` on runs that train, that ended, that were killed, and on folders that are none."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from small_data import write_data

from yolo_accum.cli.main import main

WORDS = ["--imgsz", "64", "--batch", "2", "--nbs", "4", "--workers", "0", "--amp", "off", "--no-plots", "--threads"]
WORDS += ["1", "--warmup-epochs", "0"]

PATIENCE_S = 300
"""Generous, as the machine may be busy."""


def status(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capfd.readouterr()
    assert main(["status", *words, "--json"]) == 0
    return json.loads(capfd.readouterr().out)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.mark.slow
def test_a_run_is_followed_from_its_start_to_its_end(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "yolo_accum", "train", "--data", str(data), *WORDS, "--epochs", "400"]
    process = subprocess.Popen(
        [*command, "--project", str(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    folder = tmp_path / "exp"
    deadline_s = time.monotonic() + PATIENCE_S
    while not (folder / "epochs.csv").exists():
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.1)

    running = status(capfd, str(folder))
    assert running["state"] == "running" and f"process {process.pid} on" in running["reason"]
    assert running["progress"]["micro_batches"] == 2400 and running["progress"]["epochs"] == 400
    assert 0 < running["progress"]["share"] < 1 and running["eta_s"] > 0
    assert running["counters"]["updates_applied"] >= 3 and running["best"]["AP"] >= 0
    assert main(["status", str(folder)]) == 0
    text = capfd.readouterr().out
    assert "running: process" in text and "ETA" in text and "to go on" not in text

    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == 130
    interrupted = status(capfd, str(folder))
    assert interrupted["state"] == "interrupted" and interrupted["reason"].startswith("stopped after update")
    assert interrupted["eta_s"] is None

    resumed = subprocess.Popen(
        [sys.executable, "-m", "yolo_accum", "train", "--resume", str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline_s = time.monotonic() + PATIENCE_S
    while status(capfd, str(folder))["state"] != "running":
        assert resumed.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.1)
    resumed.kill()
    resumed.wait()
    assert status(capfd, str(folder))["state"] == "killed"
    assert main(["status", str(folder)]) == 0
    assert f"yolo-accum train --resume {folder}" in " ".join(capfd.readouterr().out.split())


def test_runs_of_a_folder_are_listed(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--data", str(data), *WORDS, "--epochs", "1", "--project", str(tmp_path / "runs")]) == 0
    (tmp_path / "empty").mkdir()

    listed = status(capfd, str(tmp_path / "runs"), str(tmp_path / "empty"))
    (run,) = listed["runs"]
    assert (run["state"], run["progress"]["share"], run["progress"]["epochs_done"]) == ("finished", 1.0, 1)
    assert listed["no_runs"] == [str(tmp_path / "empty")]
    assert main(["status", str(tmp_path / "runs"), str(tmp_path / "empty")]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert any("finished" in line and "1/1" in line and "100%" in line for line in lines)
    assert f"{tmp_path / 'empty'} is no run folder, and no run lies below it" in lines


@pytest.mark.parametrize(("make", "sentence"), [(False, ": no such folder"), (True, " is no run folder, and no run")])
def test_a_folder_that_is_no_run_is_bad_input(
    make: bool, sentence: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "pictures"
    if make:
        folder.mkdir()
    assert main(["status", str(folder)]) == 2
    assert capfd.readouterr().err.startswith(f"error: {folder}{sentence}")


def test_nothing_heavy_is_loaded() -> None:
    code = "import sys, yolo_accum.cli.status; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
