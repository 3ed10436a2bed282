"""Verbs in processes of their own, below a comparison."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from yolo_accum.config.paths import PACKAGE


def start_child(words: Sequence[str], lock: IO[str], *, output: IO[Any], messages: IO[Any]) -> subprocess.Popen[bytes]:
    """Start ``yolo-accum WORDS``; it asks itself to stop when this process is gone.

    Args:
        words: verb and options.
        lock: of the comparison's folder, which stays locked as long as the process lives.
        output: takes what it prints.
        messages: takes what it says to people.
    """
    path = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, "-m", "yolo_accum.cli.comparison.child", str(os.getpid()), *words],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=messages,
        env={**os.environ, "PYTHONPATH": path},
        pass_fds=(lock.fileno(),),
        start_new_session=True,  # Ctrl-C is for the comparison, which asks its runs to stop
    )


def last_words(log: Path, start: int = 0) -> str | None:
    """The error that a process ended with, as it told it, or else its last line; None when it said nothing.

    Args:
        log: what it said.
        start: byte at which it began to speak.
    """
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode("utf-8", "replace").splitlines()
    told = [line for line in lines if line.startswith(("error: ", "interrupted: "))]
    return told[-1].partition(": ")[2] if told else next((line for line in reversed(lines) if line.strip()), None)
