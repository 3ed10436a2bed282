"""`train` end to end on a small data set: files, counts, resuming, bad input."""

from __future__ import annotations

import csv
import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from small_data import write_data
from train_command import SMALL, Train, train_command

from yolo_accum.cli.main import main


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def train(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Train:
    return train_command(data, tmp_path / "runs", capfd)


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def weights(path: str) -> dict[str, torch.Tensor]:
    return torch.load(path, weights_only=True)["live"]


def assert_equal(one: dict[str, Any], two: dict[str, Any]) -> None:
    """Two runs ended with the same weights, bit for bit."""
    first, second = weights(one["files"]["last"]), weights(two["files"]["last"])
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_result_files_and_counts(train: Train) -> None:
    result = train("--epochs", "3", "--warmup-epochs", "1")
    updates, epochs = rows(result["files"]["updates"]), rows(result["files"]["epochs"])
    assert result["counters"]["images_seen"] == 3 * 11
    assert sum(int(row["images"]) for row in updates) == 3 * 11
    for epoch in epochs:
        assert int(epoch["images"]) == int(epoch["distinct_images"]) == 11
        in_updates = sum(int(row["images"]) for row in updates if row["epoch"] == epoch["epoch"])
        assert in_updates == 11
    for before, after in itertools.pairwise(updates):
        assert int(after["first_micro_batch"]) == int(before["last_micro_batch"]) + 1
        assert int(after["images_seen"]) == int(before["images_seen"]) + int(after["images"])
    for row in updates:
        expected = float(row["provisional"]) * int(row["images"]) / (4 * max(float(row["denominator"]), 1.0))
        assert float(row["factor"]) == pytest.approx(expected, rel=1e-12)
    assert len(epochs) == 3
    assert set(result["best"]) >= {"AP", "AP50", "per_class", "epoch"}
    assert [item["id"] for item in result["best"]["per_class"]] == [3, 7, 90]


@pytest.mark.parametrize("tail", ["carry", "drop"])
def test_tails_account_for_every_image(train: Train, tail: str) -> None:
    result = train("--epochs", "2", "--warmup-epochs", "0", "--tail", tail)
    # 11 images are 6 micro-batches of 2, 2, 2, 2, 2, 1: windows of 2 leave nothing over; 3 an epoch
    assert result["counters"]["updates_applied"] == 6
    result = train("--epochs", "2", "--warmup-epochs", "0", "--tail", tail, "--nbs", "8")
    # windows of 4: one full window an epoch and 3 images over
    counters = result["counters"]
    if tail == "drop":
        assert (counters["images_seen"], counters["images_dropped"], counters["updates_applied"]) == (16, 6, 2)
    else:
        assert (counters["images_seen"], counters["images_dropped"], counters["updates_applied"]) == (22, 0, 3)


def test_ending_early_for_lack_of_patience(train: Train) -> None:
    result = train("--epochs", "6", "--patience", "1", "--lr0", "1e-9")
    assert result["stopped_early"]
    assert result["epochs"] < 6


def test_a_run_folder_is_never_overwritten(train: Train) -> None:
    first, second = train("--epochs", "1"), train("--epochs", "1")
    assert first["run"] != second["run"]
    assert rows(first["files"]["updates"])


def test_same_seed_same_weights_whatever_the_workers(train: Train) -> None:
    one = train("--epochs", "2")
    two = train("--epochs", "2", "--workers", "2")
    other = train("--epochs", "2", "--seed", "1")
    assert_equal(one, two)
    with pytest.raises(AssertionError):
        assert_equal(one, other)


def start(data: Path, project: Path, *words: str) -> subprocess.Popen[bytes]:
    """A training process of its own."""
    command = [sys.executable, "-m", "yolo_accum", "train", "--data", str(data), *SMALL, "--project", str(project)]
    return subprocess.Popen([*command, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)


def wait_for_row(path: Path, updates: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until ``updates.csv`` has so many rows."""
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s and process.poll() is None:
        if path.exists() and path.read_text().count("\n") > updates:
            return
        time.sleep(0.01)
    raise AssertionError(f"no {updates} updates before the process ended or time ran out")


@pytest.mark.slow
@pytest.mark.parametrize(("signal_number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_interrupted_and_resumed_run_ends_with_the_same_weights(
    train: Train, data: Path, tmp_path: Path, signal_number: int, code: int
) -> None:
    options = ["--epochs", "4", "--tail", "carry", "--nbs", "6", "--warmup-epochs", "1"]
    whole = train(*options)
    process = start(data, tmp_path / "cut", *options, "--save-minutes", "0")
    folder = tmp_path / "cut" / "exp"
    wait_for_row(folder / "updates.csv", 5, process)
    process.send_signal(signal_number)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == code, messages.decode()
    if signal_number != signal.SIGKILL:
        assert str(folder / "weights" / "last.pt") in messages.decode()
    assert (
        0
        < torch.load(folder / "weights" / "last.pt")["clock"]["updates_applied"]
        < whole["counters"]["updates_applied"]
    )
    resumed = train("--resume", str(folder))
    assert resumed["counters"] == whole["counters"]
    assert_equal(whole, resumed)
    timeless = {"images_per_s", "peak_memory_mib"}
    one, two = rows(whole["files"]["updates"]), rows(resumed["files"]["updates"])
    assert [{k: v for k, v in row.items() if k not in timeless} for row in one] == [
        {k: v for k, v in row.items() if k not in timeless} for row in two
    ]


@pytest.mark.slow
def test_resume_with_another_batch_keeps_the_images_per_update(train: Train, data: Path, tmp_path: Path) -> None:
    process = start(data, tmp_path / "cut", "--epochs", "3", "--save-minutes", "0", "--nbs", "4")
    folder = tmp_path / "cut" / "exp"
    wait_for_row(folder / "updates.csv", 3, process)
    process.kill()
    process.communicate()
    done = torch.load(folder / "weights" / "last.pt")["clock"]
    resumed = train("--resume", str(folder), "--batch", "1")
    updates = rows(resumed["files"]["updates"])
    assert resumed["counters"]["images_seen"] == 33
    assert int(updates[done["updates_attempted"]]["update"]) == done["updates_attempted"] + 1
    assert max(int(row["images"]) for row in updates[done["updates_attempted"] :]) == 4


def test_a_finished_run_names_the_way_to_go_on(train: Train) -> None:
    done = train("--epochs", "1")
    message = train("--resume", done["run"], code=2)["message"]
    assert "finished after 1 epochs" in message
    assert "--weights" in message
    assert "--epochs cannot be changed" in train("--resume", done["run"], "--epochs", "9", code=2)["message"]


def test_weights_of_a_run_start_another_one(train: Train) -> None:
    done = train("--epochs", "1")
    again = train("--epochs", "1", "--weights", done["files"]["best"], "--freeze", "backbone.backbone")
    before, after = weights(done["files"]["last"]), weights(again["files"]["last"])
    frozen = "backbone.backbone.dark2.1.conv1.conv.weight"
    best = torch.load(done["files"]["best"], weights_only=True)["model"]
    assert torch.equal(best[frozen], after[frozen])
    assert not torch.equal(before["head.cls_preds.0.weight"], after["head.cls_preds.0.weight"])


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        (["--batch", "0"], ["--batch 0"]),
        (["--nbs", "-1"], ["--nbs -1"]),
        (["--nbs", "2.5"], ["--nbs 2.5"]),
        (["--epoch", "3"], ["--epoch", "--epochs"]),
        (["--weights", "missing.pth"], ["missing.pth"]),
        (["--imgsz", "100"], ["--imgsz 100", "32"]),
        (["--freeze", "backbon"], ["--freeze backbon"]),
        (["--model", "yolox_nan"], ["yolox_nan", "yolox_nano"]),
        (["--device", "7"], ["--device 7"]),
        (["--tail", "drop", "--nbs", "640"], ["--tail drop"]),
    ],
)
def test_bad_options_are_named_before_anything_is_made(
    train: Train, tmp_path: Path, words: list[str], pieces: list[str]
) -> None:
    message = train(*words, code=2)["message"]
    for piece in pieces:
        assert piece in message
    assert "Traceback" not in message
    assert not (tmp_path / "runs").exists()


def test_a_loss_that_stays_nan_ends_the_run_and_names_images(
    train: Train, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from yolo_accum.engine.update import Stepper

    forward, calls = Stepper.forward, []

    def poisoned(self: Stepper, batch: Any) -> Any:
        calls.append(1)
        sums = forward(self, batch)
        if len(calls) > 6:
            sums = type(sums)({name: term * float("nan") for name, term in sums.terms.items()}, sums.denominator)
        return sums

    monkeypatch.setattr(Stepper, "forward", poisoned)
    message = train("--epochs", "4", "--max-skipped", "3", "--warmup-epochs", "0", code=3)["message"]
    assert "3 updates in a row were refused" in message
    assert "train_0" in message
    last = torch.load(tmp_path / "runs" / "exp" / "weights" / "last.pt", weights_only=True)
    assert all(value.isfinite().all() for value in last["live"].values())


def test_patience_counts_evaluations(train: Train) -> None:
    """An end before the first evaluation would leave no best weights."""
    result = train("--epochs", "6", "--patience", "1", "--val-every", "3")
    assert result["epochs"] in (3, 6)
    assert "AP" in result["best"]


def test_without_objects_to_validate_on_the_last_epoch_is_the_best(train: Train, data: Path, tmp_path: Path) -> None:
    content = json.loads((data.parent / "val.json").read_text())
    content["annotations"] = []
    (tmp_path / "empty.json").write_text(json.dumps(content))
    words = ["--data", str(data.parent / "train.json"), "--val-data", str(tmp_path / "empty.json")]
    result = train(*words, "--images", str(data.parent / "images"), "--epochs", "2", "--patience", "1")
    assert (result["epochs"], result["best"]["epoch"], result["best"]["AP"]) == (2, 2, None)


def test_a_run_without_one_applied_update_has_failed(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    from yolo_accum.engine.update import Stepper

    apply = Stepper.apply
    monkeypatch.setattr(Stepper, "apply", lambda self, factor, **_: apply(self, factor, finite=False))
    message = train("--epochs", "1", "--warmup-epochs", "0", code=3)["message"]
    assert "not one of 3 updates was applied" in message


def test_validation_pictures_that_vanish_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from yolo_accum.cli.training.run import TrainingRun

    data = write_data(tmp_path / "vanishing")
    carry_out = TrainingRun.carry_out

    def without_pictures(run: Any) -> Any:
        for path in (data.parent / "images").glob("val_*.png"):
            path.write_bytes(b"gone")
        return carry_out(run)

    monkeypatch.setattr(TrainingRun, "carry_out", without_pictures)
    argv = ["train", "--data", str(data), *SMALL, "--project", str(tmp_path / "runs"), "--epochs", "1"]
    assert main(argv) == 0
    output = capfd.readouterr().out
    warnings = [line for line in output.splitlines() if line.startswith("warning: ") and "grey picture" in line]
    assert [sum(f"val_{number:03d}.png" in line for line in warnings) for number in range(4)] == [1, 1, 1, 1]


def test_what_is_missing_after_training_is_made_up_for(
    train: Train, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from yolo_accum.cli.training.run import TrainingRun

    def interrupted(run: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingRun, "_evaluate_best", interrupted)
    train("--epochs", "1", code=130)
    monkeypatch.undo()
    result = train("--resume", str(tmp_path / "runs" / "exp"))
    assert result["counters"]["images_seen"] == 11
    assert Path(result["files"]["card"]).is_file()


def test_a_run_that_cannot_go_on_is_refused_before_its_folder_is_touched(train: Train) -> None:
    done = train("--epochs", "1")
    folder = Path(done["run"])
    (folder / "run_card.json").unlink()  # as after a kill at the very end
    updates, last = folder / "updates.csv", folder / "weights" / "last.pt"
    with updates.open("a") as file:
        file.write("garbage\n")
    with (folder / "config.yaml").open("a") as file:
        file.write("# a note\n")
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert "updates.csv, line" in train("--resume", done["run"], code=2)["message"]

    content = torch.load(last)
    for change, piece in (
        ({"progress": None}, "its progress is None"),
        ({"clock": {"strange": 1}}, "its state does not fit this run"),
        ({"optimizer": {}}, "its state does not fit this run"),
    ):
        torch.save({**content, **change}, last)
        message = train("--resume", done["run"], code=2)["message"]
        assert "last.pt is damaged" in message and piece in message
    last.write_bytes(files[last])
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files

    updates.rename(folder / "elsewhere.csv")
    assert train("--resume", done["run"])["counters"] == done["counters"]


def test_other_images_cannot_go_on_with_a_run(train: Train, data: Path, tmp_path: Path) -> None:
    process = start(data, tmp_path / "cut", "--epochs", "9", "--save-minutes", "0")
    folder = tmp_path / "cut" / "exp"
    wait_for_row(folder / "updates.csv", 2, process)
    process.kill()
    process.communicate()
    other = json.loads((data.parent / "train.json").read_text())
    other["images"].reverse()
    (data.parent / "reversed.json").write_text(json.dumps(other))
    words = ["--data", str(data.parent / "reversed.json"), "--val-data", str(data.parent / "val.json")]
    message = train("--resume", str(folder), *words, code=2)["message"]
    assert "reversed.json" in message
    assert "another order" in message


def test_no_one_reading_or_no_output_at_all_does_not_end_a_run(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "yolo_accum", "train", "--data", str(data), *SMALL, "--epochs", "1"]
    for number, redirection in enumerate(("| head -1", ">&- 2>&-")):
        project = tmp_path / f"runs{number}"
        line = " ".join([*command, "--project", str(project), redirection])
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (redirection, done.stderr)
        assert "Traceback" not in done.stderr
        assert (project / "exp" / "run_card.json").is_file()
