"""Parameter groups, averaged weights, checkpoint files."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from yolo_accum.config.schema import OptimConfig
from yolo_accum.engine.checkpoint import read_checkpoint, save_checkpoint
from yolo_accum.engine.ema import EmaModel, ema_decay_at
from yolo_accum.engine.groups import (
    build_optimizer,
    freeze,
    parameter_groups,
    set_hyperparameters,
)
from yolo_accum.engine.ramp import Hyperparameters, choose_optimizer
from yolo_accum.errors import TrainingError, UserError


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.Linear(4, 2))


def test_only_weights_of_convolutions_and_linear_layers_decay() -> None:
    model = network()
    decay, no_decay = parameter_groups(model, 0.1)
    assert (decay["name"], decay["weight_decay"]) == ("decay", 0.1)
    assert (no_decay["name"], no_decay["weight_decay"]) == ("no_decay", 0.0)
    assert [id(p) for p in decay["params"]] == [id(model[0].weight), id(model[3].weight)]
    assert len(no_decay["params"]) == 6


def test_auto_takes_adamw_for_short_runs() -> None:
    assert choose_optimizer(OptimConfig(), 300) == ("adamw", 0.002)
    assert choose_optimizer(OptimConfig(), 20_000) == ("sgd", 0.01)
    assert choose_optimizer(OptimConfig(optimizer="adam", lr0=0.5), 20_000) == ("adam", 0.5)


@pytest.mark.parametrize("name", ["sgd", "adamw", "adam"])
def test_hyperparameters_reach_every_group(name: str) -> None:
    optimizer = build_optimizer(network(), name, 0.1, 0.9, 1e-4)
    set_hyperparameters(optimizer, Hyperparameters(lr=0.03, momentum=0.85))
    for group in optimizer.param_groups:
        assert group["lr"] == 0.03
        assert group.get("momentum", group.get("betas", (None,))[0]) == 0.85


def test_frozen_parts_are_not_trained_and_unknown_ones_are_named() -> None:
    model = network()
    assert freeze(model, ["0"]) == ["0.weight", "0.bias"]
    assert not model[0].weight.requires_grad
    with pytest.raises(UserError, match="--freeze backbon"):
        freeze(model, ["backbon"])
    with pytest.raises(UserError, match="nothing to train"):
        freeze(model, ["0", "1", "2", "3"])


def test_average_of_constant_decay() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    ema = EmaModel(model)
    for value in (2.0, 4.0):
        nn.init.constant_(model.weight, value)
        assert ema.update(0.5)
    assert ema.model.weight.item() == pytest.approx((1 * 0.5 + 2 * 0.5) * 0.5 + 4 * 0.5)


def test_decay_grows_from_zero() -> None:
    assert ema_decay_at(0, 0.999, 100) == 0.0
    assert ema_decay_at(100, 0.999, 100) == pytest.approx(0.999 * (1 - np.exp(-1)))


def test_weights_that_are_not_finite_are_never_folded_in() -> None:
    model = nn.Linear(1, 1)
    ema = EmaModel(model)
    before = ema.model.weight.clone()
    good = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.fill_(float("nan"))
    assert not ema.update(0.5)
    assert torch.equal(ema.model.weight, before)
    with torch.no_grad():
        model.weight.copy_(good)
    assert ema.update(0.5)
    assert ema.model.weight.isfinite().all()


def test_integer_buffers_are_copied() -> None:
    model = nn.BatchNorm2d(2)
    ema = EmaModel(model)
    model(torch.randn(2, 2, 3, 3))
    ema.update(0.9)
    assert ema.model.num_batches_tracked == 1


def test_checkpoint_round_trip_with_safe_loading(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    save_checkpoint({"model": {"w": torch.ones(2)}, "names": ["a"], "ids": [90]}, path)
    assert torch.load(path)["names"] == ["a"]
    assert read_checkpoint(path)["ids"] == [90]
    assert [file.name for file in tmp_path.iterdir()] == ["last.pt"]


def test_failed_write_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "last.pt"
    save_checkpoint({"update": 1}, path)

    def full_disk(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full_disk)
    with pytest.raises(TrainingError, match=r"last\.pt.*No space left.*untouched"):
        save_checkpoint({"update": 2}, path)
    monkeypatch.undo()
    assert read_checkpoint(path)["update"] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["last.pt"]


def test_foreign_and_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    torch.save({"model": {}}, tmp_path / "foreign.pt")
    with pytest.raises(UserError, match=r"foreign\.pt was not written by this program"):
        read_checkpoint(tmp_path / "foreign.pt")
    (tmp_path / "half.pt").write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(UserError, match=r"half\.pt is no checkpoint, or is damaged or cut off: its 16 bytes"):
        read_checkpoint(tmp_path / "half.pt")
    with pytest.raises(UserError, match="no such checkpoint"):
        read_checkpoint(tmp_path / "none.pt")


def test_a_checkpoint_without_a_needed_entry_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    save_checkpoint({"optimizer": {}, "next_epoch": "3"}, path)
    assert read_checkpoint(path, {"optimizer": dict})["optimizer"] == {}
    with pytest.raises(UserError, match=r"last\.pt is damaged: it has no progress"):
        read_checkpoint(path, {"optimizer": dict, "progress": dict})
    with pytest.raises(UserError, match=r"last\.pt is damaged: its next_epoch is '3'"):
        read_checkpoint(path, {"next_epoch": int})
