"""The training images that `plan` is to plan for."""

from __future__ import annotations

from yolo_accum.cli.embedded import embedded_data
from yolo_accum.config.schema import DataConfig
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.description import open_data
from yolo_accum.report.console import Console


def training_index(config: DataConfig, as_json: bool) -> DetectionIndex:
    """The training split that ``--data`` names, or the embedded one.

    Raises:
        UserError: the data cannot be used.
    """
    with Console(as_json=as_json) as console:
        default = embedded_data(console) if config.data is None else None
        return open_data(config, default_data=default).train
