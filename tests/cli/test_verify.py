"""`verify` end to end on a small data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_data import write_data

from yolo_accum.cli.main import main

WORDS = ["--imgsz", "64", "--nbs", "8", "--micro-batches", "4,2", "--threads", "1"]


def verify(folder: Path, capfd: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    data = write_data(folder / "data")
    argv = ["verify", "--data", str(data), *WORDS, "--project", str(folder / "runs"), "--json", *words]
    assert main(argv) == code, capfd.readouterr().err
    return json.loads(capfd.readouterr().out)


def test_all_norms_on_a_small_window(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    result = verify(tmp_path, capfd)

    assert result["ok"] is True
    assert [check["holds"] for check in result["checks"]] == [True] * 5  # checkpointing; gn and frozen, cut twice
    found = {(item["label"], item["micro_batch"]): item for item in result["comparisons"]}
    norms = ["bn", "cmbn", "wrn", "gn", "frozen", "frozen, mean of means", "bn, mean of means"]
    assert sorted(found) == sorted((norm, size) for norm in norms for size in (2, 4))
    for norm in ("gn", "frozen"):
        assert found[norm, 2]["overall"]["cosine"] == pytest.approx(1, abs=1e-6)
        assert found[norm, 2]["overall"]["norm_ratio"] == pytest.approx(1, abs=1e-3)
    assert found["frozen, mean of means", 2]["overall"]["relative_difference"] > 1e-2
    assert found["bn", 2]["overall"]["relative_difference"] > 1e-2
    assert list(found["bn", 2]["parts"]) == [
        *("stem", "dark2", "dark3", "dark4", "dark5", "neck"),
        *(f"head stride {stride}" for stride in (8, 16, 32)),
    ]
    assert {item["norm"] for item in result["large_batches"]} == {"bn", "gn", "frozen"}
    assert json.loads(Path(result["files"]["verify"]).read_text())["comparisons"] == result["comparisons"]
    assert Path(result["files"]["picture"]).stat().st_size > 10_000


def test_the_large_batch_may_be_checkpointed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--norms", "frozen", "--micro-batches", "3", "--large-batch", "checkpointed", "--no-plots"]

    result = verify(tmp_path, capfd, *words)

    assert result["ok"] and result["settings"]["large_batch"] == "checkpointed activations"
    assert {item["micro_batch"] for item in result["comparisons"]} == {3}  # the last one has two images


def test_what_is_not_exact_is_a_failed_check(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yolo_accum.cli.verify_runs.LIMIT_FLOAT32", -1.0)
    monkeypatch.setattr("yolo_accum.cli.verify_runs.LIMIT_FLOAT64", -1.0)

    result = verify(tmp_path, capfd, "--norms", "frozen", "--micro-batches", "4", "--no-plots", code=1)

    assert result["ok"] is False
    assert {check["dtype"] for check in result["checks"]} == {"float32", "float64"}
    assert all(abs(check["relative_difference"]) < 1e-5 for check in result["checks"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--micro-batches", "2,x"], "--micro-batches 2,x: whole numbers"),
        (["--norms", "bn,ln"], "--norms bn,ln: some of bn, cmbn, wrn, gn, frozen"),
        (["--micro-batches", "8"], "each must be smaller than --nbs 8"),
    ],
)
def test_wrong_options_are_named(
    words: list[str], sentence: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = write_data(tmp_path / "data")

    assert main(["verify", "--data", str(data), *WORDS, "--project", str(tmp_path / "runs"), *words]) == 2
    assert sentence in capfd.readouterr().err
    assert not (tmp_path / "runs").exists()
