"""Models by name."""

from __future__ import annotations

from yolo_accum.model.norms import NormFactory, batch_norm
from yolo_accum.model.sizes import model_size
from yolo_accum.model.yolox import YOLOX


def build_model(size: str, num_classes: int, norm: NormFactory = batch_norm) -> YOLOX:
    """A new model, its weights drawn from torch's global generator: seed that first.

    Args:
        size: name of a file under ``cfg/model``, for example ``yolox_nano``.
        num_classes: at least 1.
        norm: makes the norm of so many channels.
    Raises:
        UserError: there is no such size.
        ValueError: no class.
    """
    if num_classes < 1:
        raise ValueError(f"num_classes {num_classes}: at least one class is needed")
    return YOLOX(model_size(size), num_classes, norm)
