"""What is logged, where on both axes, and that nothing is needed which is not installed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from run_of_records import epoch_record, update_record

from yolo_accum.contracts import RunEnded, RunStarted
from yolo_accum.errors import UserError
from yolo_accum.report.loggers import BACKENDS, RunLogger, open_logger

MODULES = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb", "mlflow": "mlflow"}
CARD = {"settings": {"model": "yolox_nano | 0.9 M"}, "best": {"epoch": 2, "AP": 0.25}, "peaks": {"memory_mib": 800.0}}


class Noted:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.points: list[tuple[int, int, Mapping[str, float]]] = []

    def open(self, event: RunStarted) -> None:
        pass

    def log(self, values: Mapping[str, float], *, update: int, images_seen: int) -> None:
        self.points.append((update, images_seen, dict(values)))

    def close(self, event: RunEnded) -> None:
        pass


def started(folder: Path, updates: int = 0) -> RunStarted:
    return RunStarted(
        folder=folder, num_epochs=3, num_micro_batches=96, start_micro_batch=8 * updates,
        images_seen=64 * updates, updates_applied=updates, config={"nbs": 64, "freeze": ()}, settings={"norm": "bn"},
    )  # fmt: skip


def ended(folder: Path, updates: int) -> RunEnded:
    path = folder / "results.png"
    cv2.imwrite(str(path), np.full((8, 12, 3), (0, 0, 255), np.uint8))  # BGR: red
    counters = {"updates_applied": updates, "images_seen": 64 * updates}
    return RunEnded(outcome="finished", counters=counters, files={"results": path, "last": folder / "l.pt"}, card=CARD)


def part_of_a_run(name: str, folder: Path, numbers: range, carried_on: int = 0) -> None:
    logger = open_logger(name)
    logger.on_run_start(started(folder, carried_on))
    for number in numbers:
        logger.on_update_applied(update_record(number))
    logger.on_epoch(epoch_record(0))
    logger.on_run_end(ended(folder, numbers[-1]))


def test_a_point_an_applied_update_and_one_an_epoch_on_both_axes() -> None:
    noted = Noted()
    logger = RunLogger(noted)
    logger.on_run_start(started(Path(), updates=4))
    logger.on_epoch(epoch_record(0))  # a resumed run whose last epoch was left to evaluate
    for number in (5, 6):
        for micro_batch in range(8):
            logger.on_micro_batch(micro_batch, 0, 8)
        logger.on_update(update_record(number))
        logger.on_update_applied(update_record(number))
    refused = replace(update_record(7), applied=False)
    logger.on_update(refused)
    logger.on_update_refused(refused)
    logger.on_epoch(epoch_record(1))

    assert [(update, images) for update, images, _ in noted.points] == [(4, 256), (5, 320), (6, 384), (6, 384)]
    record, values = update_record(5), noted.points[1][2]
    assert values["loss/total"] == pytest.approx(sum(record.losses.values()))
    assert (values["loss/box"], values["lr/decay"]) == (record.losses["box"], record.lr["decay"])
    assert (values["gradient/norm"], values["window/denominator"]) == (record.grad_norm, record.denominator)
    assert noted.points[3][2]["val/AP50"] == epoch_record(1).metrics["AP50"]
    assert noted.points[3][2]["epoch/number"] == 2


@pytest.mark.parametrize("name", BACKENDS)
def test_a_missing_package_is_one_sentence_that_says_how_to_get_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULES[name], None)
    with pytest.raises(UserError, match=rf"^--log {name} needs a package .*pip install 'yolo-accum\[{name}\]'$"):
        open_logger(name)


def test_tensorboard_files_hold_both_axes_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    part_of_a_run("tensorboard", tmp_path, range(1, 6))
    part_of_a_run("tensorboard", tmp_path, range(4, 8), carried_on=3)  # from a checkpoint after update 3

    def read(series: str) -> Any:
        events = accumulator.EventAccumulator(str(tmp_path / "tensorboard" / series))
        return events.Reload()

    by_update, by_images = read("by update"), read("by images seen")
    loss = by_update.Scalars("loss/total")
    assert [item.step for item in loss] == [1, 2, 3, 4, 5, 6, 7]
    assert loss[6].value == pytest.approx(sum(update_record(7).losses.values()), rel=1e-6)
    assert [item.step for item in by_images.Scalars("loss by images seen/total")] == [64 * n for n in range(1, 8)]
    assert by_update.Scalars("val/AP")[-1].step == 7 and by_update.Scalars("best/AP")[-1].value == 0.25
    picture = by_update.Images("results")[-1]
    assert (picture.width, picture.height) == (12, 8)
    decoded = cv2.imdecode(np.frombuffer(picture.encoded_image_string, np.uint8), cv2.IMREAD_COLOR)
    assert decoded[0, 0].tolist() == [0, 0, 255]
    card = by_update.Tensors("run card/text_summary")[-1].tensor_proto.string_val[0].decode()
    assert "| model | yolox_nano &#124; 0.9 M |" in card and "| outcome | finished |" in card


@pytest.mark.slow
def test_mlflow_keeps_one_run_in_the_folder(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    part_of_a_run("mlflow", tmp_path, range(1, 4))
    part_of_a_run("mlflow", tmp_path, range(4, 6), carried_on=3)

    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("yolo-accum").experiment_id])
    assert (run.info.status, run.data.params, run.data.tags["outcome"]) == ("FINISHED", {"nbs": "64"}, "finished")
    assert [item.step for item in client.get_metric_history(run.info.run_id, "loss/total")] == [1, 2, 3, 4, 5]
    by_images = client.get_metric_history(run.info.run_id, "loss by images seen/total")
    assert [item.step for item in by_images] == [64, 128, 192, 256, 320]
    assert run.data.metrics["best/AP"] == 0.25
    kept = {path.name for path in (tmp_path / "mlflow" / "artifacts").rglob("*") if path.is_file()}
    assert kept == {"results.png", "run_card.json"}


@pytest.mark.slow
def test_wandb_stays_offline_and_keeps_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "online")
    part_of_a_run("wandb", tmp_path, range(1, 4))
    part_of_a_run("wandb", tmp_path, range(4, 6), carried_on=3)

    parts = sorted((tmp_path / "wandb").glob("offline-run-*"))
    assert len(parts) >= 1
    assert len({path.name.rpartition("-")[2] for path in parts}) == 1
    files = [path for part in parts for path in part.glob("*.wandb")]
    assert files and any(b"images_seen" in path.read_bytes() for path in files)
