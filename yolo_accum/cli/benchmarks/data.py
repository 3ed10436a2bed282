"""`benchmark data`: the speed of the data layer, as ratios taken side by side or against stated limits."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from yolo_accum.cli.benchmarks.index import measure_evaluation, measure_index, measure_workers, write_large_set
from yolo_accum.cli.benchmarks.samples import measure_samples
from yolo_accum.cli.embedded import embedded_data
from yolo_accum.config.benchmark_arguments import DataBenchmarkArguments, parse_data_benchmark
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.description import open_data
from yolo_accum.report.console import Console

BOXES_AN_IMAGE = 7.3
"""860,000 boxes on 118,000 pictures, as in COCO's training set."""
GROWTH = 3
"""The large set is also made so many times as large, to see that time and memory grow no faster."""
NUM_WORKERS = 8


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured number and what it should be."""

    name: str
    value: float
    limit: float
    is_ratio_to_reach: bool = False
    """Whether the value should reach the limit; else it should not pass it."""
    unit: str = ""
    details: str = ""

    @property
    def is_met(self) -> bool:
        return self.value >= self.limit if self.is_ratio_to_reach else self.value <= self.limit

    def text(self) -> str:
        bound = "at least" if self.is_ratio_to_reach else "at most"
        verdict = "" if self.is_met else "  NOT MET"
        unit = f" {self.unit}" if self.unit else ""
        details = f"; {self.details}" if self.details else ""
        return f"{self.value:.3g}{unit} ({bound} {self.limit:g}{unit}{details}){verdict}"


def benchmark_data(argv: Sequence[str]) -> Mapping[str, Any]:
    """The figures, also printed.

    Args:
        argv: options of `benchmark data`; in processes of their own, a measurement and what it works on.
    """
    if argv and argv[0] in _CHILDREN:
        return dict(_CHILDREN[argv[0]](argv[1:]))
    arguments = parse_data_benchmark(argv)
    with Console(as_json=arguments.json) as console:
        index = _pictures(arguments, console)
        figures: list[Figure] = []
        if "samples" in arguments.benchmark.parts:
            figures += _samples(index, arguments.benchmark.rounds, console)
        if {"index", "workers"} & set(arguments.benchmark.parts):
            figures += _large_set(arguments, index, console)
        if "evaluation" in arguments.benchmark.parts:
            figures += _evaluation(console)
        console.run_card({figure.name: figure.text() for figure in figures})
    return {"figures": [{**asdict(figure), "is_met": figure.is_met} for figure in figures]}


def _pictures(arguments: DataBenchmarkArguments, console: Console) -> DetectionIndex:
    default = embedded_data(console) if arguments.data.data is None else None
    return open_data(arguments.data, default_data=default).train


def _samples(index: DetectionIndex, rounds: int, console: Console) -> list[Figure]:
    limits = {("ram", 320): 0.9, ("ram", 640): 0.3, ("file", 320): 0.5, ("file", 640): 0.25}
    places = {"ram": "from --cache ram", "file": "from files"}
    with console.progress("training pictures and imread, alternating", 2 * rounds) as progress:
        measured = measure_samples(index, rounds, progress)
    return [
        Figure(
            name=f"training picture {places[place]}, {size_px} px, over cv2.imread",
            value=measured[place, size_px].ratio,
            limit=limit,
            is_ratio_to_reach=True,
            details=f"{measured[place, size_px].sample_ms:.2f} ms against {measured[place, size_px].imread_ms:.2f} ms",
        )
        for (place, size_px), limit in limits.items()
    ]


def _large_set(arguments: DataBenchmarkArguments, index: DetectionIndex, console: Console) -> list[Figure]:
    """Figures of a made-up data set of COCO's size."""
    num_images = arguments.benchmark.index_images
    parts = arguments.benchmark.parts
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="yolo-accum-benchmark-") as scratch:
        large = Path(scratch) / "large"
        console.on_message(f"making up a COCO JSON of {num_images} pictures")
        write_large_set(large, num_images, BOXES_AN_IMAGE, index)
        if "index" in parts:
            console.on_message("reading it, each time in a process of its own")
            cold, warm = _child("index", large), _child("index", large)
            name = f"index of {num_images} pictures"
            figures += [
                Figure(name=f"{name}, first time", value=cold["seconds"], limit=15, unit="s", details=_about(cold)),
                Figure(name=f"{name}, kept", value=warm["seconds"], limit=1, unit="s"),
                Figure(
                    name=f"{name}, peak memory over the file's size",
                    value=cold["peak_mib"] / cold["file_mib"],
                    limit=4,
                    details=f"{cold['peak_mib']:.0f} MiB, of which {cold['before_mib']:.0f} MiB before",
                ),
            ]
            larger = Path(scratch) / "larger"
            console.on_message(f"the same, {GROWTH} times as large")
            write_large_set(larger, GROWTH * num_images, BOXES_AN_IMAGE, index)
            grown = _child("index", larger)
            grown_mib, cold_mib = (item["peak_mib"] - item["before_mib"] for item in (grown, cold))
            figures += [
                Figure(
                    name=f"time for {GROWTH} times as much, over {GROWTH} times the time",
                    value=grown["seconds"] / cold["seconds"] / GROWTH,
                    limit=1.1,
                    details=f"{grown['seconds']:.1f} s",
                ),
                Figure(
                    name=f"memory for {GROWTH} times as much, over {GROWTH} times the memory",
                    value=grown_mib / cold_mib / GROWTH,
                    limit=1.1,
                    details=f"{grown_mib:.0f} MiB",
                ),
            ]
        if "workers" in parts:
            console.on_message(f"{NUM_WORKERS} loader processes on a tenth of it and on all of it")
            small = Path(scratch) / "small"
            write_large_set(small, max(10, num_images // 10), BOXES_AN_IMAGE, index)
            private = [_child("workers", folder)["private_mib"] for folder in (small, large)]
            figures.append(
                Figure(
                    name=f"private memory of a loader process ({NUM_WORKERS} of them), growth with ten times the set",
                    value=private[1] - private[0],
                    limit=5,
                    unit="MiB",
                    details=f"{private[0]:.0f} MiB and {private[1]:.0f} MiB",
                )
            )
    return figures


def _about(cold: Mapping[str, float]) -> str:
    return f"{cold['boxes']:.0f} boxes, {cold['file_mib']:.0f} MiB"


def _evaluation(console: Console) -> list[Figure]:
    console.on_message("evaluation of made-up detections")
    measured = _child("evaluation")
    name = "evaluation of 5,000 pictures x 100 detections x 80 classes"
    return [
        Figure(name=f"{name}, time", value=measured["seconds"], limit=3, unit="s"),
        Figure(name=f"{name}, memory", value=measured["grown_mib"], limit=500, unit="MiB"),
    ]


_CHILDREN: Mapping[str, Callable[[Sequence[str]], Mapping[str, float]]] = {
    "index": lambda words: measure_index(Path(words[0])),
    "workers": lambda words: measure_workers(Path(words[0]), NUM_WORKERS),
    "evaluation": lambda words: measure_evaluation(),
}
"""What is measured in processes of their own."""


def _child(measurement: str, *folders: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "yolo_accum", "benchmark", "data", measurement, *map(str, folders), "--json"]
    outcome = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(outcome.stdout))
