"""Runs that cannot be resumed: somebody still trains in their folder, or nothing was saved there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from yolo_accum.cli.training.starting import find_start
from yolo_accum.config.arguments import parse_train
from yolo_accum.errors import UserError
from yolo_accum.report.life_sign import this_process

CODE = """
import json, sys
from yolo_accum.report.life_sign import this_process
print(json.dumps(this_process()), flush=True)
sys.stdin.read()
"""


def started(folder: Path, process: object) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "status.json").write_text(json.dumps({"state": "running", "process": process}))
    return folder


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        find_start(parse_train(["--resume", str(folder)]))
    return str(caught.value)


def test_a_run_that_is_still_trained_is_not_resumed(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    folder = started(tmp_path / "exp", json.loads(other.stdout.readline()))
    assert f"this run is still running, process {other.pid} on " in refusal(folder)

    other.communicate("")
    assert "last.pt" in refusal(folder)  # it is gone: what is missing now is the checkpoint


@pytest.mark.parametrize("process", [None, 5, {}, {"pid": "x"}, {"pid": os.getpid(), "host": "another machine"}])
def test_what_cannot_be_told_stops_nobody(process: object, tmp_path: Path) -> None:
    assert "last.pt" in refusal(started(tmp_path / "exp", process))


def test_the_own_process_may_go_on_with_its_run(tmp_path: Path) -> None:
    assert "last.pt" in refusal(started(tmp_path / "exp", this_process()))


def test_a_run_that_has_saved_nothing_can_begin_anew(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("epochs: 3\n")

    said = refusal(tmp_path)
    assert "this run has saved nothing yet" in said
    assert said.endswith(f"yolo-accum train --recipe {tmp_path / 'config.yaml'}")
