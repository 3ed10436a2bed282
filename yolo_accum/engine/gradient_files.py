"""Gradients of chosen updates, kept in the run folder so that runs can be compared window by window."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save

from yolo_accum.engine.gradients import Gradient
from yolo_accum.errors import TrainingError

FOLDER = "gradients"


def gradient_file(run_folder: Path, update: int) -> Path:
    """Where a run keeps the gradient of an attempted update (from 1)."""
    return run_folder / FOLDER / f"update_{update:06d}.safetensors"


def read_gradient(run_folder: Path, update: int) -> Gradient | None:
    """What `GradientFiles` wrote; None where the run came to no such update, or its file is damaged."""
    path = gradient_file(run_folder, update)
    try:
        return load_file(path) if path.is_file() else None
    except (OSError, SafetensorError):
        return None


class GradientFiles:
    """Writes the gradient that an update follows, as it is before clipping.

    Args:
        run_folder: exists.
        updates: attempts, counted from 1.
    """

    def __init__(self, run_folder: Path, updates: Collection[int]) -> None:
        self._run_folder = run_folder
        self._updates = frozenset(updates)

    def keeper(self, update: int) -> Callable[[Gradient], None] | None:
        """What is to be called with the gradient of that update; None where it is not wanted."""
        return (lambda gradient: self._write(update, gradient)) if update in self._updates else None

    def _write(self, update: int, gradient: Gradient) -> None:
        """Write to another name and rename: a kill leaves no half file. A resumed run writes the same again.

        Raises:
            TrainingError: it cannot be written.
        """
        path = gradient_file(self._run_folder, update)
        temporary = path.with_name(f"{path.name}.writing")
        try:
            path.parent.mkdir(exist_ok=True)
            # Not save_file, whose files nobody but their owner may read.
            temporary.write_bytes(save({name: value.detach().cpu().contiguous() for name, value in gradient.items()}))
            temporary.replace(path)
        except (OSError, SafetensorError) as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise TrainingError(f"cannot write the gradient of update {update} to {path}: {error}") from error
