"""What a run is about to do, in numbers that are in force: the start-up table and its notices."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from yolo_accum.cli.norms import norm_notices, norm_text
from yolo_accum.cli.planning.notices import first_spans, plan_notices, tail_text
from yolo_accum.cli.training.build import Training
from yolo_accum.config.schema import TrainConfig
from yolo_accum.data.multi_scale import training_sizes_px
from yolo_accum.engine.plan import nominal_window_length, scaled_weight_decay
from yolo_accum.model.norm_statistics import is_folded as folded
from yolo_accum.report.lettering import lettering_notice


def startup_rows(training: Training) -> dict[str, str]:
    """The start-up table: label -> value."""
    # Of the whole run, also where it goes on: its card is to be that of a run that was never interrupted.
    plan, config, replicas = training.plan.whole, training.config, training.loop.stepper.replicas.size
    length = plan.window_length_nominal
    base = plan.base
    warmup_updates = sum(span.last <= base.warmup_micro_batches for span in first_spans(base))
    decay = scaled_weight_decay(config.optim.weight_decay, base.batch, base.nbs)
    uncapped = nominal_window_length(base.batch, base.nbs)
    ramp = f"K grows from 1 to {base.window_length_nominal}"
    ramp = ramp if plan.ramp and base.window_length_nominal > 1 else "K does not grow"
    cut = f", those of micro-batches of {base.batch} cut anew" if base is not plan else ""
    precision = training.loop.stepper.precision
    num_parameters = sum(parameter.numel() for parameter in training.model.parameters())
    several = f"{replicas} replicas, the first on " if replicas > 1 else ""
    start = "new weights" if config.model.weights is None else config.model.weights
    return {
        "model": f"{training.model_size}, {num_parameters / 1e6:.2f} M parameters, "
        f"{len(training.index.class_names)} classes, {start}",
        "frozen": f"{len(training.frozen)} parameters ({', '.join(config.model.freeze)})"
        if training.frozen
        else "nothing",
        "micro-batch (m x D)": f"{plan.batch} images ({plan.batch // replicas} x {replicas} replicas)",
        "window (K)": f"{length} micro-batch{'es' * (length > 1)} an update{cut}",
        "images per update": f"{base.batch * base.window_length_nominal}, nominal batch {plan.nbs}",
        "training images": f"{images_text(training)}, {plan.micro_batches_per_epoch} micro-batches an epoch",
        "updates": f"{plan.updates_per_epoch:g} an epoch after warm-up, {plan.num_updates} in all",
        "warm-up": f"{warmup_updates} updates ({plan.warmup_images} images), {ramp}"
        if plan.warmup_micro_batches
        else "none",
        "tail of an epoch": tail_text(plan),
        "optimizer": f"{training.optimizer_name}, lr {training.lr0:g} per nominal batch, {config.optim.schedule} to "
        f"{training.lr0 * config.optim.lrf:g}",
        "weight decay in force": f"{decay:g} = {config.optim.weight_decay:g} x {base.batch} x {uncapped} / {plan.nbs}",
        "loss normalisation": "sums of the whole window and all replicas over their one denominator",
        "norm": norm_text(config.norm, training.model, plan, replicas),
        "activations": "checkpointed: blocks are computed again in the backward pass"
        if config.model.checkpoint_activations
        else "kept for the backward pass",
        "precision": f"{precision.name} ({precision.reason})",
        "device": f"{several}{training.device}, {torch.get_num_threads()} threads, {training.workers} loader workers"
        f"{', channels_last' if training.channels_last else ''}",
        "network input": input_text(config),
    }


def images_text(training: Training) -> str:
    """How many images go through the network in an epoch, and how often each where that differs."""
    order = training.dataset.order
    if not order.is_balanced:
        return f"{order.num_positions}"
    return f"{order.num_positions} an epoch from {order.num_images} (--balance {training.config.data.balance:g})"


def input_text(config: TrainConfig) -> str:
    """The side of the network input, or the sides that it has in turn."""
    sizes_px = training_sizes_px(config.data.imgsz, config.augment.multi_scale)
    if len(sizes_px) == 1:
        return f"{config.data.imgsz} px"
    sides = f"{sizes_px[0]} to {sizes_px[-1]} px, one of {len(sizes_px)} sides a window"
    return f"{sides}; {config.data.imgsz} px in validation"


def startup_notices(training: Training) -> list[str]:
    """Sentences about what does not go together, and what would."""
    replicas = training.loop.stepper.replicas.size
    is_folded = training.summary is not None and folded(training.model)
    lettering = lettering_notice(training.index.class_names) if training.config.run.plots else None
    return [
        *plan_notices(training.plan.whole),
        *norm_notices(training.config, training.plan.whole, replicas, is_folded=is_folded),
        *([lettering] if lettering else []),
    ]


def counters_text(values: Mapping[str, int]) -> str:
    """The counters of a run as one sentence."""
    return (
        f"{values['images_seen']} images seen, {values['images_dropped']} dropped; "
        f"{values['updates_attempted']} updates attempted, {values['updates_applied']} applied, "
        f"{values['updates_skipped']} refused"
    )
