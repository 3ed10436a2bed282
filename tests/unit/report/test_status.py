"""Where a run is, from folders as runs leave them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from run_of_records import epoch_record, update_record

from yolo_accum.contracts import RunEnded, RunStarted
from yolo_accum.report.life_sign import SILENT_AFTER_S, is_alive, this_process
from yolo_accum.report.records import CsvRecords
from yolo_accum.report.status import find_runs, read_status
from yolo_accum.report.status_file import StatusFile

ELSEWHERE = {"pid": 1, "host": "another machine", "born": "never"}


def started(folder: Path) -> RunStarted:
    """Three epochs of 4 windows of 8 micro-batches, as `run_of_records` has them."""
    return RunStarted(folder=folder, num_epochs=3, num_micro_batches=96, start_micro_batch=0)


def a_run(folder: Path, updates: int = 0, epochs: int = 0, **changes: Any) -> Path:
    """A run folder with so many rows, whose status file is changed afterwards."""
    folder.mkdir(parents=True)
    status = StatusFile(heartbeat_s=1000)
    status.on_run_start(started(folder))
    records = CsvRecords(folder)
    for number in range(1, updates + 1):
        records.on_update(update_record(number))
    for number in range(epochs):
        records.on_epoch(epoch_record(number))
    path = folder / "status.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    status._over.set()
    return folder


def dead_process() -> dict[str, Any]:
    code = "from yolo_accum.report.life_sign import this_process; import json; print(json.dumps(this_process()))"
    return json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def test_a_running_run_shows_progress_and_time_left(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "exp", updates=6, epochs=1)
    begun = read_status(folder).started_at
    assert begun is not None
    status = read_status(folder, now=begun + 60)

    assert (status.state, status.doing) == ("running", "training")
    assert f"process {os.getpid()} on " in status.reason and status.reason.endswith("is there")
    assert (status.micro_batches_done, status.num_micro_batches) == (48, 96)
    assert (status.epochs_done, status.num_epochs) == (1, 3)
    assert status.eta_s == pytest.approx(60)  # half of it took a minute
    assert status.counters == {
        "images_seen": 384, "images_applied": 384, "images_dropped": 0, "updates_applied": 6, "updates_skipped": 0,
    }  # fmt: skip
    assert status.last_update["update"] == 6


def test_an_epoch_without_its_row_is_being_evaluated(tmp_path: Path) -> None:
    assert read_status(a_run(tmp_path / "exp", updates=8, epochs=1)).doing == "evaluation of epoch 2"


def test_after_the_last_update_the_best_weights_are_evaluated(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "exp", updates=12, epochs=3, doing="final evaluation and pictures")
    assert read_status(folder).doing == "final evaluation and pictures"


@pytest.mark.parametrize("outcome", ["finished", "interrupted", "failed"])
def test_how_it_ended_is_what_it_said(tmp_path: Path, outcome: str) -> None:
    folder = tmp_path / "exp"
    folder.mkdir()
    status_file = StatusFile()
    status_file.on_run_start(started(folder))
    status_file.on_training_end()
    ended = RunEnded(
        outcome=outcome,  # type: ignore[arg-type]
        message="" if outcome == "finished" else "the disk is full",
        best_epoch=1,
        best_metrics={"AP": 0.25},
    )
    status_file.on_run_end(ended)
    status = read_status(folder)

    assert (status.state, status.doing, status.eta_s) == (outcome, "", None)
    assert status.reason == ("it said so at its end" if outcome == "finished" else "the disk is full")
    assert status.best_metrics == {"AP": 0.25}


def test_a_process_that_is_gone_was_killed(tmp_path: Path) -> None:
    process = dead_process()
    status = read_status(a_run(tmp_path / "exp", updates=3, process=process))

    assert status.state == "killed"
    assert status.reason.startswith(f"process {process['pid']} on {process['host']} is gone without a last word")
    assert status.eta_s is None


def test_a_number_that_another_process_has_now_is_not_the_run(tmp_path: Path) -> None:
    assert is_alive(this_process())
    assert read_status(a_run(tmp_path / "exp", process={**this_process(), "born": "boot 12"})).state == "killed"


def test_a_dead_process_that_nobody_has_buried_is_dead() -> None:
    code = "from yolo_accum.report.life_sign import this_process; import json; print(json.dumps(this_process()))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    described = json.loads(process.stdout.read())
    time.sleep(0.5)  # it has ended, and is a zombie until it is waited for
    assert is_alive(described) is False
    process.wait()


@pytest.mark.parametrize(("silent_s", "state"), [(SILENT_AFTER_S - 30, "running"), (SILENT_AFTER_S + 30, "killed")])
def test_a_run_on_another_machine_is_known_by_its_signs_of_life(tmp_path: Path, silent_s: float, state: str) -> None:
    folder = a_run(tmp_path / "exp", updates=1, process=ELSEWHERE)
    touched = (folder / "status.json").stat().st_mtime
    status = read_status(folder, now=touched + silent_s)

    assert status.state == state
    assert f"{silent_s:.0f} s" in status.reason


def test_the_status_file_is_touched_while_the_run_lives(tmp_path: Path) -> None:
    status_file = StatusFile(heartbeat_s=0.02)
    status_file.on_run_start(started(tmp_path))
    path = tmp_path / "status.json"
    os.utime(path, (1, 1))
    deadline_s = time.monotonic() + 20
    while path.stat().st_mtime < 100 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert path.stat().st_mtime > 100
    status_file.on_run_end(RunEnded(outcome="finished"))


def test_an_older_run_without_a_status_file_is_known_by_its_card(tmp_path: Path) -> None:
    folder = tmp_path / "exp"
    (folder / "weights").mkdir(parents=True)
    (folder / "config.yaml").write_text("epochs: 3\n")
    assert (find_runs(tmp_path), read_status(folder).state) == ([folder], "unknown")
    (folder / "run_card.json").write_text("{}")
    assert read_status(folder).state == "finished"


@pytest.mark.parametrize(
    ("file", "content"),
    [("status.json", "{"), ("status.json", "[]"), ("updates.csv", "a,b\nx,1\n"), ("epochs.csv", "a\nx\n")],
)  # fmt: skip
def test_a_damaged_file_is_named_and_hides_nothing_else(tmp_path: Path, file: str, content: str) -> None:
    folder = a_run(tmp_path / "exp", updates=5, epochs=1)
    (folder / file).write_text(content)
    status = read_status(folder)

    assert [file in problem for problem in status.problems] == [True]
    assert status.state == ("unknown" if file == "status.json" else "running")
    assert file == "updates.csv" or status.last_update["update"] == 5
    assert file == "epochs.csv" or status.best_metrics == {} == status.best_metrics or status.best_metrics["AP"] > 0


def test_the_last_row_is_read_while_another_is_being_written(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "exp", updates=5)
    with (folder / "updates.csv").open("a") as file:
        file.write("6,1,")
    assert read_status(folder).last_update["update"] == 5


def test_runs_are_found_below_and_none_inside_a_run(tmp_path: Path) -> None:
    runs = [a_run(tmp_path / name) for name in ("train/exp", "train/exp2", "compare/large/seed0")]
    a_run(tmp_path / "train" / "exp" / "inside")
    (tmp_path / "val" / "exp").mkdir(parents=True)

    assert find_runs(tmp_path) == sorted(runs)
    assert find_runs(runs[0]) == [runs[0]]
    assert find_runs(tmp_path / "val") == []
