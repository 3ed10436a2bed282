"""Checks of what a training needs: memory, as predicted and in a window; time; and what happens without memory."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import torch

from yolo_accum.cli.failures import FAILED, describe_failure
from yolo_accum.cli.gpu_checks.setup import Outcome, Setup, synchronize
from yolo_accum.config.schema import AugmentConfig
from yolo_accum.contracts import Batch, DetectionIndex, SampleKey, StringTable
from yolo_accum.data.dataset import TrainDataset
from yolo_accum.data.loader import train_loader
from yolo_accum.data.synthetic_scene import CLASS_NAMES, draw_scene
from yolo_accum.data.worker_count import default_workers
from yolo_accum.engine.loop import FinishedWindow, Loop, LoopState
from yolo_accum.engine.memory_model import fit_memory
from yolo_accum.engine.memory_probe import PROBED_IMAGES, LiveTensors, probe
from yolo_accum.engine.update import Stepper

WINDOW_LIMIT = 1.02
"""Peak of a window over that of one micro-batch and the gradients, which only a window holds in a forward pass."""
PREDICTION_LIMIT = 0.1
LOOP_LIMIT = 0.9
"""Images/s of the training loop over those of forward, loss and backward alone."""
LOADER_LIMIT = 0.8
"""Images/s of loading and training over those of the slower of both."""
ROUNDS = 5
SPARED_BYTES = 256 * 2**20
"""Left free on a GPU that is to run out of memory."""
NUM_TOO_MANY = 10**11
"""Images that no address space holds."""


def check_memory(setup: Setup) -> Outcome:
    """A window needs what one micro-batch needs, and the prediction of `plan` holds."""
    predicted = probe(setup.stepper(setup.build_model("bn")), [setup.noise(images)[0] for images in PROBED_IMAGES])
    model = fit_memory(predicted.peaks, predicted.update_bytes)
    stepper = setup.stepper(setup.build_model("bn"))
    [batch], [large] = setup.noise(setup.batch), setup.noise(setup.nbs)
    single = _peak_bytes(stepper, batch, 1)
    window = _peak_bytes(stepper, batch, setup.window_length)
    gradients = sum(parameter.numel() * parameter.element_size() for parameter in stepper.model.parameters())
    ratio = window / (single + gradients)
    measured = {setup.batch: window, setup.nbs: _peak_bytes(stepper, large, 2)}
    errors = {images: model.peak_bytes(images) / peak - 1 for images, peak in measured.items()}
    figures = {"window_bytes": window, "micro_batch_bytes": single, "ratio": ratio}
    figures |= {f"prediction_error_{images}": error for images, error in errors.items()}
    ok = ratio <= WINDOW_LIMIT and max(map(abs, errors.values())) <= PREDICTION_LIMIT
    return Outcome(
        ok=ok,
        text=f"window {window / 2**20:.1f} MiB, one micro-batch {single / 2**20:.1f} MiB (with gradients: ratio "
        f"{ratio:.3f}); prediction off by {', '.join(f'{e:+.1%} at {n} images' for n, e in errors.items())}",
        figures=figures,
    )


def check_speed(setup: Setup) -> Outcome:
    """The loop against forward, loss and backward alone, in both memory formats; with the loader against both."""
    figures: dict[str, float] = {}
    for channels_last in (False, True):
        name = "channels_last" if channels_last else "contiguous"
        loop_rate, bare_rate, ratio = _loop_and_bare(setup, channels_last)
        figures |= {f"loop_{name}": loop_rate, f"bare_{name}": bare_rate, f"ratio_{name}": ratio}
    with tempfile.TemporaryDirectory() as folder:
        index = draw_index(Path(folder), setup.nbs if setup.reduced else 4 * setup.nbs)
        loader_rate, both_rate = _with_loader(setup, index)
    slower = min(loader_rate, figures["loop_channels_last"])
    figures |= {"loader": loader_rate, "loader_and_loop": both_rate, "ratio_loader": both_rate / slower}
    ratio = max(figures["ratio_contiguous"], figures["ratio_channels_last"])
    ok = setup.reduced or (ratio >= LOOP_LIMIT and figures["ratio_loader"] >= LOADER_LIMIT)
    return Outcome(
        ok=ok,
        text=f"images/s: loop {figures['loop_contiguous']:.0f}, channels_last {figures['loop_channels_last']:.0f}; "
        f"ratio to the bare loop {figures['ratio_contiguous']:.2f} and {figures['ratio_channels_last']:.2f}; loader "
        f"{loader_rate:.0f}, with training {both_rate:.0f}",
        figures=figures,
    )


def check_out_of_memory(setup: Setup) -> Outcome:
    """Memory that really runs out is told in a sentence, with exit code 3, and training can go on afterwards."""
    stepper = setup.stepper(setup.build_model("bn"))
    code, sentence = _run_out(setup, stepper)
    if setup.device.type == "cuda":
        torch.cuda.empty_cache()
    [finished] = setup.loop(stepper, num_updates=1).run(setup.noise(setup.nbs, setup.batch), LoopState())
    applied = finished.state.clock.updates_applied
    return Outcome(
        ok=code == FAILED and "--batch" in sentence and applied == 1,
        text=f"exit code {code}, then {applied} of 1 updates applied; {sentence}",
        figures={"exit_code": code, "applied": applied},
    )


def draw_index(folder: Path, num_images: int) -> DetectionIndex:
    """Pictures like those of the embedded data set, fewer of them."""
    scenes = [draw_scene(np.random.default_rng([1, number])) for number in range(num_images)]
    paths = [folder / f"{number}.jpg" for number in range(num_images)]
    for path, scene in zip(paths, scenes, strict=True):
        cv2.imwrite(str(path), scene.image)
    counts = [len(scene.labels) for scene in scenes]
    corners = np.concatenate([np.asarray(scene.boxes_xywh_px, np.float64).reshape(-1, 4) for scene in scenes])
    corners[:, 2:] += corners[:, :2]
    return DetectionIndex(
        source=folder,
        image_paths=StringTable([str(path) for path in paths]),
        image_ids=tuple(range(num_images)),
        widths_px=np.array([scene.image.shape[1] for scene in scenes], np.int32),
        heights_px=np.array([scene.image.shape[0] for scene in scenes], np.int32),
        box_starts=np.concatenate(([0], np.cumsum(counts))),
        boxes_xyxy_px=corners,
        labels=np.concatenate([scene.labels for scene in scenes]).astype(np.int32),
        is_crowd=np.zeros(sum(counts), bool),
        areas_px=np.concatenate([scene.areas_px for scene in scenes]).astype(np.float64),
        class_names=tuple(CLASS_NAMES),
        class_ids=tuple(range(len(CLASS_NAMES))),
    )


def _peak_bytes(stepper: Stepper, batch: Batch, num_micro_batches: int) -> float:
    """Of a window, after one to warm up: the allocator's on CUDA, of live tensors on a CPU."""
    if stepper.device.type == "cuda":
        _window(stepper, batch, num_micro_batches)
        torch.cuda.reset_peak_memory_stats(stepper.device)
        _window(stepper, batch, num_micro_batches)
        return float(torch.cuda.max_memory_allocated(stepper.device))
    with LiveTensors() as live:
        _window(stepper, batch, num_micro_batches)
        live.take_peak()
        _window(stepper, batch, num_micro_batches)
        return live.take_peak()


def _window(stepper: Stepper, batch: Batch, num_micro_batches: int) -> None:
    stepper.open_window(num_micro_batches)
    for _ in range(num_micro_batches):
        stepper.backward(stepper.forward(batch.to(stepper.device)), 1.0)
    stepper.apply(1.0, finite=True)


def _loop_and_bare(setup: Setup, channels_last: bool) -> tuple[float, float, float]:
    """Images/s of both, and the ratio, medians of alternating rounds."""
    rounds = 1 if setup.reduced else ROUNDS
    stepper = setup.stepper(
        setup.build_model("bn"), precision="off" if setup.reduced else "fp16", channels_last=channels_last
    )
    batches = setup.noise(setup.nbs, setup.batch)
    if setup.device.type == "cuda":
        batches = [batch.pin_memory() for batch in batches]
    finished = setup.loop(stepper, num_updates=rounds + 1).run(batches * (rounds + 1), LoopState())
    next(finished)
    on_device = [batch.to(setup.device) for batch in batches]
    loop_rates, bare_rates = [], []
    for _ in range(rounds):
        loop_rates.append(_rate(setup, islice(finished, 1)))
        bare_rates.append(_rate(setup, _bare(stepper, on_device)))
    ratio = statistics.median(loop / bare for loop, bare in zip(loop_rates, bare_rates, strict=True))
    return statistics.median(loop_rates), statistics.median(bare_rates), ratio


def _bare(stepper: Stepper, batches: Iterable[Batch]) -> Iterator[Batch]:
    for batch in batches:
        stepper.model.zero_grad(set_to_none=True)
        stepper.backward(stepper.forward(batch), 1.0)
        yield batch


def _with_loader(setup: Setup, index: DetectionIndex) -> tuple[float, float]:
    """Images/s of loading alone, and of loading and training together."""
    stepper = setup.stepper(setup.build_model("bn"), precision="off" if setup.reduced else "fp16", channels_last=True)
    loop = setup.loop(stepper, num_updates=2 if setup.reduced else 16, num_images=len(index))
    loading = iter(_loader(setup, loop, index))
    next(loading)  # starts the workers
    loader_rate = _rate(setup, loading)
    finished = loop.run(_loader(setup, loop, index), LoopState())
    next(finished)
    return loader_rate, _rate(setup, finished)


def _loader(setup: Setup, loop: Loop, index: DetectionIndex) -> Iterable[Batch]:
    plan = loop.plan
    keys = [
        [SampleKey(item.epoch, position, setup.size_px) for position in range(item.start, item.stop)]
        for window in plan.windows()
        for item in window.micro_batches
    ]
    dataset = TrainDataset(index, AugmentConfig(), seed=0, num_epochs=plan.epochs)
    workers = 0 if setup.reduced else default_workers(os.cpu_count() or 1)
    loader: Iterable[Batch] = train_loader(dataset, keys, workers=workers, pin_memory=setup.device.type == "cuda")
    return loader


def _rate(setup: Setup, items: Iterable[Batch | FinishedWindow]) -> float:
    """Images/s of going through all items."""
    synchronize(setup.device)
    start_s, images = time.perf_counter(), 0
    for item in items:
        images += item.num_images if isinstance(item, Batch) else item.window.num_images
    synchronize(setup.device)
    return images / (time.perf_counter() - start_s)


def _run_out(setup: Setup, stepper: Stepper) -> tuple[int, str]:
    """Exit code and sentence of a training step without memory."""
    [batch] = setup.noise(setup.nbs)
    ballast = None
    if setup.device.type == "cuda":
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(setup.device)
        ballast = torch.empty(free - SPARED_BYTES, dtype=torch.uint8, device=setup.device)
        batch = batch.to(setup.device)
    else:
        images = batch.images[:1].expand(NUM_TOO_MANY, -1, -1, -1)
        batch = Batch(**(vars(batch) | {"images": images}))
    try:
        _window(stepper, batch, 1)
    except RuntimeError as error:
        return describe_failure(error)
    finally:
        del ballast
    return 0, "memory did not run out"
