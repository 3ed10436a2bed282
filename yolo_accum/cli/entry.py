"""Where the program begins: light, so that Ctrl-C is answered with one line also while everything else is imported."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
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
    with answering(signal.SIGINT, _end):
        yield


@contextlib.contextmanager
def answering(number: signal.Signals, handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """A signal is answered by ``handler`` as long as this lasts, or until somebody else takes it over.

    Outside the main thread, where nobody can, it stays as it was.
    """
    try:
        previous = signal.signal(number, handler)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        if signal.getsignal(number) is handler:
            signal.signal(number, previous)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    with contextlib.suppress(OSError):
        os.write(2, b"interrupted\n")
        if "--json" in sys.argv:
            os.write(1, b'{"error": "interrupted", "exit_code": %d}\n' % (128 + number))
    os._exit(128 + number)
