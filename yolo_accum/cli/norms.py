"""Norms of a run: which are built, what is measured for them, what is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import torch
from torch import Tensor, nn

from yolo_accum.config.schema import NormConfig, TrainConfig
from yolo_accum.contracts import Batch, SampleKey
from yolo_accum.data.dataset import TrainDataset
from yolo_accum.data.loader import train_loader
from yolo_accum.engine.distributed import Replicas
from yolo_accum.engine.fidelity import gradient_cosine
from yolo_accum.engine.plan import Plan
from yolo_accum.engine.update import network_input
from yolo_accum.errors import UserError
from yolo_accum.model.batch_norm import MOMENTUM, window_momentum
from yolo_accum.model.norm_statistics import calibrate, estimate_running_statistics
from yolo_accum.model.norms import GroupNorm, NormFactory, norm_factory

FEW_IMAGES = 8
"""Below this number of images, gradients with batch statistics differ so much that a run should say so."""
WINDOW = "the window so far, running statistics follow once a window"


def choose_norm(config: NormConfig, device: torch.device, replicas: Replicas) -> NormFactory:
    """Makes the norms that ``--norm`` and its options name."""
    return norm_factory(
        config.norm,
        momentum_correction=config.bn_momentum_correction,
        freeze_affine=config.freeze_affine,
        sum_over_replicas=replicas.sum_ if replicas.size > 1 else None,
        device_type=device.type,
    )


def calibrate_detector(model: nn.Module, config: TrainConfig, dataset: TrainDataset) -> None:
    """Carry out ``--calibrate-bn``, on images of the first epoch as the run will see them.

    Raises:
        UserError: the weights are new.
    """
    num_images = config.norm.calibrate_bn
    if config.model.weights is None:
        raise UserError(f"--calibrate-bn {num_images}: there is nothing to calibrate without --weights")
    calibrate(model, sample_images(model, config, dataset, num_images=num_images, epoch=0))


def estimate_statistics(model: nn.Module, config: TrainConfig, dataset: TrainDataset) -> None:
    """Carry out ``--precise-bn``, on images of the last epoch as the run has seen them."""
    images = sample_images(model, config, dataset, num_images=config.norm.precise_bn, epoch=config.optim.epochs - 1)
    estimate_running_statistics(model, images)


def sample_images(
    model: nn.Module,
    config: TrainConfig,
    dataset: TrainDataset,
    *,
    num_images: int,
    epoch: int,
) -> Iterator[Tensor]:
    """The first images of an epoch as inputs of a model, in micro-batches; the same on every replica.

    Args:
        num_images: all of the epoch when it has not so many.
        epoch: 0-based.
    """
    positions, batch = range(min(num_images, len(dataset))), config.accumulation.micro_batch
    keys = [
        [SampleKey(epoch, position, config.data.imgsz) for position in positions[start : start + batch]]
        for start in positions[::batch]
    ]
    memory_format = torch.contiguous_format if config.run.channels_last is False else torch.channels_last
    some = next(model.parameters())
    for loaded in cast("Iterable[Batch]", train_loader(dataset, keys, workers=0, pin_memory=False)):
        yield network_input(loaded.to(some.device).images, memory_format).to(some.dtype)


def norm_text(config: NormConfig, model: nn.Module, plan: Plan, num_replicas: int) -> str:
    """The norm in force, for the start-up table."""
    name, length = config.norm, plan.window_length_nominal
    if name == "gn":
        groups = {module.num_channels: module.num_groups for module in model.modules() if isinstance(module, GroupNorm)}
        counts = ", ".join(f"{count} of {channels}" for channels, count in sorted(groups.items()))
        text = f"group norm, groups of channels: {counts}"
    elif name == "frozen":
        affine = "fixed" if config.freeze_affine else "trained"
        text = f"batch norm with fixed running statistics, scale and shift {affine}"
    elif name == "cmbn":
        text = f"cross mini-batch normalisation over {WINDOW}"
    elif name == "wrn":
        text = f"window renormalisation over {WINDOW}"
    else:
        shared = name == "syncbn" and num_replicas > 1
        over = f"the micro-batch of all {num_replicas} replicas" if shared else "the micro-batch of a replica"
        momentum = window_momentum(MOMENTUM, length) if config.bn_momentum_correction else MOMENTUM
        text = f"batch norm over {over}, momentum {momentum:.4g} a micro-batch in a full window"
    extras = [
        f"calibrated on {config.calibrate_bn} images" if config.calibrate_bn else "",
        f"measured anew on {config.precise_bn} images before the final evaluation" if config.precise_bn else "",
    ]
    return ", ".join([f"{name}: {text}", *filter(None, extras)])


def _measured(images: int, nbs: int) -> str:
    """How close the gradients of `bn` and of the alternatives came to the large batch's."""
    cosines = {name: gradient_cosine(name, images, nbs) for name in ("bn", "wrn")}
    values = [f"{name} {value:.2f}" for name, value in cosines.items() if value is not None]
    what = "cosine with the gradient of 64 images, measured on blood cells"
    return f"{what}: {', '.join([*values, 'gn and frozen 1.00'])}; `yolo-accum verify` measures yours"


def norm_notices(config: TrainConfig, plan: Plan, num_replicas: int, *, is_folded: bool) -> list[str]:
    """Where norm, micro-batch and weights do not go together, and what would.

    Args:
        is_folded: whether the norms of the weights that it starts from are without effect.
    """
    notices, name = [], config.norm.norm
    own_images = plan.batch // num_replicas
    images = plan.batch if name == "syncbn" else own_images
    if name in ("bn", "syncbn") and images < FEW_IMAGES:
        synchronised = f"syncbn ({plan.batch} images), " if name == "bn" and plan.batch >= FEW_IMAGES else ""
        notices.append(
            f"--norm {name} takes its statistics from {images} image{'s' * (images > 1)}; with fewer than {FEW_IMAGES} "
            f"the gradients differ much from those of the large batch. Made for this: --norm {synchronised}wrn "
            "(statistics of the window so far), gn or, with trained --weights, frozen (no batch statistics). "
            + _measured(images, plan.nbs)
        )
    if name == "syncbn" and num_replicas == 1:
        notices.append("--norm syncbn is the same as bn here, because there is one replica")
    if name == "frozen" and config.model.weights is None:
        notices.append(
            "--norm frozen without --weights: the running statistics of a new network are mean 0 and variance 1, so "
            "nothing is normalised"
        )
    elif is_folded:
        notices.append(
            f"the norms of {config.model.weights} were folded away (running mean 0, variance 1): in training mode this "
            "network starts from nothing; --calibrate-bn 64 restores them, with the same outputs in evaluation mode"
        )
    return notices
