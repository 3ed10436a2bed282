"""`--cache` as a user types it: the same run with and without, what it says, what it refuses, what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_data import write_data

from yolo_accum.cli.main import main

COMMON = "train --epochs 1 --imgsz 64 --batch 2 --nbs 4 --warmup-epochs 0 --plots false --threads 1 --amp off --json"


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("YOLO_ACCUM_CACHE", str(tmp_path / "cache"))
    data = write_data(tmp_path / "data")
    return [*COMMON.split(), "--data", str(data), "--project", str(tmp_path / "runs")]


def losses(capsys: pytest.CaptureFixture[str], words: list[str]) -> tuple[str, str]:
    """The record of the updates without their speeds, and what was said."""
    assert main(words) == 0
    out, err = capsys.readouterr()
    rows = Path(json.loads(out)["files"]["updates"]).read_text().splitlines()
    columns = rows[0].split(",")
    keep = [place for place, name in enumerate(columns) if name not in ("images_per_s", "peak_memory_mib")]
    return "\n".join(",".join(row.split(",")[place] for place in keep) for row in rows), err


def test_a_run_is_the_same_with_every_cache(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, said = losses(capsys, [*words, "--workers", "0"])
    assert "--cache" not in said
    for cache, workers in (("ram", "0"), ("ram", "1"), ("disk", "0"), ("disk", "1")):
        cached, said = losses(capsys, [*words, "--cache", cache, "--workers", workers])
        assert cached == plain
        assert f"--cache {cache}: " in said and "KiB" in said
    kept = list((tmp_path / "cache" / "pictures").glob("*.pictures"))
    assert len(kept) == 1, "the second run takes the file of the first one"
    assert not any("cache" in str(path) for path in (tmp_path / "data").rglob("*"))


def test_cache_dir_says_where(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses(capsys, [*words, "--workers", "0", "--cache", "disk", "--cache-dir", str(tmp_path / "here")])
    assert list((tmp_path / "here").glob("*.pictures")) and not (tmp_path / "cache" / "pictures").exists()


@pytest.mark.parametrize("cache", ["ram", "disk"])
def test_what_does_not_fit_is_refused_with_the_numbers(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], cache: str
) -> None:
    assert main([*words, "--cache", cache, "--cache-limit", "1KiB"]) == 2
    said = capsys.readouterr().err
    for piece in (f"--cache {cache}", "pictures at 64 px need", "--cache-limit 1KiB allows 1 KiB", "--imgsz"):
        assert piece in said
    assert not (tmp_path / "runs").exists()
    assert not list((tmp_path / "cache").rglob("*.pictures"))


@pytest.mark.parametrize(
    ("options", "pieces"),
    [
        (["--cache", "flash"], ["--cache flash", "ram", "disk"]),
        (["--cache", "ram", "--cache-limit", "much"], ["--cache-limit much", "8GiB"]),
        (["--cache", "disk", "--cache-dir", "/dev/null/x"], ["--cache disk", "/dev/null/x"]),
    ],
)
def test_bad_values(
    words: list[str], capsys: pytest.CaptureFixture[str], options: list[str], pieces: list[str]
) -> None:
    assert main([*words, *options]) == 2
    said = capsys.readouterr().err
    assert all(piece in said for piece in pieces) and "Traceback" not in said


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux")
def test_two_replicas_share_one_cache_in_memory(words: list[str]) -> None:
    command = [sys.executable, "-m", "yolo_accum", *words, "--cache", "ram", "--device", "cpu,cpu", "--workers", "0"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stderr.count("--cache ram: ") == 1
