"""`train --norm ...` end to end: what is built, said, saved and rebuilt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_data import write_data
from train_command import Train, train_command

from yolo_accum.cli.main import main
from yolo_accum.cli.norms import norm_notices
from yolo_accum.config.load import build_train_config
from yolo_accum.config.schema import NormConfig, TrainConfig
from yolo_accum.engine.plan import Plan
from yolo_accum.errors import UserError


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def train(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Train:
    return train_command(data, tmp_path / "runs", capfd)


def saved(result: dict[str, Any], name: str) -> dict[str, Any]:
    return torch.load(result["files"][name], weights_only=True)


@pytest.mark.parametrize("norm", ["syncbn", "cmbn", "wrn", "gn", "frozen"])
def test_every_norm_trains_and_is_recorded(train: Train, norm: str) -> None:
    result = train("--norm", norm, "--epochs", "1")
    assert result["counters"]["updates_applied"] > 0
    assert saved(result, "best")["norm"] == saved(result, "best")["config"]["norm"] == norm
    assert f"{norm}: " in json.loads(Path(result["files"]["card"]).read_text())["settings"]["norm"]


def test_a_last_image_on_a_map_of_one_cell_does_not_stop_the_run(train: Train) -> None:
    assert train("--imgsz", "32", "--epochs", "1")["counters"]["images_seen"] == 11  # micro-batches of 2, and one of 1


def test_val_rebuilds_the_model_with_its_norm(train: Train, data: Path, tmp_path: Path, capfd: Any) -> None:
    best = train("--norm", "gn", "--epochs", "1")["files"]["best"]
    argv = ["val", "--data", str(data.parent / "val.json"), "--weights", best, "--project", str(tmp_path / "val")]
    assert main([*argv, "--no-plots", "--json"]) == 0, capfd.readouterr().err


def test_batch_norm_weights_go_into_group_norm_with_a_word_about_it(train: Train) -> None:
    best = train("--epochs", "1")["files"]["best"]
    result = train("--norm", "gn", "--weights", best, "--epochs", "1")
    assert "running statistics of 104 norms dropped" in result["said"]
    assert "re-initialised" not in result["said"]


def test_frozen_statistics_are_those_of_the_weights_after_training(train: Train) -> None:
    best = train("--epochs", "1")
    result = train("--norm", "frozen", "--weights", best["files"]["best"], "--epochs", "2", "--lr0", "1e-5")
    before, after = saved(best, "best")["model"], saved(result, "last")["live"]
    statistics = [name for name in before if name.endswith(("running_mean", "running_var"))]
    assert all(torch.equal(before[name], after[name]) for name in statistics)
    assert any(not torch.equal(before[name], after[name]) for name in before if name.endswith("bn.weight"))


def test_precise_statistics_are_in_the_best_weights_and_only_the_statistics(train: Train) -> None:
    plain, precise = (train("--epochs", "1", *words) for words in ((), ("--precise-bn", "8")))
    one, two = saved(plain, "best")["model"], saved(precise, "best")["model"]
    for name, value in one.items():
        is_statistic = name.endswith(("running_mean", "running_var"))
        assert name.endswith("num_batches_tracked") or torch.equal(value, two[name]) is not is_statistic, name
    assert torch.equal(
        saved(precise, "last")["model"]["head.stems.0.bn.running_mean"], one["head.stems.0.bn.running_mean"]
    )
    assert "running statistics of the best weights measured on 8 images" in precise["said"]


def test_folded_weights_are_noticed_and_calibrated(train: Train, tmp_path: Path) -> None:
    content = saved(train("--epochs", "1"), "best")
    for name, value in content["model"].items():
        if name.endswith(("running_mean", "running_var")):
            value.fill_(float(name.endswith("running_var")))
    folded = tmp_path / "folded.pt"
    torch.save(content, folded)
    assert "--calibrate-bn 64 restores them" in train("--weights", str(folded), "--epochs", "1")["said"]
    result = train("--weights", str(folded), "--epochs", "1", "--calibrate-bn", "6", "--norm", "frozen")
    assert "--calibrate-bn 64" not in result["said"]
    assert saved(result, "last")["live"]["head.stems.0.bn.running_mean"].abs().sum() > 0


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (["--norm", "ln"], "--norm ln"),
        (["--norm", "gn", "--precise-bn", "8"], "--precise-bn 8: --norm gn has no running statistics"),
        (["--norm", "frozen", "--precise-bn", "8"], "--precise-bn 8: --norm frozen keeps its running statistics"),
        (["--norm", "gn", "--calibrate-bn", "8"], "--calibrate-bn 8: --norm gn has no running statistics"),
        (["--calibrate-bn", "8"], "--calibrate-bn 8: there is nothing to calibrate without --weights"),
        (["--freeze-affine"], "--freeze-affine true: this belongs to --norm frozen"),
    ],
)
def test_what_does_not_go_together_is_refused(train: Train, words: list[str], piece: str) -> None:
    assert piece in train(*words, code=2)["said"]


def config(norm: str, batch: int) -> TrainConfig:
    whole = build_train_config({"batch": batch})
    return replace(whole, norm=NormConfig(norm=norm))  # type: ignore[arg-type]


def plan(batch: int) -> Plan:
    return Plan(num_images=64, epochs=1, batch=batch, nbs=64, warmup_epochs=0.0, ramp=False, tail="step")


@pytest.mark.parametrize(
    ("norm", "batch", "replicas", "pieces"),
    [
        ("bn", 8, 1, []),
        ("bn", 2, 1, ["from 2 images", "--norm wrn", "gn", "frozen", ": bn 0.68, wrn 0.80, gn and frozen 1.00;"]),
        ("bn", 8, 2, ["from 4 images", "--norm syncbn (8 images), wrn"]),
        ("bn", 1, 1, ["from 1 image;", "blood cells: gn and frozen 1.00;"]),
        ("syncbn", 8, 2, []),
        ("syncbn", 4, 2, ["from 4 images"]),
        ("syncbn", 8, 1, ["same as bn here"]),
        ("wrn", 1, 1, []),
        ("gn", 1, 1, []),
        ("frozen", 1, 1, ["--norm frozen without --weights"]),
    ],
)
def test_notices_where_norm_and_micro_batch_do_not_go_together(
    norm: str, batch: int, replicas: int, pieces: list[str]
) -> None:
    notices = norm_notices(config(norm, batch), plan(batch), replicas, is_folded=False)
    assert len(notices) == bool(pieces)
    assert all(piece in notices[0] for piece in pieces)


def test_negative_counts_of_images_are_refused() -> None:
    with pytest.raises(UserError, match="--precise-bn -1"):
        NormConfig(precise_bn=-1)
