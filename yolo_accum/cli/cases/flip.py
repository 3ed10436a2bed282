"""The boxes of a case in a training picture that is flipped and otherwise left alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from yolo_accum.cli.cases.commands import inside
from yolo_accum.cli.cases.setup import Case
from yolo_accum.config.arguments import parse_train
from yolo_accum.contracts import SampleKey
from yolo_accum.data.dataset import TrainDataset
from yolo_accum.data.description import open_data

_SWITCHED_OFF = ("mosaic", "scale", "translate", "hsv-h", "hsv-s", "hsv-v", "close-mosaic")
_TOLERANCE_PX = 0.01


def wrong_after_flip(case: Case, data: Sequence[str], classes: Sequence[str]) -> Iterator[str]:
    """What is wrong with boxes in training pictures, without augmentation and with a left-right flip."""
    for flip, expected in ((0, case.expect.get("boxes") or {}), (1, case.expect["boxes_after_hflip"])):
        for name, boxes in expected.items():
            found = _training_boxes(case, data, name, flip)
            wanted = np.array(sorted(boxes), float)
            if found.shape != wanted.shape or np.abs(found - wanted).max() > _TOLERANCE_PX:
                told = f"{name} with --fliplr {flip} is trained with the boxes {found.tolist()}"
                yield f"{told}, expected {wanted.tolist()}"


def _training_boxes(case: Case, data: Sequence[str], name: str, flip: int) -> np.ndarray:
    """[k, 5] label and box in pixels of the picture, sorted: scale and place of the picture in the input taken off."""
    options = [word for name in _SWITCHED_OFF for word in (f"--{name}", "0")]
    config = parse_train([*data, *options, "--fliplr", str(flip)]).config
    with inside(case.working_folder):
        index = open_data(config.data).train
    row = next(row for row, path in enumerate(index.image_paths) if path.endswith("/" + name))
    width_px, height_px = int(index.widths_px[row]), int(index.heights_px[row])
    dataset = TrainDataset(index, config.augment, seed=0, num_epochs=2)
    side = -(-max(width_px, height_px) // 32) * 32
    samples = (dataset[SampleKey(0, position, side)] for position in range(len(index)))
    sample = next(sample for sample in samples if sample.image_index == row)
    scale = side / max(width_px, height_px)
    boxes = sample.boxes_xyxy_px.astype(float) / scale
    boxes[:, 0::2] -= flip * (side / scale - width_px)  # the picture lies at the left, flipped at the right
    return np.array(sorted([int(label), *box] for label, box in zip(sample.labels, boxes.tolist(), strict=True)))
