"""The same windows, cut into micro-batches and spread over workers in every way, end with the same weights.

The whole loop with the real criterion: loader, mosaic, affine, colour, images without objects, short micro-batches.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_data import write_data

from yolo_accum.cli.training.build import build_training
from yolo_accum.config.load import from_mapping
from yolo_accum.data.description import open_data
from yolo_accum.engine.loop import LoopState

NUM_UPDATES = 3
OPTIONS = {
    "imgsz": 64,
    "nbs": 8,
    "epochs": 2,
    "ramp": False,
    "warmup_epochs": 0,
    "optimizer": "sgd",
    "threads": 1,
    "amp": "off",
    "ema_decay": 0,
    "mixup": 0.5,
    "lr0": 0.001,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """21 images: windows of 8, 8 and 5, the last micro-batch short for every batch but 1."""
    return write_data(tmp_path_factory.mktemp("split"), num_train=21)


def weights_after(
    data: Path, dtype: torch.dtype, num_updates: int = NUM_UPDATES, **options: object
) -> tuple[torch.Tensor, list[int]]:
    """All weights in one vector after a few updates, and the images of each window."""
    config = from_mapping({**OPTIONS, "data": str(data), "workers": 0, **options})
    training = build_training(config, open_data(config.data).train, dtype=dtype)
    images = []
    for finished in training.loop.run(training.batches(), LoopState()):
        assert finished.record is not None
        assert finished.record.applied
        images.append(finished.record.images)
        if len(images) == num_updates:
            break
    return torch.cat([parameter.detach().flatten() for parameter in training.model.parameters()]), images


def relative_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).norm() / b.norm())


@pytest.mark.parametrize("norm", ["gn", "frozen"])
def test_every_cut_of_the_same_windows_gives_the_same_weights(data: Path, norm: str) -> None:
    reference, images = weights_after(data, torch.float64, batch=8, norm=norm)
    assert images == [8, 8, 5]
    for batch, workers in ((4, 0), (2, 2), (1, 0)):
        weights, cut_images = weights_after(data, torch.float64, batch=batch, workers=workers, norm=norm)
        assert cut_images == images
        assert relative_difference(weights, reference) <= 1e-10, (norm, batch)


@pytest.mark.parametrize("norm", ["gn", "frozen"])
def test_growing_windows_of_a_small_batch_cut_anew_give_the_same_weights(data: Path, norm: str) -> None:
    """While windows grow from 2 to 8 images and across an epoch's end, and with decay, lr and momentum of warm-up."""
    windows = {"ramp": True, "warmup_epochs": 1.0, "tail": "carry", "window_batch": 2, "num_updates": 9, "norm": norm}
    reference, images = weights_after(data, torch.float64, batch=2, **windows)
    assert images == [2, 2, 4, 4, 6, 7, 8, 8, 1]
    for batch in (8, 3):
        weights, cut_images = weights_after(data, torch.float64, batch=batch, **windows)
        assert cut_images == images
        assert relative_difference(weights, reference) <= 1e-10, (norm, batch)


def test_float32_agrees_to_rounding(data: Path) -> None:
    reference, _ = weights_after(data, torch.float32, batch=8, norm="gn")
    weights, _ = weights_after(data, torch.float32, batch=2, norm="gn")
    assert relative_difference(weights, reference) <= 1e-5


def test_batch_statistics_are_what_breaks_it(data: Path) -> None:
    """The check is able to fail: with plain batch norm the cuts differ."""
    reference, _ = weights_after(data, torch.float64, batch=8, norm="bn")
    weights, _ = weights_after(data, torch.float64, batch=2, norm="bn")
    assert relative_difference(weights, reference) > 1e-6


def test_a_window_without_any_object_trains_and_stays_finite(tmp_path: Path) -> None:
    """Windows of one image each, some of them empty."""
    data = write_data(tmp_path, num_train=9)
    options = {"nbs": 1, "epochs": 1, "mosaic": 0.0, "mixup": 0.0, "norm": "gn"}
    config = from_mapping({**OPTIONS, "data": str(data), "workers": 0, "batch": 1, **options})
    training = build_training(config, open_data(config.data).train, dtype=torch.float64)
    empty = []
    for finished in training.loop.run(training.batches(), LoopState()):
        assert finished.record is not None
        assert finished.record.applied
        if finished.record.objects == 0:
            empty.append(finished.record)
    assert empty
    assert all(record.denominator == 0 and record.losses["obj"] > 0 for record in empty)
