"""Whether the micro-batch of an arm fits into the memory, measured before its first run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from yolo_accum.cli.output import write_json
from yolo_accum.config.byte_size import size_text
from yolo_accum.engine.memory_model import HEADROOM, fit_memory

MEMORY_FILE = "memory.json"
"""In the folder of an arm."""


@dataclass(frozen=True, kw_only=True)
class Activations:
    """How the large batch of an arm is computed."""

    fits: bool
    checkpointed: bool
    """Although the options do not say so, because it would not fit otherwise."""
    note: str
    """For people; empty when there is nothing to say."""


AS_ASKED = Activations(fits=True, checkpointed=False, note="")
OUT_OF_MEMORY = Activations(
    fits=True,
    checkpointed=True,
    note="memory ran out with kept activations, so that they are checkpointed: the same gradients, in more time",
)


def read_activations(arm_folder: Path) -> Activations | None:
    """What was found when the arm was begun; None when it has not been."""
    try:
        return Activations(**json.loads((arm_folder / MEMORY_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_activations(arm_folder: Path, found: Activations) -> None:
    """Remember it: a run that goes on is computed as it was begun."""
    write_json(arm_folder / MEMORY_FILE, asdict(found))


def choose_activations(memory: Mapping[str, Any], images: int, num_at_once: int) -> Activations:
    """Kept activations where they fit, else checkpointed ones, else none.

    Args:
        memory: of ``plan --memory auto --json``: the peaks of 1 and 2 images, and what is free.
        images: of a micro-batch on one replica.
        num_at_once: runs that share the memory.
    """
    free = memory["memory_bytes"] // num_at_once
    models = {
        recompute: fit_memory(
            {
                item["images"]: item["peak_bytes"]
                for item in memory["measured"]
                if item["checkpoint_activations"] is recompute
            },
            update_bytes=0.0,
        )
        for recompute in (False, True)
    }
    kept, checkpointed = (size_text(models[recompute].peak_bytes(images)) for recompute in (False, True))
    of_free = f"of {size_text(free)} that are free, {HEADROOM:.0%} are left"
    if models[False].fits(images, free):
        return AS_ASKED
    if models[True].fits(images, free):
        note = (
            f"{images} images in one go need about {kept} ({of_free}), so that activations are checkpointed (about "
            f"{checkpointed}): the same gradients, in more time"
        )
        return Activations(fits=True, checkpointed=True, note=note)
    note = f"{images} images in one go need about {kept}, and {checkpointed} with checkpointed activations; {of_free}"
    return Activations(fits=False, checkpointed=True, note=note)
