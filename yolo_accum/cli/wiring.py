"""Builds the parts that several verbs need from their configuration."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from yolo_accum.cli.worker_count import available_cores
from yolo_accum.config.named_object import absolute_place
from yolo_accum.config.schema import ModelConfig, TrainConfig
from yolo_accum.engine.distributed import Replicas
from yolo_accum.errors import UserError
from yolo_accum.model.build import build_model
from yolo_accum.model.norms import NormFactory, batch_norm
from yolo_accum.model.weights import WeightsSummary, infer_size, load_weights, read_weights
from yolo_accum.model.yolox import YOLOX

DEFAULT_MODEL = "yolox_nano"


def named_devices(name: str) -> list[str]:
    """The devices that ``--device`` lists, one a replica of this node."""
    return [part.strip() for part in name.split(",")]


def choose_device(name: str, replicas: Replicas | None = None, option: str = "--device") -> torch.device:
    """The device that ``--device`` names for this replica; on CUDA it becomes the current one.

    A list names one device a replica of this node. ``auto`` and ``cuda`` mean the GPU with the replica's number.

    Args:
        option: what a person has named it by.
    Raises:
        UserError: no such device here, or another number of devices than of replicas.
    """
    local_rank, local_size = (replicas.local_rank, replicas.local_size) if replicas is not None else (0, 1)
    names = named_devices(name)
    if len(names) > 1 and len(names) != local_size:
        raise UserError(
            f"{option} {name} names {len(names)} devices for {local_size} replica{'s' * (local_size > 1)} on this "
            "machine; one each is needed"
        )
    mine = names[local_rank] if len(names) > 1 else name
    count = torch.cuda.device_count()
    if mine == "cpu" or (mine == "auto" and not count):
        return torch.device("cpu")
    number = mine.removeprefix("cuda").removeprefix(":") if mine != "auto" else ""
    if local_size > 1 and len(names) == 1 and number:
        raise UserError(f"{option} {name} names one GPU for {local_size} replicas; list one each, or use auto")
    number = number or str(local_rank)
    if not number.isdigit() or int(number) >= count:
        here = f"GPUs here: 0 to {count - 1}" if count else "there is no CUDA GPU here"
        needed = "auto, cpu, cuda, the number of a GPU, or a list of those with one for each replica, is needed"
        raise UserError(f"{option} {name}: {needed}; {here}")
    device = torch.device("cuda", int(number))
    torch.cuda.set_device(device)
    return device


def use_threads(threads: int | None, num_processes: int = 1) -> int:
    """Let torch use the given number of threads, by default this process's part of the cores.

    Args:
        threads: as asked.
        num_processes: replicas that share this machine.
    """
    count = threads or available_cores(num_processes)
    torch.set_num_threads(count)
    return count


def build_detector(
    config: ModelConfig, class_names: Sequence[str], norm: NormFactory = batch_norm
) -> tuple[YOLOX, str, WeightsSummary | None]:
    """A detector with the weights that the configuration names.

    Args:
        config: which network, which weights.
        class_names: of the data.
        norm: makes its norms.
    Returns:
        the detector on the CPU, its size name, and what was loaded (None for new weights).
    Raises:
        UserError: the weights cannot be read, or are of another family or of another size than ``--model``.
    """
    if config.weights is None:
        size = config.model or DEFAULT_MODEL
        return build_model(size, len(class_names), norm), size, None
    weights = read_weights(config.weights)
    size = config.model or infer_size(weights)
    model = build_model(size, len(class_names), norm)
    return model, size, load_weights(model, weights, class_names)


def environment(device: torch.device) -> dict[str, str]:
    """What the run ran on, for the run card."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"cpu, {torch.get_num_threads()} threads",
        "platform": platform.platform(),
    }


def absolute_paths(config: TrainConfig) -> TrainConfig:
    """The same with absolute paths, so that a run can be resumed from any working directory."""

    def absolute(path: str | None) -> str | None:
        return str(Path(path).absolute()) if path is not None else None

    place = config.augment.augmentations
    config = replace(config, augment=replace(config.augment, augmentations=absolute_place(place) if place else None))
    data = replace(
        config.data,
        data=absolute(config.data.data),
        val_data=absolute(config.data.val_data),
        images=absolute(config.data.images),
        val_images=absolute(config.data.val_images),
        cache_dir=absolute(config.data.cache_dir),
    )
    return replace(
        config,
        data=data,
        model=replace(config.model, weights=absolute(config.model.weights)),
        run=replace(config.run, callbacks=tuple(map(absolute_place, config.run.callbacks))),
    )
