"""`plan`: the updates of a run before anything is trained. Planning from numbers alone loads no torch."""

from __future__ import annotations

import importlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from yolo_accum.cli.planning.notices import first_spans, plan_notices, tail_text
from yolo_accum.cli.training.plan import plan_of, schedule_of
from yolo_accum.config.byte_size import size_text
from yolo_accum.config.plan_arguments import PlanArguments, parse_plan
from yolo_accum.config.schema import TrainConfig
from yolo_accum.data.multi_scale import training_sizes_px, window_size_px
from yolo_accum.engine.plan import (
    Plan,
    Span,
    check_divisible,
    exact_batches,
    scaled_weight_decay,
)
from yolo_accum.engine.ramp import Schedule, choose_optimizer
from yolo_accum.errors import UserError
from yolo_accum.report import tables
from yolo_accum.report.plan_plot import PlanColumns, plot_plan

NUM_LISTED = 20
"""Windows that are listed unless all are asked for."""
COURSE_SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Places of the run whose learning rate and momentum are shown, besides warm-up's."""


def run(argv: Sequence[str]) -> Mapping[str, Any]:
    """Plan as the options say; returns the plan as columns and numbers."""
    arguments = parse_plan(argv)
    config = arguments.config
    num_images, source, index = _training_images(arguments)
    replicas = arguments.plan.replicas or config.run.device.count(",") + 1
    memory: Any = None
    if config.accumulation.memory is not None or config.accumulation.batch == "auto":
        # Measuring needs torch, which plans from numbers alone do without.
        measuring = importlib.import_module("yolo_accum.cli.planning.memory")
        memory = measuring.plan_report(config, num_images, index, replicas)
    if memory is not None and config.accumulation.batch == "auto":
        batch = memory.batch(config.model.checkpoint_activations)
        config = replace(config, accumulation=replace(config.accumulation, batch=batch))
    plan = plan_of(config, num_images)
    check_divisible(plan.batch, replicas)
    spans = list(plan.spans())
    optimizer, lr0 = choose_optimizer(config.optim, plan.num_updates)
    schedule = schedule_of(config.optim, plan, lr0)
    updates = _updates(spans, schedule)
    result = {
        **_numbers(plan, replicas),
        "optimizer": optimizer,
        "lr0": lr0,
        "weight_decay_in_force": scaled_weight_decay(config.optim.weight_decay, plan.base.batch, plan.nbs),
        "windows_by_images": dict(sorted(Counter(span.num_images for span in spans if not span.dropped).items())),
        "course": _course(updates),
        "sizes_px": list(training_sizes_px(config.data.imgsz, config.augment.multi_scale)),
        "windows": {
            "size_px": _sizes_px(config, plan, spans),
            "first_micro_batch": [span.first for span in spans],
            "last_micro_batch": [span.last for span in spans],
            "images": [span.num_images for span in spans],
            "dropped": [number for number, span in enumerate(spans) if span.dropped],
        },
        "closing_micro_batches": [span.last for span in spans if not span.dropped],
        "notices": plan_notices(plan),
        **({"memory": memory.as_dict()} if memory is not None else {}),
    }
    if not arguments.json:
        _print(arguments, plan, result, spans, source)
    if arguments.plan.plot is not None:
        result["plot"] = plot_plan(_columns(plan, spans, updates), plan.nbs, _png(arguments.plan.plot))
    return result


def _training_images(arguments: PlanArguments) -> tuple[int, str, Any]:
    """How many, where that is known from, and their index where there is one."""
    balance = arguments.config.data.balance
    if arguments.plan.num_images is not None:
        if balance:
            raise UserError(f"--balance {balance:g}: how often an image comes up depends on its objects; give --data")
        return arguments.plan.num_images, "as given", None
    # Reading data loads OpenCV and more, so that this module is imported for data only.
    reading = importlib.import_module("yolo_accum.cli.planning.data")
    opened = reading.training_index(arguments.config.data, arguments.json)
    if not balance:
        return len(opened), str(opened.source), opened
    order = importlib.import_module("yolo_accum.data.sampling").image_order(opened, seed=0, balance=balance)
    return order.num_positions, f"{opened.source}: {len(opened)}, repeated by --balance {balance:g}", opened


def _sizes_px(config: TrainConfig, plan: Plan, spans: Sequence[Span]) -> list[int]:
    """Side of the network input in each window; nothing where it is always the same."""
    if not config.augment.multi_scale:
        return []
    before = np.cumsum([0, *(span.num_images for span in spans[:-1])])
    return [
        window_size_px(
            config.data.imgsz, config.augment.multi_scale, seed=config.run.seed, epoch=epoch, position=position
        )
        for epoch, position in zip(*(part.tolist() for part in np.divmod(before, plan.num_images)), strict=True)
    ]


def _numbers(plan: Plan, replicas: int) -> dict[str, Any]:
    length = plan.window_length_nominal
    full = plan.full_window_images
    return {
        "images": plan.num_images,
        "epochs": plan.epochs,
        "batch": plan.batch,
        "window_batch": plan.base.batch,
        "replicas": replicas,
        "images_a_replica": plan.batch // replicas,
        "nbs": plan.nbs,
        "tail": plan.tail,
        "ramp": plan.ramp,
        "window_length": length,
        "images_per_update": full,
        "is_exact": full == plan.nbs,
        "exact_batches": list(exact_batches(plan.base.batch, plan.nbs)),
        "micro_batches_per_epoch": plan.micro_batches_per_epoch,
        "micro_batches": plan.num_micro_batches,
        "warmup_micro_batches": plan.warmup_micro_batches,
        "warmup_images": plan.warmup_images,
        "warmup_updates": sum(
            span.last <= plan.warmup_micro_batches for span in first_spans(plan.base) if plan.warmup_micro_batches
        ),
        "updates": plan.num_updates,
        "updates_per_epoch": plan.updates_per_epoch,
        "images_dropped": plan.num_images_dropped,
    }


def _updates(spans: Sequence[Span], schedule: Schedule) -> dict[str, np.ndarray]:
    """One entry an update: images applied before it, images seen before it, learning rate and momentum."""
    seen = np.cumsum([0, *(span.num_images for span in spans[:-1])])
    kept = np.array([not span.dropped for span in spans])
    images = np.array([span.num_images for span in spans])[kept]
    applied = np.concatenate([[0], np.cumsum(images)[:-1]])
    values = [schedule.at(count) for count in applied.tolist()]
    return {
        "number": np.arange(1, len(images) + 1),
        "images_before": seen[kept],
        "images": images,
        "micro_batches": np.array([span.last - span.first + 1 for span in spans])[kept],
        "last_micro_batch": np.array([span.last for span in spans])[kept],
        "lr": np.array([value.lr for value in values]),
        "momentum": np.array([value.momentum for value in values]),
        "warmup": applied < schedule.warmup_images,
    }


def _course(updates: Mapping[str, np.ndarray]) -> list[dict[str, float]]:
    """What some updates use: at the start, half-way through warm-up and after it, and along the run."""
    last, num_warmup = len(updates["number"]) - 1, int(updates["warmup"].sum())
    places = {round(share * last) for share in COURSE_SHARES} | {num_warmup // 2, min(num_warmup, last)}
    return [
        {
            "update": int(updates["number"][place]),
            "images_before": int(updates["images_before"][place]),
            "window_length": int(updates["micro_batches"][place]),
            "images": int(updates["images"][place]),
            "lr": float(updates["lr"][place]),
            "momentum": float(updates["momentum"][place]),
        }
        for place in sorted(places)
    ]


def _columns(plan: Plan, spans: Sequence[Span], updates: Mapping[str, np.ndarray]) -> PlanColumns:
    until = plan.warmup_images + 2 * max(plan.num_images, plan.full_window_images)
    num_epochs = min(plan.epochs, until // plan.num_images + 1)
    return PlanColumns(
        images_before=updates["images_before"],
        num_micro_batches=updates["micro_batches"],
        num_images=updates["images"],
        lr=updates["lr"],
        momentum=updates["momentum"],
        num_first=int((updates["images_before"] + updates["images"] <= until).sum()),
        epoch_images=[epoch * plan.num_images for epoch in range(num_epochs)],
    )


def _png(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() != ".png":
        raise UserError(f"--plot {text}: the name of a .png file is needed")
    if not path.absolute().parent.is_dir():
        raise UserError(f"--plot {text}: there is no folder {path.parent}")
    return path


def _print(arguments: PlanArguments, plan: Plan, result: Mapping[str, Any], spans: Sequence[Span], source: str) -> None:
    """The plan for people."""
    terminal = tables.open_terminal(as_json=False)
    length, replicas, decay = plan.window_length_nominal, result["replicas"], result["weight_decay_in_force"]
    grown = plan.base.window_length_nominal
    option = "--batch" if plan.base is plan else "--window-batch"
    sizes = result["sizes_px"]
    nearest = " or ".join(str(value) for value in result["exact_batches"])
    rows = {
        "training images": f"{plan.num_images} ({source}), {plan.epochs} epochs",
        "micro-batch (m x D)": f"{plan.batch} images ({plan.batch // replicas} x {replicas} replicas)",
        "micro-batches": f"{plan.micro_batches_per_epoch} an epoch, {plan.num_micro_batches} in all",
        "window (K)": f"{length} micro-batch{'es' * (length > 1)} an update"
        + (f", windows of micro-batches of {plan.base.batch} cut anew" if plan.base is not plan else ""),
        "images per update": f"{result['images_per_update']}, nominal batch {plan.nbs}"
        + (" (exact)" if result["is_exact"] else f"; exact with {option} {nearest}"),
        "updates": f"{plan.updates_per_epoch:g} an epoch after warm-up, {plan.num_updates} in all",
        "warm-up": f"{result['warmup_updates']} updates, {plan.warmup_micro_batches} micro-batches, "
        f"{plan.warmup_images} images; {f'K grows from 1 to {grown}' if plan.ramp and grown > 1 else 'K is constant'}"
        if plan.warmup_micro_batches
        else "none",
        "tail of an epoch": tail_text(plan),
        "windows": ", ".join(
            f"{count} of {images} images"
            for images, count in sorted(result["windows_by_images"].items(), key=lambda item: -item[1])[:6]
        )
        + (", and others" if len(result["windows_by_images"]) > 6 else ""),
        "network input": f"{sizes[0]} to {sizes[-1]} px, one of {len(sizes)} sides a window"
        if len(sizes) > 1
        else f"{sizes[0]} px",
        "optimizer": f"{result['optimizer']}, lr {result['lr0']:g} per nominal batch",
        "weight decay in force": f"{decay:g} over the whole run, for --weight-decay "
        f"{arguments.config.optim.weight_decay:g}",
    }
    terminal.print(tables.pairs("Plan", rows))
    listed = spans if arguments.plan.all else spans[:NUM_LISTED]
    rest = f", the first {len(listed)} of {len(spans)} (--all lists them all)" if len(listed) < len(spans) else ""
    ends = itertools.accumulate(span.num_images for span in listed)
    terminal.print(
        tables.columns(
            f"Windows{rest}",
            ("window", "epoch", "first micro-batch", "last micro-batch", "K", "images", ""),
            [
                (
                    str(number),
                    str((end - 1) // plan.num_images + 1),
                    str(span.first),
                    str(span.last),
                    str(span.last - span.first + 1),
                    str(span.num_images),
                    "dropped" if span.dropped else "",
                )
                for number, (span, end) in enumerate(zip(listed, ends, strict=True), start=1)
            ],
        )
    )
    terminal.print(
        tables.columns(
            "Over the run",
            ("update", "images before", "K", "images", "lr", "momentum", "weight decay"),
            [
                (
                    str(row["update"]),
                    str(row["images_before"]),
                    str(row["window_length"]),
                    str(row["images"]),
                    f"{row['lr']:.4g}",
                    f"{row['momentum']:.4g}",
                    f"{decay:.4g}",
                )
                for row in result["course"]
            ],
        )
    )
    if "memory" in result:
        _print_memory(terminal, result["memory"])
    for notice in result["notices"]:
        terminal.print(f"notice: {notice}", markup=False, highlight=False, soft_wrap=True)


def _print_memory(terminal: Console, memory: Mapping[str, Any]) -> None:
    """What fits, and what to take."""

    def choice(row: Mapping[str, Any]) -> str:
        switch = " --checkpoint-activations" if row["checkpoint_activations"] else ""
        return f"--batch {row['batch']} --norm {row['norm']}{switch}"

    def cosine(row: Mapping[str, Any]) -> str:
        return "not measured" if row["gradient_cosine"] is None else f"{row['gradient_cosine']:.2f}"

    terminal.print(
        tables.columns(
            f"Memory of a replica on {memory['device']}: {size_text(memory['memory_bytes'])}, of which "
            f"{memory['headroom']:.0%} are to stay free; images with {memory['objects_an_image']} objects",
            ("batch", "images a replica", "K", "activations", "peak", "fits", "norm", "cosine", "time"),
            [
                (
                    str(row["batch"]),
                    str(row["images_a_replica"]),
                    str(row["window_length"]),
                    "recomputed" if row["checkpoint_activations"] else "kept",
                    size_text(row["peak_bytes"]),
                    "yes" if row["fits"] else "no",
                    row["norm"],
                    cosine(row),
                    f"{row['time']:.2f}",
                )
                for row in memory["predicted"]
            ],
        )
    )
    best = memory["recommended"]
    advice = (
        f"recommended: {choice(best)}: about {size_text(best['peak_bytes'])}, gradient cosine with the large batch "
        f"{cosine(best)}, {best['time']:.2f} times the time of kept activations with bn"
        if best is not None
        else "nothing fits: a smaller --imgsz or --model needs less"
    )
    terminal.print(advice, markup=False, highlight=False, soft_wrap=True)
