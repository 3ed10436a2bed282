"""What `val` and `predict` start from: a detector as it was trained, and data by its classes."""

from __future__ import annotations

from dataclasses import dataclass

from yolo_accum.cli.embedded import embedded_data
from yolo_accum.config.arguments import EvalArguments
from yolo_accum.config.schema import ModelConfig
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.classes import Classes
from yolo_accum.data.description import open_split
from yolo_accum.errors import UserError
from yolo_accum.model.build import build_model
from yolo_accum.model.norms import norm_factory
from yolo_accum.model.weights import Weights, infer_size, load_weights, read_weights
from yolo_accum.model.yolox import YOLOX
from yolo_accum.report.console import Console


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedDetector:
    """A detector with all its weights, and what their file says of it."""

    model: YOLOX
    """In evaluation mode, on the CPU."""
    size: str
    """Name of the model size."""
    weights: Weights

    @property
    def classes(self) -> Classes | None:
        """Names, and ids where the file has them (else the numbers of the labels); None where it has no names."""
        names, ids = self.weights.class_names, self.weights.class_ids
        return None if names is None else Classes(names=names, ids=ids or tuple(range(len(names))))

    def size_px(self, arguments: EvalArguments) -> int:
        """Side of the network input: as asked, else as it was trained, else the default."""
        asked = arguments.data.imgsz
        return asked if "imgsz" in arguments.given else self.weights.trained_size_px or asked


def open_detector(config: ModelConfig) -> TrainedDetector:
    """The detector that ``--weights`` holds.

    Raises:
        UserError: no weights are named, they cannot be read, are of another size than ``--model``, or not complete.
    """
    if config.weights is None:
        raise UserError("--weights is needed: a .pth, .pt or .safetensors file, such as runs/train/exp/weights/best.pt")
    weights = read_weights(config.weights)
    size = config.model or infer_size(weights)
    model = build_model(size, weights.num_classes, norm_factory(weights.norm))
    summary = load_weights(model, weights, weights.class_names)
    if summary.reinitialised:
        lacking = ", ".join(f"{what} ({why})" for what, why in summary.reinitialised[:3])
        raise UserError(f"{weights.path}: {len(summary.reinitialised)} parts of the detector are missing: {lacking}")
    return TrainedDetector(model=model.eval(), size=size, weights=weights)


def open_validation(arguments: EvalArguments, detector: TrainedDetector, console: Console) -> DetectionIndex:
    """The split to evaluate, its labels numbered as the detector's outputs; says what was found in it.

    Raises:
        UserError: the data cannot be used, or their classes are not the detector's.
    """
    default = embedded_data(console) if arguments.data.data is None else None
    index, findings = open_split(arguments.data, default_data=default, classes=detector.classes)
    for finding in findings:
        console.on_message(f"{finding.kind.severity}: {finding}")
    outputs = detector.weights.num_classes
    if index.num_classes != outputs:
        raise UserError(
            f"{detector.weights.path} has {outputs} classes without names, {index.source} has {index.num_classes}; "
            "they must agree"
        )
    return index
