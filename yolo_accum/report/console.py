"""What a person sees while a run goes on: bars on a terminal, plain lines anywhere else; and the tables around it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType

import rich.console
from rich import box
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from yolo_accum.contracts import METRIC_NAMES, EpochRecord, Observer, RunStarted, UpdateRecord
from yolo_accum.report.messages import MessageLog

PLAIN_LINE_EVERY_S = 30.0
"""Without a terminal, a running epoch says this often that it is alive."""
PLAIN_WIDTH = 120
"""Columns of tables in a file or pipe, which has no width of its own."""
REFRESHES_PER_S = 2
"""Redrawing takes time from the training thread; twice a second looks alive."""
SMOOTHING = 0.8
"""Share of the old value when an update's images/s enters the one that is shown: windows differ in length."""


class _Terminal(rich.console.Console):
    """Goes quiet when whoever read it has gone: a run must not end because `head` has seen enough."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


class Console(Observer):
    """Follows a run and prints for people; on leaving the context the terminal is put in order.

    Args:
        as_json: standard output belongs to the result, so everything here goes to standard error.
        quiet: print warnings only, for replicas that leave the rest to the first one.
        terminal: where to print; by default standard output, or standard error with ``as_json``.
        clock: seconds, for the distance between plain lines.
    """

    def __init__(
        self,
        *,
        as_json: bool = False,
        quiet: bool = False,
        terminal: rich.console.Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.terminal = terminal or _Terminal(stderr=as_json, quiet=quiet, force_terminal=False if quiet else None)
        self.messages = MessageLog()
        """What was told so far; kept in the run folder once there is one."""
        self._quiet = quiet
        if not self.terminal.is_terminal:
            self.terminal.width = PLAIN_WIDTH
        self._clock = clock
        self._bars = _bars(self.terminal)
        self._live: Live | None = None
        self._run_task = self._epoch_task = TaskID(0)
        self._epoch = -1
        self._num_epochs = self._per_epoch = self._num_micro_batches = 1
        self._first_micro_batch = 0
        self._start_s = self._last_line_s = 0.0
        self._window_length = 0
        self._images_per_s = 0.0
        self._last_update: UpdateRecord | None = None

    def __enter__(self) -> Console:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_live()

    # --- Observer ----------------------------------------------------------------------------------------------------

    def on_run_start(self, event: RunStarted) -> None:
        """Put the bars up."""
        self._num_micro_batches, self._num_epochs = event.num_micro_batches, event.num_epochs
        self._per_epoch = max(1, event.num_micro_batches // event.num_epochs)
        self._first_micro_batch = event.start_micro_batch
        self._start_s = self._last_line_s = self._clock()
        if self.terminal.is_terminal:
            self._bars = _bars(self.terminal)
            self._epoch_task = self._bars.add_task("epoch", total=self._per_epoch)
            total, done = event.num_micro_batches, event.start_micro_batch
            self._run_task = self._bars.add_task("run", total=total, completed=done)
            self._live = self._display(lambda: rich.console.Group(self._bars, Text(self._state())))
            self._live.start()

    def on_micro_batch(self, micro_batch: int, epoch: int, window_length: int) -> None:
        """Advance the bars, or print a line if the last one is old."""
        self._window_length = window_length
        done_in_epoch = micro_batch - epoch * self._per_epoch + 1
        if self._live is not None:
            if epoch != self._epoch:
                self._epoch = epoch
                self._bars.reset(self._epoch_task, description=f"epoch {epoch + 1}/{self._num_epochs}")
            self._bars.update(self._epoch_task, completed=done_in_epoch)
            self._bars.update(self._run_task, completed=micro_batch + 1)
        elif self._clock() - self._last_line_s >= PLAIN_LINE_EVERY_S:
            self._last_line_s = self._clock()
            place = f"epoch {epoch + 1}/{self._num_epochs}  micro-batch {done_in_epoch}/{self._per_epoch}"
            self._print(f"{place}  {self._state()}  ETA {_duration(self._eta_s(micro_batch + 1))}")

    def on_update(self, record: UpdateRecord) -> None:
        """Take over the numbers of the update for what is shown next."""
        before = self._images_per_s or record.images_per_s
        self._images_per_s = SMOOTHING * before + (1 - SMOOTHING) * record.images_per_s
        self._last_update = record

    def on_epoch(self, record: EpochRecord) -> None:
        """One line that stays."""
        parts = [f"epoch {record.epoch + 1}/{self._num_epochs}", _loss_text(record.losses), _lr_text(record.lr)]
        parts += [f"{name} {record.metrics[name]:.4f}" for name in ("AP", "AP50") if name in record.metrics]
        parts += ["best"] if record.is_best and record.metrics else []
        parts += [f"{record.updates_skipped} updates refused"] if record.updates_skipped else []
        parts += [f"{record.images_dropped} images dropped"] if record.images_dropped else []
        parts += [f"{record.images_per_s:.1f} images/s", f"{record.peak_memory_mib:.0f} MiB"]
        parts += [f"{_duration(record.train_s)} + {_duration(record.val_s)} val"]
        self._print("  ".join(parts))
        self._last_line_s = self._clock()

    def on_message(self, message: str) -> None:
        """One line, above the bars."""
        self.messages(message)
        self._print(message)

    def warn(self, message: str) -> None:
        """One line, also from a console that is otherwise quiet."""
        self.messages(message)
        if self._quiet:
            print(message, file=sys.stderr, flush=True)
        else:
            self._print(message)

    def on_training_end(self) -> None:
        """Take the bars away."""
        self._close_live()

    # --- around a run ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def progress(self, task: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar for something countable; without a terminal a line every half minute.

        Yields:
            a function that is told how many are done.
        """
        with contextlib.ExitStack() as stack:
            if self._live is not None:
                bars = self._bars
            elif self.terminal.is_terminal:
                bars = _bars(self.terminal)
                stack.enter_context(self._display(lambda: bars))
            else:
                yield self._plain_progress(task, total)
                return
            task_id = bars.add_task(task, total=total)
            stack.callback(bars.remove_task, task_id)
            yield lambda done: bars.update(task_id, completed=done)

    def _plain_progress(self, task: str, total: int) -> Callable[[int], None]:
        """Prints how many are done when the last line is old; nothing for what takes less than that."""
        last_s = self._clock()

        def tell(done: int) -> None:
            nonlocal last_s
            if self._clock() - last_s >= PLAIN_LINE_EVERY_S:
                last_s = self._clock()
                self._print(f"{task} {done:,}/{total:,}")

        return tell

    def startup_table(self, rows: Mapping[str, str]) -> None:
        """What the run is about to do, label by label."""
        self._pairs("This run", rows)

    def run_card(self, rows: Mapping[str, str]) -> None:
        """What the run did, label by label."""
        self._pairs("Run card", rows)

    def metrics_table(
        self,
        metrics: Mapping[str, float | None],
        per_class: Sequence[tuple[str, int, float | None, float | None]] = (),
    ) -> None:
        """The COCO numbers, and one row a class.

        Args:
            metrics: by name, 0..1; None where no object of that kind exists.
            per_class: name, number of objects, AP, AP50.
        """
        numbers = Table(title="COCO metrics", box=box.SIMPLE_HEAD, title_justify="left")
        half = (len(METRIC_NAMES) + 1) // 2
        for _ in range(2):
            numbers.add_column("metric")
            numbers.add_column("value", justify="right")
        for left, right in zip(METRIC_NAMES[:half], METRIC_NAMES[half:], strict=True):
            numbers.add_row(left, _share(metrics.get(left)), right, _share(metrics.get(right)))
        self.terminal.print(numbers)
        if per_class:
            classes = Table(title="Per class", box=box.SIMPLE_HEAD, title_justify="left")
            classes.add_column("class", overflow="fold")
            for name in ("objects", "AP", "AP50"):
                classes.add_column(name, justify="right")
            for name, num_objects, ap, ap50 in per_class:
                classes.add_row(Text(name), str(num_objects), _share(ap), _share(ap50))
            self.terminal.print(classes)

    def _pairs(self, title: str, rows: Mapping[str, str]) -> None:
        table = Table(title=title, box=box.SIMPLE, show_header=False, title_justify="left")
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for label, value in rows.items():
            table.add_row(Text(label), Text(value))
        self.terminal.print(table)

    def _print(self, line: str) -> None:
        self.terminal.print(line, markup=False, highlight=False, soft_wrap=True)

    def _display(self, content: Callable[[], rich.console.RenderableType]) -> Live:
        """A part of the terminal that is redrawn in place, below what is printed, and taken away at its end."""
        return Live(get_renderable=content, console=self.terminal, refresh_per_second=REFRESHES_PER_S, transient=True)

    def _close_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _state(self) -> str:
        """Loss, learning rate, window length, speed and memory as far as they are known."""
        parts = []
        if self._last_update is not None:
            parts += [f"loss {sum(self._last_update.losses.values()):.3f}", _lr_text(self._last_update.lr)]
        parts += [f"K {self._window_length}"] if self._window_length else []
        if self._last_update is not None:
            parts += [f"{self._images_per_s:.1f} images/s", f"{self._last_update.peak_memory_mib:.0f} MiB"]
        return "  ".join(parts)

    def _eta_s(self, micro_batches_done: int) -> float:
        done_now = micro_batches_done - self._first_micro_batch
        return (self._clock() - self._start_s) / done_now * (self._num_micro_batches - micro_batches_done)


def _bars(terminal: rich.console.Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        console=terminal,
        transient=True,
    )


def _loss_text(losses: Mapping[str, float]) -> str:
    terms = ", ".join(f"{name} {value:.3f}" for name, value in losses.items())
    return f"loss {sum(losses.values()):.3f} ({terms})" if losses else "loss -"


def _lr_text(lr: Mapping[str, float]) -> str:
    return f"lr {max(lr.values()):.3g}" if lr else "lr -"


def _share(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.4f}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
