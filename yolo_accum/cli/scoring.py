"""Detections from a file, measured as `val` measures those of a detector."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.cli.embedded import embedded_data
from yolo_accum.cli.output import write_json
from yolo_accum.cli.run_folder import make_run_folder
from yolo_accum.config.arguments import EvalArguments
from yolo_accum.contracts import DetectionIndex, Detections
from yolo_accum.data.description import open_truth
from yolo_accum.errors import UserError
from yolo_accum.metrics.evaluate import measure
from yolo_accum.metrics.predictions import read_predictions
from yolo_accum.report.console import Console

_OPTIONS = {"predictions", "data", "images", "max_det", "evaluator", "project", "name", "plots"}
"""What can be said about a file of detections; everything else is about a detector."""


def score_predictions(arguments: EvalArguments, predictions: str, console: Console) -> Mapping[str, Any]:
    """Measures a COCO results file; returns the COCO numbers, AP by class, and the files written.

    Raises:
        UserError: the file or the data cannot be used, or options are given that only a detector has.
    """
    detector_only = sorted(set(arguments.given) - _OPTIONS)
    if detector_only:
        raise UserError(
            f"--{detector_only[0].replace('_', '-')} belongs to a detector; --predictions measures what is in "
            f"{predictions} as it stands"
        )
    default = embedded_data(console) if arguments.data.data is None else None
    index, findings = open_truth(arguments.data, default_data=default)
    for finding in findings:
        console.on_message(f"{finding.kind.severity}: {finding}")
    detections = _all_images(read_predictions(Path(predictions), index), len(index))
    metrics = measure(detections, index, evaluator=arguments.eval.evaluator, max_det=arguments.eval.max_det).metrics
    folder = make_run_folder(arguments.run)
    files = {"metrics": folder / "metrics.json"}
    write_json(files["metrics"], metrics.to_json())
    console.metrics_table(
        metrics.values, [(item.name, item.num_boxes, item.ap, item.ap50) for item in metrics.per_class]
    )
    settings = {"predictions": predictions, "data": index.source, "evaluator": arguments.eval.evaluator}
    console.run_card(
        {
            **{name: str(value) for name, value in settings.items()},
            "images": f"{metrics.num_images}, {metrics.num_boxes} objects, {metrics.num_crowd} crowd regions",
            "detections": f"{metrics.num_detections}, at most {metrics.max_det} an image",
            **{name: str(path) for name, path in files.items()},
        }
    )
    if notice := crowded_images(index, metrics.max_det):
        console.on_message(notice)
    return {**metrics.to_json(), "settings": settings, "run": folder, "files": files}


def crowded_images(index: DetectionIndex, max_det: int) -> str:
    """A notice when images have more objects than detections are counted; empty otherwise."""
    image_of_box = np.repeat(np.arange(len(index)), np.diff(index.box_starts))
    per_image = np.bincount(image_of_box[~index.is_crowd], minlength=len(index))
    num_above = int((per_image > max_det).sum())
    if not num_above:
        return ""
    return (
        f"warning: {num_above} images have more objects than --max-det {max_det} (up to {per_image.max()}), so not all "
        f"of them can be found; --max-det {per_image.max()} counts them all"
    )


def _all_images(found: list[Detections], num_images: int) -> list[Detections]:
    """One entry an image, also where nothing was found."""
    of_image = {item.image_index: item for item in found}
    nothing = {"boxes_xyxy_px": np.zeros((0, 4), np.float32), "scores": np.zeros(0, np.float32)}
    return [
        of_image.get(image) or Detections(**nothing, labels=np.zeros(0, np.int64), image_index=image)
        for image in range(num_images)
    ]
