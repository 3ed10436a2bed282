"""Sizes by window, balanced epochs, pasted and hidden objects and own transforms: no way of cutting changes them.

The whole loop, as in `test_split_invariance`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_data import write_data
from test_split_invariance import relative_difference, weights_after

from yolo_accum.cli.training.build import build_training
from yolo_accum.cli.training.data import micro_batch_keys
from yolo_accum.config.load import from_mapping
from yolo_accum.data.description import open_data

VARIED = {"multi_scale": 0.5, "balance": 0.9, "copy_paste": 0.7, "cutout": 0.7, "norm": "gn"}
PIPELINE = """
- {__class_fullname__: Affine, rotate: [-10, 10], p: 0.5}
- {__class_fullname__: RandomBrightnessContrast, p: 0.5}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """21 images, shown more often where their classes are rare."""
    return write_data(tmp_path_factory.mktemp("varied"), num_train=21)


def test_every_cut_sees_the_same_pixels(data: Path, tmp_path: Path) -> None:
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(PIPELINE)
    varied = {**VARIED, "augmentations": str(pipeline), "num_updates": 3}
    reference, images = weights_after(data, torch.float64, batch=8, **varied)  # type: ignore[arg-type]
    assert images[0] == 8 and sum(images) > 21
    for batch, workers in ((4, 0), (2, 2), (1, 0)):
        weights, cut_images = weights_after(data, torch.float64, batch=batch, workers=workers, **varied)  # type: ignore[arg-type]
        assert cut_images == images
        assert relative_difference(weights, reference) <= 1e-10, batch


def test_sizes_change_from_window_to_window_and_not_within(data: Path) -> None:
    sizes = {}
    for batch in (8, 2, 1):
        options = {"batch": batch, "imgsz": 64, "nbs": 8, "epochs": 2, "ramp": False, "amp": "off", "threads": 1}
        config = from_mapping({**options, **VARIED, "data": str(data)})
        training = build_training(config, open_data(config.data).train)
        keys = [
            key for replica in (0, 1) for keys in micro_batch_keys(training.plan, config, replica, 2) for key in keys
        ]
        sizes[batch] = {(key.epoch, key.position): key.size_px for key in keys}
    assert sizes[8] == sizes[2] == sizes[1]
    num_positions = len(sizes[8]) // 2
    for epoch in range(2):
        for start in range(0, num_positions, 8):
            window = [sizes[8][epoch, place] for place in range(start, min(start + 8, num_positions))]
            assert len(set(window)) == 1 and window[0] in (32, 64, 96)
    assert len(set(sizes[8].values())) > 1
