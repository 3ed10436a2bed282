"""Builds a training run from its configuration: model, plan, optimizer, loader, loop."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from yolo_accum.cli.norms import calibrate_detector, choose_norm
from yolo_accum.cli.training.data import micro_batch_keys, training_dataset
from yolo_accum.cli.training.plan import plan_of, schedule_of
from yolo_accum.cli.wiring import build_detector, choose_device, use_threads
from yolo_accum.cli.worker_count import num_workers
from yolo_accum.config.schema import TrainConfig
from yolo_accum.contracts import Batch, DetectionIndex, Observer
from yolo_accum.data.dataset import TrainDataset
from yolo_accum.data.loader import train_loader
from yolo_accum.data.mosaic import first_closed_epoch
from yolo_accum.engine.distributed import Replicas
from yolo_accum.engine.ema import EmaModel
from yolo_accum.engine.groups import build_optimizer, freeze
from yolo_accum.engine.ledger import Ledger
from yolo_accum.engine.loop import EmaSettings, Loop
from yolo_accum.engine.memory import keep_freed_memory
from yolo_accum.engine.plan import Plan, check_divisible, scaled_weight_decay
from yolo_accum.engine.precision import Precision, choose_precision
from yolo_accum.engine.ramp import choose_optimizer
from yolo_accum.engine.trainer import Trainer, TrainerOptions, Validate
from yolo_accum.engine.update import Stepper, network_input
from yolo_accum.loss.yolox import YoloxCriterion
from yolo_accum.model.batch_norm import CudaSyncBatchNorm, SyncBatchNorm
from yolo_accum.model.build import build_model
from yolo_accum.model.recompute import recompute_activations
from yolo_accum.model.weights import WeightsSummary
from yolo_accum.model.yolox import YOLOX

TRIAL_IMAGES = 8
"""Of a micro-batch that precisions are measured with, at most: more would not tell more, and take long."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """The parts of a run that has not begun."""

    config: TrainConfig
    index: DetectionIndex
    model: YOLOX
    model_size: str
    summary: WeightsSummary | None
    """What was loaded from ``--weights``."""
    frozen: tuple[str, ...]
    """Parameters that are not trained."""
    device: torch.device
    channels_last: bool
    plan: Plan
    optimizer_name: str
    lr0: float
    loop: Loop
    workers: int
    dataset: TrainDataset

    def trainer(
        self,
        *,
        weights_folder: Path,
        validate: Validate | None,
        observers: Sequence[Observer],
        description: Mapping[str, Any],
    ) -> Trainer:
        """The run itself; ``description`` is added to what the checkpoints say of it."""
        self.loop.observers = observers
        options = self.config.run
        return Trainer(
            loop=self.loop,
            validate=validate,
            weights_folder=weights_folder,
            observers=observers,
            options=TrainerOptions(
                val_every=options.val_every,
                patience=options.patience,
                save_minutes=options.save_minutes,
                max_skipped=self.config.optim.max_skipped,
            ),
            description={
                "class_names": list(self.index.class_names),
                "class_ids": list(self.index.class_ids),
                "model_size": self.model_size,
                "norm": self.config.norm.norm,
                "images_digest": images_digest(self.index),
                "optimizer_name": self.optimizer_name,
                "lr0": self.lr0,
                **description,
            },
            image_name=lambda row: self.index.image_paths[row],
        )

    def batches(self) -> Iterable[Batch]:
        """The micro-batches of the plan, loaded ahead."""
        replicas = self.loop.stepper.replicas
        keys = micro_batch_keys(self.plan, self.config, replicas.rank, replicas.size)
        loader = train_loader(self.dataset, keys, workers=self.workers, pin_memory=self.device.type == "cuda")
        return cast("Iterable[Batch]", loader)


def images_digest(index: DetectionIndex) -> str:
    """A fingerprint of the images and their order, which a resumed run has to find again."""
    return hashlib.sha256(json.dumps(index.image_ids).encode()).hexdigest()


def build_training(
    config: TrainConfig,
    index: DetectionIndex,
    *,
    checkpoint: Mapping[str, Any] | None = None,
    replicas: Replicas | None = None,
    dtype: torch.dtype = torch.float32,
) -> Training:
    """All parts of a run, seeded.

    Args:
        config: resolved.
        index: the training split.
        checkpoint: of the run to go on with: decides model size, precision and where the plan starts.
        replicas: this process's place among the replicas; alone by default.
        dtype: of weights and images; float64 in proofs.
    Raises:
        UserError: options, weights, data and device do not go together.
    """
    replicas = replicas or Replicas()
    torch.manual_seed(config.run.seed)
    device = choose_device(config.run.device, replicas)
    use_threads(config.run.threads, replicas.local_size)
    keep_freed_memory()
    optim = config.optim
    dataset = training_dataset(config, index)
    plan = plan_of(
        config,
        len(dataset),
        start_epoch=checkpoint["next_epoch"] if checkpoint else 0,
        start_position=checkpoint["next_position"] if checkpoint else 0,
    )
    check_divisible(plan.batch, replicas.size)
    norm = choose_norm(config.norm, device, replicas)
    if checkpoint is not None:
        model_size, summary = checkpoint["model_size"], None
        model = build_model(model_size, len(index.class_names), norm)
        optimizer_name, lr0 = checkpoint["optimizer_name"], checkpoint["lr0"]
    else:
        model, model_size, summary = build_detector(config.model, index.class_names, norm)
        optimizer_name, lr0 = choose_optimizer(optim, plan.num_updates)
    channels_last = config.run.channels_last is not False
    model.to(device, dtype).to(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
    if config.norm.calibrate_bn and checkpoint is None:
        calibrate_detector(model, config, dataset)
    frozen = freeze(model, config.model.freeze)
    recompute_activations(model, config.model.checkpoint_activations)
    l1_from_epoch = first_closed_epoch(optim.epochs, config.augment.close_mosaic)
    criterion = YoloxCriterion(config.loss, len(index.class_names), l1_from_epoch)
    stepper = Stepper(
        model=model.train(),
        criterion=criterion,
        optimizer=build_optimizer(
            model,
            optimizer_name,
            lr0,
            optim.momentum,
            scaled_weight_decay(optim.weight_decay, plan.base.batch, plan.nbs),
        ),
        precision=Precision(
            checkpoint["precision"], "as asked" if checkpoint["precision"] == config.run.amp else "as before"
        )
        if checkpoint
        else replicas.decide(
            lambda: choose_precision(
                config.run.amp,
                device,
                _trial(model, device, min(plan.batch // replicas.size, TRIAL_IMAGES), config.data.imgsz, channels_last),
            )
        ),
        device=device,
        replicas=replicas,
        max_grad_norm=optim.max_grad_norm,
        channels_last=channels_last,
        dtype=dtype,
    )
    loop = Loop(
        stepper=stepper,
        plan=plan,
        schedule=schedule_of(optim, plan, lr0),
        ema=EmaSettings(model=EmaModel(model), decay=optim.ema_decay, tau=optim.ema_tau) if optim.ema_decay else None,
        ledger=Ledger(len(index), dataset.order.counts),
        observers=(),
        size_px=config.data.imgsz,
    )
    return Training(
        config=config,
        index=index,
        model=model,
        model_size=model_size,
        summary=summary,
        frozen=tuple(frozen),
        device=device,
        channels_last=channels_last,
        plan=plan,
        optimizer_name=optimizer_name,
        lr0=lr0,
        loop=loop,
        workers=num_workers(config.data, len(index), replicas.local_size),
        dataset=dataset,
    )


def _trial(
    model: YOLOX, device: torch.device, batch: int, size_px: int, channels_last: bool
) -> Callable[[Precision], None]:
    """Runs a micro-batch forward and backward on a copy of the model, to measure a precision."""
    copied = copy.deepcopy(model).train()
    for module in copied.modules():
        if isinstance(module, SyncBatchNorm | CudaSyncBatchNorm):
            module.eval()  # other replicas take no part in the trial
    images = torch.randint(0, 256, (batch, 3, size_px, size_px), dtype=torch.uint8, generator=torch.Generator())
    memory_format = torch.channels_last if channels_last else torch.contiguous_format

    def run(precision: Precision) -> None:
        copied.zero_grad(set_to_none=True)
        with precision.autocast(device):
            output = copied(network_input(images.to(device), memory_format))
        (output.box_raw.float().square().mean() + output.scores().mean()).backward()

    return run
