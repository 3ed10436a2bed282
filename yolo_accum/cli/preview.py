"""`preview`: training pictures as the network will see them, each with what makes it again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np

from yolo_accum.cli.embedded import embedded_data
from yolo_accum.cli.output import write_json
from yolo_accum.cli.problems import ProblemReporter
from yolo_accum.cli.run_folder import make_run_folder
from yolo_accum.cli.training.data import micro_batch_keys, training_dataset
from yolo_accum.cli.training.plan import plan_of
from yolo_accum.cli.worker_count import num_workers
from yolo_accum.config.preview_arguments import PreviewArguments, parse_preview
from yolo_accum.contracts import Batch, DetectionIndex, SampleKey
from yolo_accum.data.description import open_data
from yolo_accum.data.loader import train_loader
from yolo_accum.engine.plan import Plan
from yolo_accum.errors import UserError
from yolo_accum.report import tables
from yolo_accum.report.console import Console
from yolo_accum.report.picture_grid import GridPicture, plot_grid

PICTURES_A_SHEET = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class _Shown:
    """One training picture with its key."""

    key: SampleKey
    micro_batch: int
    """0-based, in its epoch."""
    image: np.ndarray
    """[size, size, 3] uint8, RGB."""
    boxes_xyxy_px: np.ndarray
    """[N, 4] float32."""
    labels: np.ndarray
    """[N]."""
    row: int
    """Of the index."""


def run(argv: Sequence[str]) -> Mapping[str, Any]:
    """Show what the options ask for; returns seed, epoch and position of every picture, its boxes, and the files."""
    arguments = parse_preview(argv)
    config = arguments.config
    if config.accumulation.batch == "auto":
        raise UserError("--batch auto is chosen by a training; give the number that it chose")
    with Console(as_json=arguments.json) as console:
        if arguments.recipe is not None:
            console.on_message(f"recipe {arguments.recipe}: its options apply where the command line says nothing")
        default = embedded_data(console) if config.data.data is None else None
        splits = open_data(config.data, default_data=default)
        for finding in splits.findings:
            console.on_message(f"{finding.kind.severity}: {finding}")
        dataset = training_dataset(config, splits.train)
        plan = plan_of(config, len(dataset))
        chosen = _chosen(arguments, plan)
        loader = train_loader(
            dataset,
            [keys for _, keys in chosen],
            workers=num_workers(config.data, sum(len(keys) for _, keys in chosen)),
            pin_memory=False,
        )
        problems: list[str] = []

        def warn(problem: str) -> None:
            problems.append(problem)
            console.warn(problem)

        batches = ProblemReporter(warn).watch(cast("Iterable[Batch]", loader))
        shown = [picture for place, batch in zip(chosen, batches, strict=True) for picture in _pictures(place, batch)]
        folder = make_run_folder(config.run)
        result = _write(arguments, splits.train, shown, folder)
        result["problems"] = problems
        write_json(folder / "preview.json", result)
        _print(console, result)
    return result


def _chosen(arguments: PreviewArguments, plan: Plan) -> list[tuple[int, list[SampleKey]]]:
    """Micro-batches of the plan to show, by number in their epoch, with their keys (one of them for one picture).

    Raises:
        UserError: the run has no such epoch or position, or drops it.
    """
    epoch, position = arguments.preview.epoch, arguments.preview.position
    if epoch >= plan.epochs:
        raise UserError(f"--epoch {epoch}: the run has {plan.epochs} epochs, 0 to {plan.epochs - 1}")
    if position is not None and position >= plan.num_images:
        raise UserError(f"--position {position}: an epoch has {plan.num_images} pictures, 0 to {plan.num_images - 1}")
    # From the start of the run on, as the training itself: what is drawn for a whole window is drawn in order.
    all_keys = micro_batch_keys(plan, arguments.config, 0, 1)
    of_epoch = itertools.takewhile(
        lambda keys: keys[0].epoch == epoch, itertools.dropwhile(lambda keys: keys[0].epoch < epoch, all_keys)
    )
    numbered = ((keys[0].position // plan.batch, keys) for keys in of_epoch)
    if position is None:
        chosen = list(itertools.islice(numbered, arguments.preview.batches))
    else:
        keys_at = ((number, [key for key in keys if key.position == position]) for number, keys in numbered)
        chosen = list(itertools.islice(((number, keys) for number, keys in keys_at if keys), 1))
    if not chosen:
        what = f"position {position} of epoch {epoch}" if position is not None else f"epoch {epoch}"
        raise UserError(f"{what} is not trained on: --tail {plan.tail} drops it")
    return chosen


def _pictures(place: tuple[int, list[SampleKey]], batch: Batch) -> Iterator[_Shown]:
    number, keys = place
    for slot, key in enumerate(keys):
        own = (batch.sample_of_box == slot).numpy()
        yield _Shown(
            key=key,
            micro_batch=number,
            image=batch.images[slot].numpy().transpose(1, 2, 0),
            boxes_xyxy_px=batch.boxes_xyxy_px.numpy()[own],
            labels=batch.labels.numpy()[own],
            row=int(batch.image_indices[slot]),
        )


def _write(arguments: PreviewArguments, index: DetectionIndex, shown: Sequence[_Shown], folder: Path) -> dict[str, Any]:
    """The pictures as they are, sheets of them with their boxes, and what is written about them."""
    seed = arguments.config.run.seed
    (folder / "pictures").mkdir()
    sheets = []
    for start in range(0, len(shown), PICTURES_A_SHEET):
        part = shown[start : start + PICTURES_A_SHEET]
        first, last = part[0].key, part[-1].key
        title = f"Training pictures: seed {seed}, epoch {first.epoch}, positions {first.position} to {last.position}"
        sheet = folder / f"sheet_{start // PICTURES_A_SHEET + 1:03d}.png"
        sheets.append(plot_grid([_in_grid(item, index) for item in part], index.class_names, title, sheet))
    pictures = []
    for item in shown:
        file = folder / "pictures" / f"epoch{item.key.epoch}_position{item.key.position}.png"
        file.write_bytes(cv2.imencode(".png", np.ascontiguousarray(item.image[..., ::-1]))[1].tobytes())
        pictures.append(_described(item, index, file, seed))
    return {
        "run": folder,
        "seed": seed,
        "epoch": arguments.preview.epoch,
        "epochs": arguments.config.optim.epochs,
        "batch": arguments.config.accumulation.batch,
        "imgsz": arguments.config.data.imgsz,
        "num_images": len(index),
        "pictures": pictures,
        "files": {"preview": folder / "preview.json", "sheets": sheets, "pictures": folder / "pictures"},
    }


def _in_grid(item: _Shown, index: DetectionIndex) -> GridPicture:
    name = Path(index.image_paths[item.row]).name
    return GridPicture(
        image=item.image,
        boxes_xyxy_px=item.boxes_xyxy_px,
        labels=item.labels,
        caption=f"position {item.key.position}, objects: {len(item.labels)}, {name}",
    )


def _described(item: _Shown, index: DetectionIndex, file: Path, seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "epoch": item.key.epoch,
        "position": item.key.position,
        "size_px": item.key.size_px,
        "micro_batch": item.micro_batch,
        "image": index.image_paths[item.row],
        "image_id": index.image_ids[item.row],
        "file": file,
        "boxes": [
            {
                "xyxy_px": [round(float(side), 3) for side in box],
                "class_id": index.class_ids[label],
                "name": index.class_names[label],
            }
            for box, label in zip(item.boxes_xyxy_px, item.labels, strict=True)
        ],
    }


def _print(console: Console, result: Mapping[str, Any]) -> None:
    console.terminal.print(
        tables.columns(
            f"Training pictures, seed {result['seed']}, epoch {result['epoch']}",
            ("position", "micro-batch", "px", "objects", "picture at this position"),
            [
                (
                    str(item["position"]),
                    str(item["micro_batch"]),
                    str(item["size_px"]),
                    str(len(item["boxes"])),
                    Path(item["image"]).name,
                )
                for item in result["pictures"]
            ],
        )
    )
    first = result["pictures"][0]
    console.on_message(
        f"made again by the same options with --seed {result['seed']} --epoch {result['epoch']} --position N, "
        f"for example --position {first['position']}"
    )
    for sheet in result["files"]["sheets"]:
        console.on_message(f"written: {sheet}")
    console.on_message(f"written: {result['files']['pictures']} (as they are), {result['files']['preview']}")
