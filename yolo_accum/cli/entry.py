"""Where the program begins: light, so that Ctrl-C is answered with one line also while everything else is imported."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NoReturn


def main(argv: Sequence[str] | None = None) -> int:
    """The same as ``yolo_accum.cli.main.main``, which takes a moment to import."""
    with imports_end_at_once():
        program = importlib.import_module("yolo_accum.cli.main")
    return int(program.main(argv))


@contextlib.contextmanager
def imports_end_at_once() -> Iterator[None]:
    """For imports only, which hold nothing that must be put in order.

    KeyboardInterrupt would not do: libraries turn it into errors of their own when it strikes in their imports, or lose
    it in a callback.
    """
    try:
        previous = signal.signal(signal.SIGINT, _end)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(128 + number)
