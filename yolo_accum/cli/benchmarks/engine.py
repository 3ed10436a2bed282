"""What the training loop costs over bare forward, loss and backward, and what a window costs in memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from yolo_accum.cli.embedded import default_data_folder
from yolo_accum.cli.training.build import Training, build_training
from yolo_accum.config.arguments import parse_train
from yolo_accum.config.schema import TrainConfig
from yolo_accum.contracts import Batch
from yolo_accum.data.description import open_data
from yolo_accum.data.synthetic import ensure_shapes
from yolo_accum.engine.loop import FinishedWindow, LoopState
from yolo_accum.engine.memory import peak_memory_mib
from yolo_accum.report.console import Console

ROUNDS = 24
"""Alternations of loop and bare loop, one window each; the ratio reported is the median over them.

Many short rounds rather than few long ones: the speed of a shared machine drifts by a tenth within half a minute, and
only neighbouring segments can be compared.
"""
MEMORY_IMAGES = 256
"""Images that a process trains on before its peak memory is read, whatever its window."""


def benchmark_engine(argv: Sequence[str]) -> Mapping[str, Any]:
    """The figures, also printed.

    Args:
        argv: options of train.
    """
    if argv and argv[0] == "memory":  # a process of its own, started below
        return _memory_of_this_process(argv[1:])
    arguments = parse_train(argv)
    with Console(as_json=arguments.json) as console:
        training, speed = _speed(arguments.config, console)
        plan = training.plan
        console.on_message("measuring peak memory, each window length in a process of its own")
        window = _memory_elsewhere(argv, nbs=plan.nbs)
        single = _memory_elsewhere(argv, nbs=plan.batch)
        memory = {"window_mib": window, "micro_batch_mib": single, "ratio": window / single}
        console.run_card(
            {
                "model": f"{training.model_size}, {training.config.data.imgsz} px",
                "precision": training.loop.stepper.precision.name,
                "work": f"--batch {plan.batch} --nbs {plan.nbs}, {training.workers} workers",
                "training loop": f"{speed['loop_images_per_s']:.1f} images/s",
                "bare loop": f"{speed['bare_images_per_s']:.1f} images/s",
                "ratio": _spread(speed["ratios"]),
                "peak memory": f"{window:.0f} MiB with the window, {single:.0f} MiB with one micro-batch an update: "
                f"ratio {memory['ratio']:.3f}",
            }
        )
    return {"speed": speed, "memory": memory}


def _speed(config: TrainConfig, console: Console) -> tuple[Training, dict[str, Any]]:
    """Alternate segments of the training loop and of the bare loop in this process."""
    training, finished = _started(config)
    next(finished)  # starts the workers
    kept = _preloaded(training)
    loop_rates: list[float] = []
    bare_rates: list[float] = []
    with console.progress("alternating", ROUNDS) as progress:
        for done in range(ROUNDS):
            segments = [
                lambda: loop_rates.append(_loop_rate(finished)),
                lambda: bare_rates.append(_bare_rate(training, kept)),
            ]
            for segment in segments if done % 2 else reversed(segments):  # a drift then favours neither
                segment()
            progress(done + 1)
    ratios = [loop / bare for loop, bare in zip(loop_rates, bare_rates, strict=True)]
    return training, {
        "loop_images_per_s": statistics.median(loop_rates),
        "bare_images_per_s": statistics.median(bare_rates),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }


def _spread(ratios: Sequence[float]) -> str:
    """The median, and between which values the middle half lies."""
    low, median, high = statistics.quantiles(ratios, n=4)
    return f"{median:.3f} (median of {len(ratios)}, middle half {low:.3f} to {high:.3f})"


def _started(config: TrainConfig) -> tuple[Training, Iterator[FinishedWindow]]:
    """A run without ramp that is long enough, and its windows."""
    default = None if config.data.data else ensure_shapes(default_data_folder())
    index = open_data(config.data, default_data=default).train
    images = config.accumulation.nbs * (ROUNDS + 2)
    config = replace(
        config,
        optim=replace(config.optim, epochs=2 + images // len(index), warmup_epochs=0.0),
        accumulation=replace(config.accumulation, tail="carry", ramp=False),
    )
    training = build_training(config, index)
    return training, training.loop.run(training.batches(), LoopState())


def _preloaded(training: Training) -> list[Batch]:
    """Batches of the same data on the device, for the bare loop."""
    loader = replace(training, workers=0).batches()
    count = training.plan.window_length_nominal
    return [batch.to(training.device) for batch in islice(loader, count)]


def _loop_rate(finished: Iterator[FinishedWindow]) -> float:
    """Images/s of one window of the training loop: loading, update, averaging, counting.

    Workers have filled their queues before it and fill them again within it, so that it pays for as many images as it
    uses.
    """
    start_s = time.perf_counter()
    images = next(finished).window.num_images
    return images / (time.perf_counter() - start_s)


def _bare_rate(training: Training, batches: Sequence[Batch]) -> float:
    """Images/s of forward, loss and backward alone, over as many micro-batches."""
    stepper = training.loop.stepper
    start_s, images = time.perf_counter(), 0
    for batch in batches:
        stepper.model.zero_grad(set_to_none=True)
        stepper.backward(stepper.forward(batch), 1.0)
        images += batch.num_images
    return images / (time.perf_counter() - start_s)


def _memory_elsewhere(argv: Sequence[str], nbs: int) -> float:
    """Peak memory in MiB of a new process that trains a few windows of ``nbs`` images."""
    words = [word for word in argv if not word.startswith("--json")]
    command = [sys.executable, "-m", "yolo_accum", "benchmark", "engine", "memory", *words, "--nbs", str(nbs), "--json"]
    outcome = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(outcome.stdout)["peak_memory_mib"])


def _memory_of_this_process(argv: Sequence[str]) -> Mapping[str, Any]:
    training, finished = _started(parse_train(argv).config)
    windows = -(-MEMORY_IMAGES // (training.plan.batch * training.plan.window_length_nominal))
    for _ in islice(finished, windows):
        pass
    return {"peak_memory_mib": peak_memory_mib(training.device)}
