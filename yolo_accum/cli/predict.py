"""`predict`: detect objects in pictures, draw them and write them down."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolo_accum.cli.evaluation import make_detect
from yolo_accum.cli.opening import TrainedDetector, open_detector
from yolo_accum.cli.output import write_json
from yolo_accum.cli.run_folder import make_run_folder
from yolo_accum.cli.wiring import choose_device, use_threads
from yolo_accum.config.arguments import EvalArguments, parse_predict
from yolo_accum.config.schema import AccumulationConfig
from yolo_accum.contracts import Detections, Sample
from yolo_accum.data.images import UnreadableImageError, letterbox, read_image, to_channels_first
from yolo_accum.data.loader import collate
from yolo_accum.data.picture_size import PICTURE_SUFFIXES
from yolo_accum.errors import UserError
from yolo_accum.report.console import Console
from yolo_accum.report.detections import save_detections
from yolo_accum.report.lettering import lettering_notice


@dataclass(frozen=True, kw_only=True, eq=False)
class _Picture:
    """A picture in which objects are looked for."""

    number: int
    path: Path
    image: np.ndarray
    """[H, W, 3] uint8, RGB."""


def run(argv: Sequence[str]) -> Mapping[str, Any]:
    """Detect as the options say; returns every detection with the user's class, and the files written."""
    arguments = parse_predict(argv)
    with Console(as_json=arguments.json) as console:
        device = choose_device(arguments.run.device)
        use_threads(arguments.run.threads)
        detector = open_detector(arguments.model)
        if notice := lettering_notice(detector.weights.class_names or ()):
            console.on_message(f"notice: {notice}")
        paths = find_pictures(arguments.sources)
        folder = make_run_folder(arguments.run)
        results, unreadable = _detect_all(arguments, detector, device, paths, folder, console)
        predictions = folder / "predictions.json"
        write_json(predictions, results)
        found = sum(len(result["detections"]) for result in results)
        console.run_card(
            {
                "weights": f"{detector.weights.path} ({detector.size})",
                "pictures": f"{len(results)}, {len(unreadable)} could not be read",
                "detections": f"{found}, scores from {arguments.eval.conf:g}",
                "drawn": str(folder),
                "predictions": str(predictions),
            }
        )
        return {
            "run": folder,
            "pictures": len(results),
            "unreadable": unreadable,
            "detections": found,
            "results": results,
            "files": {"predictions": predictions},
        }


def find_pictures(sources: Sequence[str]) -> list[Path]:
    """The pictures that files and folders stand for: files as they are, those below a folder in order, each once.

    Raises:
        UserError: there is no such file or folder, or a folder holds no picture.
    """
    paths: list[Path] = []
    for source in map(Path, sources):
        if source.is_dir():
            below = sorted(Path(parent) / name for parent, _, names in os.walk(source) for name in names)
            pictures = [path for path in below if path.suffix.lower() in PICTURE_SUFFIXES and not _is_special(path)]
            if not pictures:
                raise UserError(f"{source}: no pictures in this folder")
            paths += pictures
        elif source.is_file():
            paths.append(source)
        else:
            raise UserError(f"{source}: there is no such picture or folder")
    return list(dict.fromkeys(paths))


def _is_special(path: Path) -> bool:
    """Pipes, sockets and devices: reading one may wait for ever. A broken link is none, so that it is reported."""
    return path.exists() and not path.is_file()


def _detect_all(
    arguments: EvalArguments,
    detector: TrainedDetector,
    device: torch.device,
    paths: Sequence[Path],
    folder: Path,
    console: Console,
) -> tuple[list[dict[str, Any]], list[str]]:
    """One result a picture, which is drawn into the folder as well; and the pictures that could not be read."""
    channels_last = arguments.run.channels_last is not False
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    model = detector.model.to(device, memory_format=memory_format)  # type: ignore[call-overload]
    detect = make_detect(model, device, arguments.eval, channels_last)
    batch_size = arguments.eval.val_batch or AccumulationConfig().micro_batch
    size_px = detector.size_px(arguments)
    names = _class_names(detector)
    results: list[dict[str, Any]] = []
    unreadable: list[str] = []
    with console.progress("pictures", len(paths)) as progress:
        for start in range(0, len(paths), batch_size):
            numbers = range(start, min(start + batch_size, len(paths)))
            pictures = list(_read(paths, numbers, unreadable, console))
            if pictures:
                batch = collate([_sample(picture, size_px) for picture in pictures])
                for picture, found in zip(pictures, detect(batch), strict=True):
                    results.append(_result(picture, found, detector))
                    _draw(picture, found, names, folder)
            progress(numbers.stop)
    if not results:
        raise UserError(f"none of the {len(paths)} pictures could be read; the first: {unreadable[0]}")
    return results, unreadable


def _read(paths: Sequence[Path], numbers: range, unreadable: list[str], console: Console) -> Iterator[_Picture]:
    for number in numbers:
        try:
            yield _Picture(number=number, path=paths[number], image=read_image(paths[number]))
        except UnreadableImageError as error:
            unreadable.append(str(error))
            console.on_message(f"warning: {error}; left out")


def _sample(picture: _Picture, size_px: int) -> Sample:
    image, placed = letterbox(picture.image, size_px)
    return Sample(
        image=to_channels_first(image),
        boxes_xyxy_px=np.zeros((0, 4), np.float32),
        labels=np.zeros(0, np.int64),
        image_index=picture.number,
        letterbox=placed,
    )


def _class_names(detector: TrainedDetector) -> tuple[str, ...]:
    if detector.classes is not None:
        return detector.classes.names
    return tuple(f"class {label}" for label in range(detector.weights.num_classes))


def _result(picture: _Picture, found: Detections, detector: TrainedDetector) -> dict[str, Any]:
    """Plain values; boxes are [left, top, width, height] in pixels of the picture."""
    names = _class_names(detector)
    ids = detector.classes.ids if detector.classes is not None else tuple(range(len(names)))
    height_px, width_px = picture.image.shape[:2]
    return {
        "file": str(picture.path),
        "width": width_px,
        "height": height_px,
        "detections": [
            {
                "class": names[label],
                "class_id": ids[label],
                "score": round(score, 6),
                "bbox": [round(value, 3) for value in (left, top, right - left, bottom - top)],
            }
            for (left, top, right, bottom), score, label in zip(
                found.boxes_xyxy_px.tolist(), found.scores.tolist(), found.labels.tolist(), strict=True
            )
        ],
    }


def _draw(picture: _Picture, found: Detections, names: Sequence[str], folder: Path) -> None:
    """A file with the picture's own name; its number is added where two pictures share one."""
    path = folder / f"{picture.path.stem}.jpg"
    if path.exists():
        path = folder / f"{picture.path.stem}_{picture.number}.jpg"
    save_detections(picture.image, found, names, path)
