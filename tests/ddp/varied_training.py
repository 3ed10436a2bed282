"""A training with everything that varies pictures, for one process or several."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from training_cases import copied, joined

from yolo_accum.cli.training.build import build_training
from yolo_accum.config.load import from_mapping
from yolo_accum.data.description import open_data
from yolo_accum.engine.distributed import Replicas
from yolo_accum.engine.loop import LoopState

OPTIONS = {
    "imgsz": 64,
    "batch": 4,
    "nbs": 8,
    "epochs": 3,
    "warmup_epochs": 0,
    "optimizer": "sgd",
    "lr0": 0.001,
    "norm": "gn",
    "tail": "carry",
    "amp": "off",
    "workers": 0,
    "threads": 1,
    "device": "cpu",
    "multi_scale": 0.5,
    "balance": 0.9,
    "copy_paste": 0.7,
    "cutout": 0.7,
}
NUM_UPDATES = 4

Outcome = tuple[dict[str, Tensor], list[tuple[int, int, int]]]


def train_varied(data: Path, replicas: Replicas) -> Outcome:
    """Weights after a few updates; images, different images and images off the plan of each epoch that ended."""
    config = from_mapping({**OPTIONS, "data": str(data)})
    training = build_training(config, open_data(config.data).train, replicas=replicas, dtype=torch.float64)
    epochs = []
    for finished in islice(training.loop.run(training.batches(), LoopState()), NUM_UPDATES):
        epochs += [(item.images, item.distinct_images, item.images_off_plan) for item in finished.finished_epochs]
    return copied(training.model.state_dict()), epochs


def train_in_group(data: Path) -> Outcome:
    """The same as one of several replicas."""
    with joined() as replicas:
        return train_varied(data, replicas)
