"""`train --json` on a small set, as the tests of the command line run it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from yolo_accum.cli.main import main

Train = Callable[..., dict[str, Any]]
"""Words of the command line and the exit code that they end with -> the result and what was said."""

SMALL = [
    "--imgsz",
    "64",
    "--batch",
    "2",
    "--nbs",
    "4",
    "--workers",
    "0",
    "--amp",
    "off",
    "--no-plots",
    "--threads",
    "1",
]


def train_command(data: Path, project: Path, capfd: pytest.CaptureFixture[str], *common: str) -> Train:
    """Runs a training of a few micro-batches.

    Args:
        data: data YAML.
        project: folder of the run folders.
        common: options of every call, behind those of `SMALL`.
    Returns:
        a function whose result is that of the command (nothing when it ends with another code than 0) with what was
        said, line by line under ``message`` and in one line under ``said``.
    """

    def run(*words: str, code: int = 0) -> dict[str, Any]:
        capfd.readouterr()
        argv = ["train", "--data", str(data), *SMALL, *common, "--project", str(project), "--json", *words]
        if "--resume" in words:
            argv = ["train", *words, "--json"]
        assert main(argv) == code, capfd.readouterr().err
        output = capfd.readouterr()
        result = json.loads(output.out) if code == 0 else {}
        return {**result, "message": output.err, "said": " ".join(output.err.split())}

    return run
