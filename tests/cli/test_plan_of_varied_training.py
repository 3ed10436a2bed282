"""`plan` with sizes that change and pictures that are repeated: what it says is what `train` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_data import write_data

from yolo_accum.cli.main import main
from yolo_accum.cli.planning.memory import plan_report
from yolo_accum.cli.training.build import build_training
from yolo_accum.cli.training.data import micro_batch_keys
from yolo_accum.config.arguments import parse_train
from yolo_accum.data.description import open_data

WORDS = "--imgsz 64 --batch 2 --nbs 4 --epochs 2 --balance 0.9 --multi-scale 0.5 --amp off --threads 1"


def plan(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["plan", "--json", *" ".join(words).split()]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_sizes_and_images_are_those_of_the_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_data(tmp_path)
    planned = plan(capsys, f"--data {data} {WORDS}")
    config = parse_train(["--data", str(data), *WORDS.split()]).config
    training = build_training(config, open_data(config.data).train)

    assert planned["images"] == len(training.dataset) > 11
    assert planned["sizes_px"] == [32, 64, 96]
    keys = list(micro_batch_keys(training.plan, config, 0, 1))
    firsts = planned["windows"]["first_micro_batch"]
    assert planned["windows"]["size_px"] == [keys[first][0].size_px for first in firsts]
    assert len(set(planned["windows"]["size_px"])) > 1
    assert main(["plan", "--data", str(data), *WORDS.split()]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "32 to 96 px, one of 3 sides a window" in shown and "repeated by --balance 0.9" in shown


def test_memory_is_measured_at_the_largest_size() -> None:
    words = "--imgsz 64 --multi-scale 0.5 --nbs 4 --memory 64GiB --amp off --threads 1 --data unread.json"
    assert plan_report(parse_train(words.split()).config, 16, None, 1).size_px == 96


def test_balance_needs_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--num-images", "100", "--balance", "0.5"]) == 2
    assert "--balance 0.5: how often an image comes up depends on its objects; give --data" in capsys.readouterr().err
