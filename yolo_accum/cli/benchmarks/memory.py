"""What checkpointed activations save in memory and cost in time."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from yolo_accum.cli.embedded import default_data_folder
from yolo_accum.cli.training.build import Training, build_training
from yolo_accum.config.arguments import parse_train
from yolo_accum.config.schema import TrainConfig
from yolo_accum.contracts import Batch
from yolo_accum.data.description import open_data
from yolo_accum.data.synthetic import ensure_shapes
from yolo_accum.engine.memory import peak_memory_mib, restart_peak_memory
from yolo_accum.model.recompute import recompute_activations
from yolo_accum.report.console import Console

ROUNDS = 5
"""Alternations of plain and checkpointed updates; the ratio reported is the median over them."""
UPDATES_A_PROCESS = 2
"""Before peak memory is read; the second has optimizer state and gradients side by side."""


def benchmark_memory(argv: Sequence[str]) -> Mapping[str, Any]:
    """The figures, also printed.

    Args:
        argv: options of train; ``--batch`` is the number of images that go through the network in one go.
    """
    if argv and argv[0] == "process":  # a process of its own, started below
        return _memory_of_this_process(argv[1:])
    arguments = parse_train(argv)
    with Console(as_json=arguments.json) as console:
        console.on_message("measuring peak memory, plain and checkpointed each in a process of its own")
        plain, checkpointed = (_memory_elsewhere(argv, on) for on in (False, True))
        console.on_message("measuring time, alternating in this process")
        training, batch = _training(arguments.config)
        ratios = _time_ratios(training, batch)
        images = batch.num_images
        result = {
            "images": images,
            "plain": plain,
            "checkpointed": checkpointed,
            "peak_ratio": checkpointed["peak_mib"] / plain["peak_mib"],
            "batch_ratio": checkpointed["batch_mib"] / plain["batch_mib"],
            "time_ratio": statistics.median(ratios),
            "time_ratios": ratios,
        }
        console.run_card(
            {
                "model": f"{training.model_size}, {training.config.data.imgsz} px, {images} images in one go",
                "plain": f"peak {plain['peak_mib']:.0f} MiB, {plain['batch_mib']:.0f} MiB of it for the batch",
                "checkpointed": f"peak {checkpointed['peak_mib']:.0f} MiB, {checkpointed['batch_mib']:.0f} MiB of it "
                "for the batch",
                "memory ratio": f"{result['peak_ratio']:.3f}, for the batch {result['batch_ratio']:.3f}",
                "time ratio": f"{result['time_ratio']:.3f} (median of {', '.join(f'{r:.2f}' for r in ratios)})",
            }
        )
    return result


def _training(config: TrainConfig) -> tuple[Training, Batch]:
    """A run whose window is one micro-batch, and that micro-batch."""
    default = None if config.data.data else ensure_shapes(default_data_folder())
    index = open_data(config.data, default_data=default).train
    config = replace(
        config,
        data=replace(config.data, workers=0),
        accumulation=replace(config.accumulation, nbs=1, ramp=False),  # a micro-batch, whatever its size, is a window
    )
    training = build_training(config, index)
    return training, next(iter(training.batches())).to(training.device)


def _update(training: Training, batch: Batch) -> None:
    stepper = training.loop.stepper
    stepper.open_window(1)
    stepper.backward(stepper.forward(batch), 1.0)
    stepper.apply(1e-3, finite=True)


def _time_ratios(training: Training, batch: Batch) -> list[float]:
    """Time of a checkpointed update over that of a plain one, pair by pair."""
    ratios = []
    for round_ in range(ROUNDS + 1):
        seconds = []
        for on in (False, True):
            recompute_activations(training.model, on)
            start_s = time.perf_counter()
            _update(training, batch)  # ends with the gradient norm as a number, so a GPU has caught up
            seconds.append(time.perf_counter() - start_s)
        if round_ > 0:  # kernels prepare in the first
            ratios.append(seconds[1] / seconds[0])
    return ratios


def _memory_elsewhere(argv: Sequence[str], checkpointed: bool) -> dict[str, float]:
    """Peak memory of a new process, and what of it came with the batch."""
    words = [word for word in argv if not word.startswith("--json")]
    command = [sys.executable, "-m", "yolo_accum", "benchmark", "memory", "process", *words, "--json"]
    command.append(f"--checkpoint-activations={str(checkpointed).lower()}")
    outcome = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(outcome.stdout))


def _memory_of_this_process(argv: Sequence[str]) -> dict[str, float]:
    training, batch = _training(parse_train(argv).config)
    restart_peak_memory(training.device)  # what measured precisions counts no more
    before_mib = peak_memory_mib(training.device)
    for _ in range(UPDATES_A_PROCESS):
        _update(training, batch)
    peak_mib = peak_memory_mib(training.device)
    return {"peak_mib": peak_mib, "batch_mib": peak_mib - before_mib}
