"""Builds the parts that several verbs need from their configuration."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from yolo_accum.config.paths import PACKAGE
from yolo_accum.config.schema import DataConfig, ModelConfig, RunConfig, TrainConfig
from yolo_accum.data.loader import default_workers
from yolo_accum.errors import UserError
from yolo_accum.model.build import build_model
from yolo_accum.model.weights import WeightsSummary, infer_size, load_weights, read_weights
from yolo_accum.model.yolox import YOLOX

DEFAULT_MODEL = "yolox_nano"


def default_data_folder() -> Path:
    """Where the embedded data set lies: in the checkout, or below the working directory of an installed program."""
    checkout = PACKAGE.parent
    return (checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()) / "data" / "shapes"


def choose_device(name: str) -> torch.device:
    """The device that ``--device`` names.

    Raises:
        UserError: no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    number = name.removeprefix("cuda").removeprefix(":") or "0"
    count = torch.cuda.device_count()
    if not number.isdigit() or int(number) >= count:
        here = f"GPUs here: 0 to {count - 1}" if count else "there is no CUDA GPU here"
        raise UserError(f"--device {name}: auto, cpu, cuda or the number of a GPU is needed; {here}")
    return torch.device("cuda", int(number))


def use_threads(threads: int | None) -> int:
    """Let torch use the given number of threads, by default all cores that this process may use."""
    count = threads or available_cores()
    torch.set_num_threads(count)
    return count


def available_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def num_workers(config: DataConfig, num_images: int) -> int:
    """Loader processes: as asked, else one a core; none for a set that is smaller than that."""
    return config.workers if config.workers is not None else min(default_workers(available_cores()), num_images)


def build_detector(config: ModelConfig, class_names: Sequence[str]) -> tuple[YOLOX, str, WeightsSummary | None]:
    """A detector with the weights that the configuration names.

    Returns:
        the detector on the CPU, its size name, and what was loaded (None for new weights).
    Raises:
        UserError: the weights cannot be read, or are of another family or of another size than ``--model``.
    """
    if config.weights is None:
        size = config.model or DEFAULT_MODEL
        return build_model(size, len(class_names)), size, None
    weights = read_weights(config.weights)
    size = config.model or infer_size(weights)
    model = build_model(size, len(class_names))
    return model, size, load_weights(model, weights, class_names)


def make_run_folder(config: RunConfig) -> Path:
    """A new folder ``project/name``, with a number behind the name when that exists.

    Raises:
        UserError: it cannot be made.
    """
    number = 1
    while True:
        folder = Path(config.project) / (config.name if number == 1 else f"{config.name}{number}")
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError as error:
            if not Path(config.project).is_dir():
                raise UserError(f"--project {config.project} is a file; a folder is needed") from error
            number += 1
        except OSError as error:
            raise UserError(f"--project {config.project}: cannot make {folder}: {error.strerror}") from error


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

    data = replace(
        config.data,
        data=absolute(config.data.data),
        val_data=absolute(config.data.val_data),
        images=absolute(config.data.images),
        val_images=absolute(config.data.val_images),
    )
    return replace(config, data=data, model=replace(config.model, weights=absolute(config.model.weights)))
