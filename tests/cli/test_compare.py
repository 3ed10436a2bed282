"""`compare` end to end on a small data set: what it finds, an arm that fails, interruptions."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_data import write_data

from yolo_accum.cli.comparison.child import follow
from yolo_accum.cli.comparison.memory import choose_activations
from yolo_accum.cli.comparison.runs import Runs
from yolo_accum.cli.comparison.setup import moments_of
from yolo_accum.cli.main import main
from yolo_accum.engine.gradient_files import read_gradient
from yolo_accum.engine.plan import Plan

WORDS = ["--imgsz", "64", "--batch", "1", "--nbs", "2", "--epochs", "2", "--warmup-epochs", "1", "--norm", "gn"]
WORDS += ["--workers", "0", "--threads", "1", "--no-verify"]
WILD = ["--arms", "name=wild,lr0=1e30,max_skipped=1"]
"""An arm whose weights do not stay finite."""
TIMES = {"images_per_s", "peak_memory_mib", "wall_s", "train_s", "val_s", "peaks"}
"""What differs from one comparison to the next."""
TIME_LIMIT_S = 600


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"), num_train=7, num_val=3)


@pytest.fixture(scope="module")
def folder(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a comparison from its start to its end in one go."""
    project = tmp_path_factory.mktemp("compare")
    assert main(["compare", "--data", str(data), *WORDS, *WILD, "--project", str(project)]) == 1  # one arm fails
    return project / "exp"


def result(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "compare.json").read_text())


def by_name(entries: list[dict[str, Any]], key: str = "name") -> dict[str, dict[str, Any]]:
    return {entry[key]: entry for entry in entries}


def test_every_arm_follows_the_same_windows(folder: Path) -> None:
    found = result(folder)
    arms = by_name(found["arms"])

    assert list(arms) == ["accumulation", "large", "wild"] and found["reference"] == "large"
    assert all(arm["same_windows"] for arm in arms.values())
    assert (arms["accumulation"]["label"], arms["large"]["label"]) == ("1 x 2, gn", "2 x 1, gn")
    rows = {}
    for name in ("accumulation", "large"):
        with (folder / name / "seed0" / "updates.csv").open(newline="") as file:
            rows[name] = list(csv.DictReader(file))
    same = (
        "images",
        "objects",
        "denominator",
        "images_seen",
        "lr_decay",
        "weight_decay_decay",
        "momentum",
        "ema_decay",
    )
    for column in same:
        assert [row[column] for row in rows["accumulation"]] == [row[column] for row in rows["large"]], column
    assert [row["images"] for row in rows["large"]] == ["1", "1", "1", "1", "2", "1", "2", "2", "2", "1"]
    large = [int(row["last_micro_batch"]) - int(row["first_micro_batch"]) + 1 for row in rows["large"]]
    assert large == [1] * 10


def test_without_batch_statistics_the_arms_agree_to_rounding(folder: Path) -> None:
    entry = by_name(result(folder)["comparisons"], "arm")["accumulation"]

    assert entry["loss"]["num_updates"] == 10 and entry["loss"]["largest"] < 1e-2
    assert entry["loss"]["by_seed"][0]["relative_differences"][0] < 1e-5
    assert [item["moment"] for item in entry["gradients"]] == ["first", "middle", "after warm-up", "last"]
    first = entry["gradients"][0]
    assert first["overall"]["cosine"] == pytest.approx(1, abs=1e-6)
    assert first["overall"]["norm_ratio"] == pytest.approx(1, abs=1e-4)
    assert first["parts"]["stem"]["norm"] == pytest.approx(first["parts"]["stem"]["reference_norm"], rel=1e-3)
    assert read_gradient(folder / "large" / "seed0", 1) is not None
    # so few updates teach nothing, and two arms that know nothing are not called equal
    assert entry["verdict"]["kind"] == "nothing learned"
    assert abs(entry["differences"]["AP"]["mean"]) < 0.05 and entry["differences"]["AP"]["low"] is None


def test_an_arm_that_fails_is_recorded_with_its_message(folder: Path) -> None:
    found = result(folder)
    wild = by_name(found["arms"])["wild"]["runs"][0]

    assert found["ok"] is False and found["finished"] is True
    assert {(folder / name).is_file() for name in found["files"].values()} == {True}
    assert wild["status"] == "failed" and "refused" in wild["message"]
    assert by_name(found["comparisons"], "arm")["wild"]["verdict"]["kind"] == "no runs"
    with (folder / "compare.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["arm"], row["status"]) for row in rows] == [
        ("accumulation", "finished"),
        ("large", "finished"),
        ("wild", "failed"),
    ]
    assert float(rows[0]["AP"]) == by_name(found["arms"])["accumulation"]["runs"][0]["metrics"]["AP"]


def test_a_run_is_a_run_folder_with_its_records(folder: Path) -> None:
    run = by_name(result(folder)["arms"])["large"]["runs"][0]

    assert (run["folder"], run["updates_csv"]) == ("large/seed0", "large/seed0/updates.csv")
    assert run["epochs"]["epoch"] == [0, 1] and run["epochs"]["images"] == [7, 7]
    assert run["updates"] == {"attempted": 10, "applied": 10, "skipped": 0} and run["images_seen"] == 14
    assert run["metrics"]["AP"] == json.loads((folder / "large/seed0/metrics.json").read_text())["AP"]
    assert run["run_card"]["settings"]["window (K)"].startswith("1 micro-batch an update, those of micro-batches of 1")
    assert run["wall_s"] > 0 and run["images_per_s"] > 0 and run["peak_memory_mib"] > 100


@pytest.mark.slow
def test_killed_and_started_again_the_report_is_the_same(
    folder: Path, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", "--data", str(data), *WORDS, "--project", str(tmp_path)]
    mine = tmp_path / "exp"
    killed = subprocess.Popen([sys.executable, "-m", "yolo_accum", *words], stdout=subprocess.DEVNULL)
    deadline_s = time.monotonic() + TIME_LIMIT_S
    while not (mine / "accumulation/seed0/weights/last.pt").exists():
        assert killed.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    capfd.readouterr()

    assert main([*words, "--json"]) == 0  # waits for the run that was left alone to save and end

    output = capfd.readouterr()
    assert f"going on with {mine}" in output.err and [path.name for path in tmp_path.iterdir()] == ["exp"]
    again, once = without_times(result(mine), mine), without_times(result(folder), folder)
    assert again["arms"] == once["arms"][:2] and again["comparisons"] == once["comparisons"][:1]
    assert without_times(json.loads(output.out), mine)["arms"] == again["arms"]


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_an_interrupted_comparison_says_how_to_go_on(
    error: BaseException,
    code: int,
    data: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(runs: Runs, wait: Callable[[], None]) -> None:
        raise error

    monkeypatch.setattr(Runs, "carry_out", interrupted)

    assert main(["compare", "--data", str(data), *WORDS, "--project", str(tmp_path)]) == code
    assert f"to go on: yolo-accum compare --resume {tmp_path / 'exp'}" in capfd.readouterr().err
    found = result(tmp_path / "exp")
    assert found["finished"] is False
    assert [run["status"] for arm in found["arms"] for run in arm["runs"]] == ["missing", "missing"]


def test_a_run_that_loses_its_comparison_asks_itself_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: asked.append((pid, number)))

    follow(os.getppid() + 1)

    assert asked == [(os.getpid(), signal.SIGTERM)]


def without_times(content: dict[str, Any], folder: Path) -> Any:
    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: stripped(item) for key, item in value.items() if key not in TIMES}
        return [stripped(item) for item in value] if isinstance(value, list) else value

    text = json.dumps(content).replace(str(folder), "FOLDER").replace(str(folder.parent), "PROJECT")
    return stripped(json.loads(text))


def test_a_comparison_that_cannot_go_on_is_refused(
    folder: Path, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "--resume", str(tmp_path)]) == 2
    assert "there is no comparison" in capfd.readouterr().err
    assert main(["compare", "--resume", str(folder), "--reference", "huge"]) == 2
    assert "there is no such arm" in capfd.readouterr().err
    (tmp_path / "compare.yaml").write_text("options: 3\n")
    assert main(["compare", "--resume", str(tmp_path)]) == 2
    assert "compare.yaml is damaged" in capfd.readouterr().err


def test_data_without_validation_cannot_be_compared(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = write_data(tmp_path)
    data.write_text("train: train.json\n")

    assert main(["compare", "--data", str(data), *WORDS, "--project", str(tmp_path / "runs")]) == 2
    assert "there is no validation split" in capfd.readouterr().err
    assert not (tmp_path / "runs").exists()


def memory(kept: int, checkpointed: int, free: int) -> dict[str, Any]:
    """Peaks of 1 and 2 images: 100 bytes for the program, and so much for each image."""
    measured = [
        {"checkpoint_activations": recompute, "images": images, "peak_bytes": 100 + images * each}
        for recompute, each in ((False, kept), (True, checkpointed))
        for images in (1, 2)
    ]
    return {"memory_bytes": free, "measured": measured}


def test_the_large_batch_is_checkpointed_where_it_would_not_fit() -> None:
    # 64 images: 6,500 bytes kept, 1,380 checkpointed; a tenth of what is free stays free
    assert choose_activations(memory(100, 20, 7300), 64, 1).note == ""
    tight = choose_activations(memory(100, 20, 7000), 64, 1)
    assert (tight.fits, tight.checkpointed) == (True, True) and "the same gradients" in tight.note
    shared = choose_activations(memory(100, 20, 7300), 64, 2)
    assert (shared.fits, shared.checkpointed) == (True, True)
    none = choose_activations(memory(100, 20, 1400), 64, 1)
    assert none.fits is False and "64 images in one go need about" in none.note


def test_moments_of_a_run() -> None:
    plan = Plan(num_images=64, epochs=4, batch=4, nbs=16, warmup_epochs=1, ramp=False)
    assert [(item.name, item.update) for item in moments_of(plan)] == [
        ("first", 1),
        ("after warm-up", 5),
        ("middle", 8),
        ("last", 16),
    ]
    short = Plan(num_images=4, epochs=1, batch=4, nbs=16)
    assert [(item.name, item.update) for item in moments_of(short)] == [("first", 1)]
