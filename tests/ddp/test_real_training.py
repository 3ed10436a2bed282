"""An epoch of a real data set on two replicas."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from replica_processes import exit_with, run_replicas
from training_cases import relative_difference

from yolo_accum.cli.main import main
from yolo_accum.cli.training.build import build_training
from yolo_accum.config.arguments import parse_train
from yolo_accum.data.description import open_data


def command(words: list[str]) -> None:
    """The command line in a replica."""
    exit_with(main(words))


def options(real_data: Path, project: Path, norm: str) -> list[str]:
    data, weights = real_data / "data/bccd", real_data / "weights/yolox_nano_coco_calibrated.safetensors"
    words = ["train", "--data", str(data / "train.json"), "--val-data", str(data / "val.json"), "--weights"]
    words += [str(weights), "--imgsz", "128", "--batch", "8", "--nbs", "64", "--epochs", "1", "--optimizer", "sgd"]
    words += ["--amp", "off", "--workers", "0", "--threads", "1", "--no-plots", "--norm", norm]
    return [*words, "--device", "cpu", "--project", str(project)]


def live_weights(project: Path) -> dict[str, torch.Tensor]:
    return torch.load(project / "exp/weights/last.pt", weights_only=True)["live"]


def starting_weights(real_data: Path, tmp_path: Path) -> dict[str, torch.Tensor]:
    config = parse_train(options(real_data, tmp_path, "frozen")[1:]).config
    return build_training(config, open_data(config.data).train).model.state_dict()


@pytest.mark.real
@pytest.mark.slow
def test_an_epoch_ends_with_the_weights_of_one_process(real_data: Path, tmp_path: Path) -> None:
    ended = run_replicas(command, options(real_data, tmp_path / "two", "frozen"), folder=tmp_path / "replicas")
    assert ended.codes == [0, 0], "\n".join(ended.output)
    assert main(options(real_data, tmp_path / "one", "frozen")) == 0
    found = relative_difference(live_weights(tmp_path / "two"), live_weights(tmp_path / "one"))
    moved = relative_difference(live_weights(tmp_path / "one"), starting_weights(real_data, tmp_path))
    print(f"relative difference {found:.1e}, from the start {moved:.1e}")
    assert found <= 0.05 * moved
    assert found <= 1e-5


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("norm", ["cmbn", "syncbn"])
def test_norms_with_statistics_run(real_data: Path, tmp_path: Path, norm: str) -> None:
    ended = run_replicas(command, options(real_data, tmp_path / "two", norm), folder=tmp_path / "replicas")
    assert ended.codes == [0, 0], "\n".join(ended.output)
