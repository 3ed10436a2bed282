"""`val`: measure a detector on a validation split."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from yolo_accum.cli.evaluation import SplitEvaluator
from yolo_accum.cli.opening import open_detector, open_validation
from yolo_accum.cli.output import write_json
from yolo_accum.cli.run_folder import make_run_folder
from yolo_accum.cli.scoring import crowded_images, score_predictions
from yolo_accum.cli.wiring import choose_device, environment, use_threads
from yolo_accum.cli.worker_count import num_workers
from yolo_accum.config.arguments import parse_val
from yolo_accum.config.schema import AccumulationConfig
from yolo_accum.data.images import read_image
from yolo_accum.metrics.predictions import write_predictions
from yolo_accum.report.console import Console
from yolo_accum.report.lettering import lettering_notice
from yolo_accum.report.plots import plot_val_predictions


def run(argv: Sequence[str]) -> Mapping[str, Any]:
    """Evaluate as the options say; returns the COCO numbers, AP by class, and the files written."""
    arguments = parse_val(argv)
    with Console(as_json=arguments.json) as console:
        if arguments.score.predictions is not None:
            return score_predictions(arguments, arguments.score.predictions, console)
        device = choose_device(arguments.run.device)
        use_threads(arguments.run.threads)
        detector = open_detector(arguments.model)
        index = open_validation(arguments, detector, console)
        channels_last = arguments.run.channels_last is not False
        size_px = detector.size_px(arguments)
        evaluator = SplitEvaluator(
            index,
            size_px=size_px,
            batch=arguments.eval.val_batch or AccumulationConfig().micro_batch,
            workers=num_workers(arguments.data, len(index)),
            config=arguments.eval,
            device=device,
            channels_last=channels_last,
            warn=console.warn,
        )
        memory_format = torch.channels_last if channels_last else torch.contiguous_format
        model = detector.model.to(device, memory_format=memory_format)  # type: ignore[call-overload]

        start_s = time.perf_counter()
        with console.progress("evaluation", len(index)) as progress:
            evaluation = evaluator(model, progress)
        seconds = time.perf_counter() - start_s

        folder = make_run_folder(arguments.run)
        files = {"metrics": folder / "metrics.json", "predictions": folder / "predictions.json"}
        metrics = evaluation.metrics
        write_json(files["metrics"], metrics.to_json())
        write_predictions(files["predictions"], index, evaluation.detections)
        if arguments.run.plots:
            files["val_predictions"] = folder / "val_predictions.png"
            plot_val_predictions(index, evaluation.detections, files["val_predictions"], read_image=read_image)
            if notice := lettering_notice(index.class_names):
                console.on_message(f"notice: {notice}")

        settings: dict[str, Any] = {
            "weights": detector.weights.path,
            "model": detector.size,
            "data": index.source,
            "imgsz": size_px,
            "conf": arguments.eval.conf,
            "iou": arguments.eval.iou,
            "evaluator": arguments.eval.evaluator,
        }
        console.metrics_table(
            metrics.values, [(item.name, item.num_boxes, item.ap, item.ap50) for item in metrics.per_class]
        )
        console.run_card(
            {
                **{name: str(value) for name, value in settings.items()},
                "images": f"{metrics.num_images}, {metrics.num_boxes} objects, {metrics.num_crowd} crowd regions",
                "detections": f"{metrics.num_detections}, at most {metrics.max_det} an image",
                "time": f"{seconds:.1f} s, {len(index) / seconds:.1f} images/s on {environment(device)['device']}",
                **{name: str(path) for name, path in files.items()},
            }
        )
        if notice := crowded_images(index, metrics.max_det):
            console.on_message(notice)
        return {**metrics.to_json(), "settings": settings, "run": folder, "files": files}
