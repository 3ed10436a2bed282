"""`convert`: any data set that can be read, as COCO JSON."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from yolo_accum.config.convert_arguments import ConvertArguments, parse_convert
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.coco_writer import write_coco
from yolo_accum.data.description import AllSplits, open_all
from yolo_accum.errors import UserError
from yolo_accum.report.console import Console

_PICTURES = "images"


def run(argv: Sequence[str]) -> Mapping[str, Any]:
    """Convert as the options say; returns the files, the counts and what was found."""
    arguments = parse_convert(argv)
    with Console(as_json=arguments.json) as console:
        folder = Path(arguments.to)
        if folder.exists():
            raise UserError(
                f"--to {arguments.to}: this exists already; nothing is ever written over, name a new folder"
            )
        data = open_all(arguments.data)
        for finding in data.findings:
            console.on_message(f"{finding.kind.severity}: {finding}")
        _refuse_inside(folder, data.folders)
        _make(folder)
        files = {split: folder / f"{split}.json" for split in data.splits}
        num_pictures = sum(map(len, data.splits.values()))
        with console.progress("copying pictures" if arguments.copy else "writing", num_pictures) as progress:
            _write(data, files, folder, arguments, progress)
        counts = {split: _counts(index) for split, index in data.splits.items()}
        console.run_card(
            {
                "data": str(arguments.data.data),
                "kind": data.kind,
                **{
                    split: f"{files[split]}: {count['images']} images, {count['boxes']} boxes, "
                    f"{count['crowd_regions']} crowd regions, {count['classes']} classes"
                    for split, count in counts.items()
                },
                "train with": shlex.join(
                    ["--data", str(folder / "data.yaml" if "train" in files else next(iter(files.values())))]
                ),
            }
        )
        return {
            "data": arguments.data.data,
            "kind": data.kind,
            "to": folder,
            "splits": counts,
            "findings": [finding.as_dict() for finding in data.findings],
            "files": {**files, "data": folder / "data.yaml"},
        }


def _refuse_inside(folder: Path, data_folders: Sequence[Path]) -> None:
    """What is written among the data would be read as a part of them the next time."""
    place = folder.resolve()
    owner = next((owner for owner in data_folders if place.is_relative_to(owner)), None)
    if owner is not None:
        raise UserError(
            f"--to {folder}: this lies in {owner}, which belongs to the data set that is read; nothing is ever written "
            "into a data folder, name one outside it"
        )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"--to {folder}: cannot be made: {error.strerror}") from error


def _write(
    data: AllSplits,
    files: Mapping[str, Path],
    folder: Path,
    arguments: ConvertArguments,
    progress: Callable[[int], None],
) -> None:
    done = 0
    for split, index in data.splits.items():
        names = _names(index, folder, split) if arguments.copy else _references(index, folder)
        for path, name in zip(index.image_paths, names, strict=True):
            if arguments.copy:
                target = folder / _PICTURES / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
            done += 1
            progress(done)
        write_coco(files[split], index, names, keep_image_ids=data.has_image_ids)
    lines = [f"{split}: {path.name}" for split, path in files.items()]
    (folder / "data.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _references(index: DetectionIndex, folder: Path) -> list[str]:
    """The pictures where they are, seen from the JSON, so that both may be moved together."""
    base = folder.absolute()
    return [Path(os.path.relpath(path, base)).as_posix() for path in index.image_paths]


def _names(index: DetectionIndex, folder: Path, split: str) -> list[str]:
    """Below the folder of copies: the split, then what distinguishes the pictures from each other."""
    paths = list(index.image_paths)
    root = os.path.commonpath([os.path.dirname(path) for path in paths])  # noqa: PTH120
    return [f"{split}/{Path(path).relative_to(root).as_posix()}" for path in paths]


def _counts(index: DetectionIndex) -> dict[str, int]:
    crowd = int(index.is_crowd.sum())
    return {
        "images": len(index),
        "boxes": index.num_boxes - crowd,
        "crowd_regions": crowd,
        "classes": index.num_classes,
    }
