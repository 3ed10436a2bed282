"""Ending a run on request: the first signal asks, the second one insists."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from yolo_accum.errors import Interrupted


class StopRequest:
    """Context in which SIGINT and SIGTERM set `signal_number` instead of killing the process at once.

    A second SIGINT raises KeyboardInterrupt. Outside the main thread, where handlers cannot be set, it does nothing.
    """

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._previous: dict[int, signal.Handlers] = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal_number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal_number = number

    def check(self, message: str) -> None:
        """End here when a signal has come.

        Args:
            message: says what is kept.
        Raises:
            Interrupted: one has.
        """
        if self.signal_number is not None:
            raise Interrupted(self.signal_number, message)

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)  # type: ignore[assignment]
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
