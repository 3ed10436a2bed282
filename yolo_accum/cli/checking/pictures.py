"""The part of `check` that looks into the pictures: damage, and pictures that are there more than once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from yolo_accum.cli.worker_count import num_workers
from yolo_accum.config.check_arguments import CheckArguments
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.check.leaks import Duplicates, SeenPictures, report_duplicates
from yolo_accum.data.check.pictures import PicturePass, decode_pictures
from yolo_accum.data.findings import FindingLog, Mark
from yolo_accum.report.console import Console


def check_pictures(
    splits: Mapping[str, DetectionIndex], arguments: CheckArguments, log: FindingLog, console: Console
) -> dict[str, Any]:
    """Decode every picture, or a sample of them, and compare them.

    Returns:
        how many were decoded, and which go together.
    """
    split_numbers, rows = _chosen(splits, arguments.check.sample)
    indices = list(splits.values())
    paths, widths_px, heights_px = [], np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int32)
    for place, (number, row) in enumerate(zip(split_numbers.tolist(), rows.tolist(), strict=True)):
        paths.append(indices[number].image_paths[row])
        widths_px[place], heights_px[place] = indices[number].widths_px[row], indices[number].heights_px[row]
    with console.progress("decoding pictures", len(rows)) as progress:
        seen = decode_pictures(
            paths,
            widths_px,
            heights_px,
            size_px=arguments.data.imgsz,
            workers=num_workers(arguments.data, len(rows)),
            progress=progress,
        )
    for number, index in enumerate(indices):
        mine = {place: text for place, text in seen.problems.items() if split_numbers[place] == number}
        marks = (Mark(picture=paths[place]) for place in mine)
        log.add(found.UNDECODABLE_PICTURE, index.source, len(mine), mine.values(), marks=marks)
    comparable = SeenPictures(splits=splits, split_numbers=split_numbers, rows=rows, prints=seen.prints).only(
        _readable_once(paths, seen)
    )
    duplicates = report_duplicates(comparable, log)
    return {"pictures_decoded": len(rows), "duplicates": _duplicates(comparable, duplicates)}


def _chosen(splits: Mapping[str, DetectionIndex], sample: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Split numbers and rows of the pictures to decode, at equal distances."""
    lengths = [len(index) for index in splits.values()]
    total = sum(lengths)
    chosen = np.linspace(0, total - 1, min(sample or total, total)).round().astype(np.int64)
    numbers = np.repeat(np.arange(len(lengths)), lengths)[chosen]
    starts = np.cumsum([0, *lengths])[:-1]
    return numbers, chosen - starts[numbers]


def _readable_once(paths: list[str], seen: PicturePass) -> np.ndarray:
    """Places of the pictures that could be read, of a file that is named again the first."""
    first: dict[str, int] = {}
    for place, path in enumerate(paths):
        if place not in seen.problems:
            first.setdefault(path, place)
    return np.fromiter(first.values(), np.int64, len(first))


def _duplicates(seen: SeenPictures, duplicates: Duplicates) -> dict[str, Any]:
    """All pairs, for scripts that clean up."""
    return {
        "same": [[seen.describe(int(one)), seen.describe(int(other))] for one, other in duplicates.same],
        "similar": [
            [seen.describe(int(one)), seen.describe(int(other)), round(float(correlation), 4)]
            for (one, other), correlation in zip(duplicates.similar, duplicates.correlations, strict=True)
        ],
    }
