"""What the labels of a run's data look like: recorded when the run starts, drawn in its page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from yolo_accum.contracts import DetectionIndex
from yolo_accum.report import page_charts
from yolo_accum.report.check_figures import split_figures
from yolo_accum.report.label_statistics import label_statistics

GRID = 16
"""Cells along each side of the picture of where objects lie."""
MAX_OBJECTS_PER_IMAGE = 20
"""Images with more objects share a bar."""
SPLIT_NAMES = {"train": "training", "val": "validation", "test": "test"}


def data_record(index: DetectionIndex, imgsz: int) -> dict[str, Any]:
    """The figures of `check` of a split, how many objects its images hold, and where they lie.

    Args:
        imgsz: side of the square network input in pixels; sizes of objects are as the network sees them.
    """
    statistics = label_statistics(index, imgsz)
    per_image = np.bincount(
        np.minimum(statistics.boxes_per_image, MAX_OBJECTS_PER_IMAGE + 1), minlength=MAX_OBJECTS_PER_IMAGE + 2
    )
    x, y = statistics.centres_norm.T
    centres, _, _ = np.histogram2d(y, x, bins=GRID, range=((0, 1), (0, 1)))
    return {
        **split_figures(index, imgsz),
        "source": str(index.source),
        "imgsz": imgsz,
        "images_by_objects": per_image.tolist(),
        "centres": centres.astype(int).tolist(),
    }


def data_charts(splits: Mapping[str, Mapping[str, Any]]) -> dict[str, page_charts.Chart]:
    """Charts of recorded splits, by key.

    Args:
        splits: by ``train``, ``val`` and ``test``, those that exist.
    """
    charts = {}
    named = {SPLIT_NAMES[name]: record for name, record in splits.items()}
    first = next(iter(named.values()))
    charts["data_classes"] = page_charts.bars(
        "Objects by class",
        "objects",
        [item["name"] for item in first["boxes_per_class"]],
        [
            {"name": name, "values": [item["boxes"] for item in record["boxes_per_class"]]}
            for name, record in named.items()
        ],
        across=True,
    )
    bars = [str(number) for number in range(MAX_OBJECTS_PER_IMAGE + 1)] + [f"> {MAX_OBJECTS_PER_IMAGE}"]
    highest = max(np.flatnonzero(record["images_by_objects"]).max(initial=0) for record in named.values())
    charts["data_per_image"] = page_charts.bars(
        "Objects in an image",
        "share of images",
        bars[: highest + 1],
        [
            {"name": name, "values": _shares(record["images_by_objects"][: highest + 1])}
            for name, record in named.items()
        ],
        category_label="objects",
    )
    sizes = _size_bars(named)
    if sizes is not None:
        charts["data_sizes"] = sizes
        charts["data_centres"] = _centres(named)
    return charts


def data_rows(splits: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """A table for people: what is counted, and a text for each split."""
    rows: list[tuple[str, list[str]]] = []
    for label, key in (
        ("file", "source"),
        ("images", "images"),
        ("images without objects", "images_without_objects"),
        ("objects", "boxes"),
        ("crowd regions", "crowd_regions"),
        ("classes with objects", "classes_with_boxes"),
        ("objects with a side under 8 px", "objects_under_8_px"),
    ):
        values = [record.get(key) for record in splits.values()]
        rows.append((label, [f"{value:,}" if isinstance(value, int) else str(value) for value in values]))
    return rows


def _shares(counts: list[int]) -> list[float]:
    total = max(1, sum(counts))
    return [number / total for number in counts]


def _size_bars(named: Mapping[str, Mapping[str, Any]]) -> page_charts.Chart | None:
    """Shares of the objects of each split by half octaves of their size."""
    histograms = {name: record["size_histogram_px"] for name, record in named.items()}
    # Half octaves as whole numbers, so that the bars of both splits are the same.
    starts = {
        name: [round(2 * np.log2(edge)) for edge in histogram["edges"][:-1]] for name, histogram in histograms.items()
    }
    places = [place for own in starts.values() for place in own]
    if not places:
        return None
    span = range(min(places), max(places) + 1)
    series = []
    for name, histogram in histograms.items():
        counts = dict(zip(starts[name], histogram["counts"], strict=True))
        series.append({"name": name, "values": _shares([counts.get(place, 0) for place in span])})
    imgsz = next(iter(named.values()))["imgsz"]
    return page_charts.bars(
        "Size of objects",
        "share of objects",
        [f"{2 ** (place / 2):.3g} - {2 ** ((place + 1) / 2):.3g}" for place in span],
        series,
        category_label=f"√(width x height) in px of the {imgsz} px input",
        note="The finest cells of the network are 8 px long. COCO calls objects small up to 32 px, large from 96 px, "
        "but in the original picture.",
    )


def _centres(named: Mapping[str, Mapping[str, Any]]) -> page_charts.Chart:
    name, record = next((item for item in named.items() if item[1]["boxes"]), next(iter(named.items())))
    ticks = [f"{(place + 0.5) / GRID:.2f}" for place in range(GRID)]
    return page_charts.heat(
        "Where objects lie",
        "x, share of the width",
        "y, share of the height",
        ticks,
        ticks,
        np.array(record["centres"]),
        note=f"Centres of the objects of the {name} images.",
    )
