"""Augmentation and the choice of pictures from the command line: end to end, refused, failing in mid-run, resumed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch
from small_data import CATEGORY_IDS, NAMES, write_data
from train_command import Train, train_command

from yolo_accum.cli.main import main


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def train(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Train:
    return train_command(data, tmp_path / "runs", capfd, "--warmup-epochs", "0")


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def python_file(folder: Path, code: str) -> str:
    path = folder / "mine.py"
    path.write_text(f"import numpy as np\n{code}\n")
    return f"{path}:change"


def test_a_function_that_breaks_boxes_is_named_before_anything_is_made(train: Train, tmp_path: Path) -> None:
    place = python_file(tmp_path, "def change(image, boxes, labels, rng):\n    return image, boxes * np.nan, labels")
    message = train("--augmentations", place, "--workers", "0", code=2)["message"]
    last = message.strip().splitlines()[-1]
    assert last.startswith("error: --augmentations, picture ") and ".png: change returned a box" in last
    assert not (tmp_path / "runs").exists()


def test_a_function_with_chance_of_its_own_is_refused(train: Train, tmp_path: Path) -> None:
    code = "def change(image, boxes, labels, rng):\n    return image // np.random.randint(2, 200), boxes, labels"
    message = train("--augmentations", python_file(tmp_path, code), "--workers", "0", code=2)["message"]
    assert "comes out differently when it is made again" in message


def test_what_breaks_in_mid_run_ends_it_with_the_name_of_the_picture(train: Train, tmp_path: Path) -> None:
    """In a loader process, after the pictures that were tried: the 16 calls of these stay without fault."""
    code = (
        "calls = []\n"
        "def change(image, boxes, labels, rng):\n"
        "    calls.append(1)\n"
        "    return (image[:10] if len(calls) > 18 else image), boxes, labels"
    )
    words = ("--augmentations", python_file(tmp_path, code), "--workers", "1", "--epochs", "2")
    message = train(*words, code=3)["message"]
    last = message.strip().splitlines()[-1]
    assert ".png: change changed the picture from 64 x 64 px to 64 x 10 px" in last
    assert "checkpoint" in last or "nothing was saved yet" in last
    assert "Traceback" not in message


def test_a_damaged_pipeline_is_one_sentence(train: Train, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("- {__class_fullname__: HorizontalFlp}\n")
    message = train("--augmentations", str(path), code=2)["message"]
    assert "did you mean HorizontalFlip?" in message and "Traceback" not in message


def test_a_data_yaml_cannot_name_augmentations(data: Path, tmp_path: Path, train: Train) -> None:
    """All classes as one, by the way."""
    place = python_file(tmp_path, "raise SystemExit('this code was run')")
    described = data.parent / "with_code.yaml"
    described.write_text(f"{data.read_text()}augmentations: {place}\n")
    result = train("--data", str(described), "--epochs", "1", "--workers", "0", "--single-cls")
    assert result["counters"]["images_seen"] == 11
    content = torch.load(result["files"]["last"], weights_only=True)
    assert content["class_names"] == ["object"] and content["class_ids"] == [0]


def test_varied_runs_are_repeated_by_any_number_of_workers_and_resumed(train: Train, tmp_path: Path) -> None:
    """Balanced, at several sizes, with a pipeline: bit for bit the same weights after a stop in mid-epoch."""
    pipeline = tmp_path / "mine.yaml"
    pipeline.write_text(
        "- {__class_fullname__: Affine, rotate: [-20, 20], p: 0.5}\n- {__class_fullname__: CoarseDropout, p: 0.5}\n"
    )
    varied = ["--augmentations", str(pipeline), "--balance", "0.9", "--multi-scale", "0.5", "--copy-paste", "0.5"]
    varied += ["--cutout", "0.5", "--epochs", "1"]
    whole = train(*varied, "--workers", "0")
    several = train(*varied, "--workers", "2")
    stopping = tmp_path / "stopping.py"
    stopping.write_text(
        "import os, signal\n"
        "from yolo_accum.api import Observer\n"
        "class Stop(Observer):\n"
        "    def on_update(self, record):\n"
        "        if record.update == 2:\n"
        "            os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    train(*varied, "--workers", "0", "--name", "stopped", "--callbacks", f"{stopping}:Stop", code=143)
    resumed = train("--resume", str(tmp_path / "runs" / "stopped"), "--callbacks", "")

    live = [torch.load(run["files"]["last"], weights_only=True)["live"] for run in (whole, several, resumed)]
    for name, value in live[0].items():
        assert torch.equal(value, live[1][name]) and torch.equal(value, live[2][name]), name
    epochs = rows(resumed["files"]["epochs"])
    assert [int(row["images_off_plan"]) for row in epochs] == [0]
    assert all(int(row["images"]) > int(row["distinct_images"]) == 11 for row in epochs)


def test_dropped_windows_are_off_the_plan(train: Train) -> None:
    result = train("--tail", "drop", "--nbs", "8", "--epochs", "1", "--workers", "0")
    [epoch] = rows(result["files"]["epochs"])
    assert int(epoch["images_off_plan"]) == result["counters"]["images_dropped"] == 3


def test_a_part_of_the_classes_keeps_its_ids_in_every_output(
    train: Train, tmp_path: Path, data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ids 3 red, 7 blue, 90 green."""
    result = train("--classes", f"{CATEGORY_IDS[2]},{NAMES[0]}", "--fraction", "0.5", "--epochs", "1", "--workers", "0")
    assert result["counters"]["images_seen"] == 6  # round(5.5) is even
    content = torch.load(result["files"]["last"], weights_only=True)
    assert content["class_names"] == ["red", "green"] and content["class_ids"] == [3, 90]

    words = ["val", "--weights", result["files"]["last"], "--data", str(data), "--project", str(tmp_path / "val")]
    words += ["--conf", "0", "--no-plots", "--workers", "0", "--threads", "1", "--json"]
    capfd.readouterr()
    assert main(words) == 2
    assert "blue" in capfd.readouterr().err
    assert main([*words, "--classes", "red,green"]) == 0
    found = json.loads(capfd.readouterr().out)
    predictions = json.loads(Path(found["files"]["predictions"]).read_text())
    assert {item["category_id"] for item in predictions} == {3, 90}
    assert [item["name"] for item in found["per_class"]] == ["red", "green"]


def test_an_unknown_class_is_refused(train: Train) -> None:
    assert "--classes gren" in train("--classes", "gren", code=2)["message"]
