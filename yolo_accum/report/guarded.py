"""Observers that may fail without ending a run: loggers, callbacks, the status file. See docs/callbacks.md."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from yolo_accum.contracts import (
    CheckpointSaved,
    EpochRecord,
    Observer,
    RunEnded,
    RunStarted,
    UpdateRecord,
    WindowOpened,
)

_SIGTERM_CODE = 128 + signal.SIGTERM


@dataclass(frozen=True, kw_only=True)
class SwitchedOff:
    """An observer that failed."""

    name: str
    event: str
    """The method that raised."""
    error: str
    """Type and message."""


class Guarded(Observer):
    """Passes events on until one of them raises; then says so, once, and passes nothing on any more.

    What an observer does cannot change the training, so its fault is no reason to lose the rest of the run. Ctrl-C and
    SIGTERM pass through; ``sys.exit`` of an observer does not: a run never ends without a word.

    Args:
        name: of the observer, for messages.
        observer: who is told.
        tell: is told what went wrong.
        with_traceback: show where, for code that people write themselves.
    """

    def __init__(self, name: str, observer: Observer, tell: Callable[[str], None], *, with_traceback: bool) -> None:
        self.name = name
        self.failure: SwitchedOff | None = None
        self.num_missed = 0
        """Events after the failure."""
        self._observer = observer
        self._tell = tell
        self._with_traceback = with_traceback

    def _pass_on(self, event: str, *payload: object) -> None:
        if self.failure is not None:
            self.num_missed += 1
            return
        try:
            getattr(self._observer, event)(*payload)
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and error.code == _SIGTERM_CODE:
                raise
            kind, text = type(error).__name__, " ".join(str(error).split())
            self.failure = SwitchedOff(name=self.name, event=event, error=f"{kind}: {text}" if text else kind)
            where = "".join(traceback.format_exception(error)).rstrip() if self._with_traceback else ""
            self._tell(
                f"warning: {self.name} failed in {event} ({self.failure.error}) and is switched off; the run goes on"
                f"{':' if where else ''}"
            )
            if where:
                self._tell(where)

    def on_run_start(self, event: RunStarted) -> None:
        self._pass_on("on_run_start", event)

    def on_window_open(self, event: WindowOpened) -> None:
        self._pass_on("on_window_open", event)

    def on_micro_batch(self, micro_batch: int, epoch: int, window_length: int) -> None:
        self._pass_on("on_micro_batch", micro_batch, epoch, window_length)

    def on_update(self, record: UpdateRecord) -> None:
        self._pass_on("on_update", record)

    def on_update_applied(self, record: UpdateRecord) -> None:
        self._pass_on("on_update_applied", record)

    def on_update_refused(self, record: UpdateRecord) -> None:
        self._pass_on("on_update_refused", record)

    def on_epoch(self, record: EpochRecord) -> None:
        self._pass_on("on_epoch", record)

    def on_checkpoint(self, event: CheckpointSaved) -> None:
        self._pass_on("on_checkpoint", event)

    def on_training_end(self) -> None:
        self._pass_on("on_training_end")

    def on_run_end(self, event: RunEnded) -> None:
        """Pass it on; whoever was switched off on the way is named again, where people look last."""
        if self.failure is not None:
            self._tell(
                f"warning: {self.name} was switched off in {self.failure.event} ({self.failure.error}) and has missed "
                f"{self.num_missed + 1} events"
            )
        self._pass_on("on_run_end", event)
