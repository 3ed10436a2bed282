"""`status` of the folder of a comparison, and of what is none."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from run_folders import comparison

from yolo_accum.cli.main import main

ENDED = {"state": "finished"}


def write(folder: Path, **changes: Any) -> dict[str, Any]:
    """A comparison of two arms with two seeds whose runs have all ended."""
    content = {**comparison(folder, ["large", "small"], seeds=2), **changes}
    for arm in content["arms"]:
        for run in arm["runs"]:
            (folder / run["folder"] / "status.json").write_text(json.dumps(ENDED))
    (folder / "compare.json").write_text(json.dumps(content))
    return content


def status(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capfd.readouterr()
    assert main(["status", *words, "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def test_a_finished_comparison(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    found = status(capfd, str(tmp_path))

    assert (found["state"], found["counts"], found["reference"]) == ("finished", {"finished": 4}, "large")
    assert found["images"] == 4 * 3 * 256 and found["verdict"].endswith("equal within 0.01 AP.")
    assert [(run["arm"], run["seed"]) for run in found["runs"]][:3] == [("large", 0), ("large", 1), ("small", 0)]
    assert found["runs"][0]["images_done"] == 3 * 256 and found["runs"][0]["epochs_done"] == 3


def test_one_with_runs_that_are_missing_and_failed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content = write(tmp_path, finished=False)
    large, small = (arm["runs"] for arm in content["arms"])
    large[1] |= {"status": "missing", "folder": "large/seed7"}
    small[0] |= {"status": "failed", "message": "the disk is full"}
    (tmp_path / "compare.json").write_text(json.dumps(content))

    found = status(capfd, str(tmp_path))
    assert found["state"] == "interrupted" and found["counts"] == {"finished": 2, "waiting": 1, "failed": 1}
    assert found["images_done"] == 3 * 3 * 256

    assert main(["status", str(tmp_path)]) == 0
    said = capfd.readouterr().out
    assert f"yolo-accum compare --resume {tmp_path}" in " ".join(said.split())
    assert "warning: small, seed 0: failed: the disk is full" in said


def test_somebody_who_holds_its_lock_works_in_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, finished=False)
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert status(capfd, str(tmp_path))["state"] == "running"
    assert status(capfd, str(tmp_path))["state"] == "interrupted"


def test_one_whose_runs_failed_says_how_many(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content = write(tmp_path, ok=False)
    content["arms"][0]["runs"][0] |= {"status": "failed", "message": "the disk is full"}
    (tmp_path / "compare.json").write_text(json.dumps(content))

    assert status(capfd, str(tmp_path))["reason"] == "1 of 4 runs failed"


def test_it_stands_beside_other_folders(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "empty").mkdir()
    write(tmp_path / "one")

    found = status(capfd, str(tmp_path / "one"), str(tmp_path / "empty"))
    assert [item["state"] for item in found["comparisons"]] == ["finished"]
    assert found["no_runs"] == [str(tmp_path / "empty")] and found["runs"] == []


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"arms": [{}], "finished": 1}', "[" * 100_000])
def test_a_file_that_no_comparison_wrote_is_named(text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "compare.json").write_text(text)

    assert main(["status", str(tmp_path)]) == 2
    assert f"{tmp_path / 'compare.json'}: not a file that `yolo-accum compare` has written" in capfd.readouterr().err


def test_a_file_is_no_folder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "updates.csv").write_text("")

    assert main(["status", str(tmp_path / "updates.csv")]) == 2
    assert "updates.csv: a file; the folder of a run is needed" in capfd.readouterr().err
