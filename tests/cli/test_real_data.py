"""Fine-tuning real weights on a real data set, in both layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from yolo_accum.cli.main import main

pytestmark = [pytest.mark.real, pytest.mark.slow]


def train(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capfd.readouterr()
    assert main(["train", *words, "--json", "--no-plots"]) == 0, capfd.readouterr().err
    return json.loads(capfd.readouterr().out)


def options(real_data: Path, project: Path) -> list[str]:
    weights = real_data / "weights" / "yolox_nano_coco_calibrated.pth"
    return ["--weights", str(weights), "--batch", "8", "--nbs", "64", "--project", str(project), "--amp", "off"]


def coco(real_data: Path) -> list[str]:
    folder = real_data / "data" / "bccd"
    return ["--data", str(folder / "train.json"), "--val-data", str(folder / "val.json")]


def test_three_epochs_of_fine_tuning_reach_what_the_recipe_promises(
    real_data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The whole recipe is 30 epochs; after three the learning rate has just reached its peak."""
    result = train(capfd, *coco(real_data), *options(real_data, tmp_path), "--epochs", "3", "--imgsz", "320")
    assert result["best"]["AP"] > 0.40
    assert result["best"]["AP50"] > 0.70
    assert result["counters"]["images_seen"] == 3 * 205


def test_both_layouts_of_one_set_give_the_same_run(
    real_data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    small = ["--epochs", "1", "--imgsz", "160"]
    yolo = ["--data", str(real_data / "data" / "bccd_yolo" / "data.yaml")]
    first = train(capfd, *coco(real_data), *options(real_data, tmp_path), *small)
    second = train(capfd, *yolo, *options(real_data, tmp_path), *small)
    assert first["counters"] == second["counters"]
    for name in ("AP", "AP50", "AP75", "AR_max"):
        assert first["best"][name] == second["best"][name]
    one, two = (torch.load(item["files"]["last"], weights_only=True)["live"] for item in (first, second))
    assert all(torch.equal(one[name], two[name]) for name in one)
