"""Where differences come from: what `verify` finds on the start weights, with micro-batches and norms of the arms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

from yolo_accum.cli.comparison.process import last_words, start_child
from yolo_accum.cli.comparison.setup import Comparison
from yolo_accum.cli.failures import CHECK_FAILED, DONE
from yolo_accum.config.load import to_mapping
from yolo_accum.config.verify_arguments import VERIFY_OPTIONS

FOLDER = "verify"
LOG = "verify.log"
KEPT = ("ok", "settings", "checks", "large_batches", "comparisons")


def verify_words(comparison: Comparison) -> list[str] | None:
    """The command line of `verify`; None where no arm has a micro-batch that is smaller than the nominal batch."""
    nbs = comparison.config.accumulation.nbs
    sizes = sorted({arm.config.accumulation.micro_batch for arm in comparison.arms})
    sizes = [size for size in sizes if size < nbs]
    if not sizes:
        return None
    norms = ["bn" if arm.config.norm.norm == "syncbn" else arm.config.norm.norm for arm in comparison.arms]
    options = to_mapping(comparison.config)
    names = [name for names in VERIFY_OPTIONS.values() for name in names]
    asked = {name: options[name] for name in names if options.get(name) not in (None, [])}
    asked |= {"micro_batches": ",".join(map(str, sizes)), "norms": ",".join(dict.fromkeys(norms))}
    asked |= {"device": comparison.devices[0], "project": str(comparison.folder), "name": FOLDER, "plots": False}
    return ["verify", *(f"--{name.replace('_', '-')}={_text(value)}" for name, value in asked.items())]


def read_verification(folder: Path) -> dict[str, Any] | None:
    """What was found; None before."""
    try:
        path = sorted(folder.glob(f"{FOLDER}*/verify.json"))[-1]
        content = json.loads(path.read_text(encoding="utf-8"))
        return {name: content[name] for name in KEPT}
    except (IndexError, OSError, ValueError, KeyError):
        return None


def run_verification(comparison: Comparison, lock: IO[str]) -> str | None:
    """Carry it out in a process of its own, unless it has been.

    Returns:
        why there is none, or None.
    """
    words = verify_words(comparison)
    if words is None or read_verification(comparison.folder) is not None:
        return None
    path = comparison.folder / LOG
    with path.open("w", encoding="utf-8") as log:
        process = start_child(words, lock, output=log, messages=log)
        try:
            process.wait()
        finally:
            process.kill()
    if process.returncode in (DONE, CHECK_FAILED):
        return None
    return f"where differences come from could not be found out: {last_words(path) or process.returncode}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
