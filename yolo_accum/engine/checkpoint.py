"""Checkpoint files: plain content that `torch.load(weights_only=True)` reads, written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from yolo_accum.errors import TrainingError, UserError

FORMAT = "yolo-accum"
VERSION = 1
RUN_STATE: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("config", "live", "model", "optimizer", "scaler", "clock", "epoch_sums", "progress"), dict),
    **dict.fromkeys(("model_size", "images_digest", "optimizer_name", "precision"), str),
    **dict.fromkeys(("lr0", "denominator_per_image"), (int, float)),
    **dict.fromkeys(("next_epoch", "next_position"), int),
    "class_names": list,
    "ledger": torch.Tensor,
    "random": dict,
}
"""What the checkpoint of a run holds so that it can go on."""


def save_checkpoint(content: Mapping[str, Any], path: Path) -> None:
    """Write to another name, flush to disk, rename: a kill at any moment leaves the earlier file or the new one.

    Raises:
        TrainingError: the file cannot be written (disk full, no permission); the earlier one is untouched.
    """
    temporary = path.with_name(path.name + ".writing")
    try:
        with temporary.open("wb") as file:
            torch.save({"format": FORMAT, "version": VERSION, **content}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        temporary.unlink(missing_ok=True)
        kept = f"the earlier {path.name} is untouched" if path.exists() else "there is no earlier one"
        # torch says nothing of the disk when it fills up while a file is written.
        free_mib = shutil.disk_usage(path.parent).free / 2**20 if path.parent.is_dir() else 0.0
        reason = error.strerror if isinstance(error, OSError) else "the disk is full" if free_mib < 1024 else str(error)
        raise TrainingError(
            f"cannot write checkpoint {path}: {reason} ({free_mib:.0f} MiB are free); {kept}"
        ) from error


def read_checkpoint(path: Path, needed: Mapping[str, type | tuple[type, ...]] | None = None) -> dict[str, Any]:
    """The content of one of our checkpoints, tensors on the CPU.

    Args:
        path: the file.
        needed: entries that it must have, and what each must be; `RUN_STATE` to go on with a run.
    Raises:
        UserError: no such file, damaged, or written by something else.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such checkpoint")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # zip, pickle and torch errors all mean the same to the user
        raise UserError(
            f"{path} is no checkpoint, or is damaged or cut off: its {path.stat().st_size} bytes cannot be read as one"
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError(f"{path} was not written by this program; start from it with --weights instead of --resume")
    if content.get("version") != VERSION:
        raise UserError(f"{path} has version {content.get('version')}; this program reads version {VERSION}")
    for key, kind in (needed or {}).items():
        if key not in content:
            raise UserError(f"{path} is damaged: it has no {key}")
        if not isinstance(content[key], kind):
            raise UserError(f"{path} is damaged: its {key} is {content[key]!r:.80}")
    return content


def random_state() -> dict[str, Any]:
    """The states of torch's generators. All draws of the data are keyed and need none."""
    state: dict[str, Any] = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    """Go on where `random_state` was taken; states of devices that are not there are left out."""
    torch.set_rng_state(state["cpu"])
    if torch.cuda.is_available() and len(state.get("cuda", ())) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
