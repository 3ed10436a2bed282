"""The runs of a comparison: each in a process of its own, one at a time on each device."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from yolo_accum.cli.comparison.memory import (
    AS_ASKED,
    OUT_OF_MEMORY,
    Activations,
    choose_activations,
    read_activations,
    write_activations,
)
from yolo_accum.cli.comparison.process import last_words, start_child
from yolo_accum.cli.comparison.setup import Comparison, PlannedRun, placed
from yolo_accum.cli.failures import FAILED
from yolo_accum.cli.wiring import named_devices
from yolo_accum.config.load import to_yaml
from yolo_accum.report.run_progress import images_done

ENDED = ("finished", "failed", "does not fit")
POLL_S = 0.3
STOP_WITHIN_S = 120.0
"""What runs get to finish their window and save, once they are asked to stop."""
MORE_MEMORY = "a smaller --batch needs less"
"""What every message about memory that ran out says."""


@dataclass(frozen=True, kw_only=True)
class RunState:
    """Where a run is."""

    status: str
    """One of `ENDED`, or missing."""
    message: str | None = None


@dataclass
class _Process:
    run: PlannedRun
    process: subprocess.Popen[bytes]
    log: IO[str]
    log_start: int
    """Where this process began to write."""
    device: str
    is_checkpointed: bool


class Runs:
    """Carries out what is missing.

    Args:
        comparison: what is compared.
        lock: inherited by every run, so that the folder stays locked as long as one lives.
        changed: is told of every run that has ended, and with which state.
    """

    def __init__(self, comparison: Comparison, lock: IO[str], changed: Callable[[PlannedRun, RunState], None]) -> None:
        self._comparison = comparison
        self._lock = lock
        self._changed = changed
        self._running: list[_Process] = []
        self.states: dict[tuple[str, int], RunState] = {
            (run.arm, run.seed): RunState(status="finished" if run.is_finished else "missing")
            for run in comparison.runs
        }

    @property
    def images_done(self) -> int:
        """That have gone through the runs so far."""
        return sum(
            run.num_images
            if self.states[run.arm, run.seed].status in ENDED
            else min(images_done(run.folder), run.num_images)
            for run in self._comparison.runs
        )

    @property
    def num_ended(self) -> int:
        """Runs that are finished or have failed."""
        return sum(state.status in ENDED for state in self.states.values())

    @property
    def running(self) -> list[PlannedRun]:
        return [item.run for item in self._running]

    def carry_out(self, wait: Callable[[], None]) -> None:
        """Until no run is missing; every failure is recorded, none ends the others.

        Args:
            wait: is called several times a second.
        """
        waiting = [run for run in self._comparison.runs if self.states[run.arm, run.seed].status == "missing"]
        try:
            while waiting or self._running:
                for device in self._free_devices():
                    if waiting:
                        self._start(waiting.pop(0), device)
                wait()
                time.sleep(POLL_S)
                for item in [item for item in self._running if item.process.poll() is not None]:
                    self._running.remove(item)
                    self._ended(item)
        finally:
            self._stop()

    def _free_devices(self) -> list[str]:
        free = list(self._comparison.devices)
        for item in self._running:
            free.remove(item.device)
        return free

    def _start(self, run: PlannedRun, device: str, *, checkpointed: bool = False) -> None:
        run.folder.parent.mkdir(exist_ok=True)
        activations = read_activations(run.folder.parent)
        if checkpointed:
            activations = OUT_OF_MEMORY
        elif activations is None or not activations.fits:
            activations = self._measured(run, device)
        if activations is None:  # what came in between is in the log
            self._set(run, RunState(status="failed", message=last_words(run.log, 0)))
            return
        write_activations(run.folder.parent, activations)
        if not activations.fits:
            self._set(run, RunState(status="does not fit", message=activations.note))
            return
        run.recipe.write_text(to_yaml(run.config), encoding="utf-8")
        where = placed(run, self._device_of(run, device), len(self._comparison.devices))
        words = [word for name, value in where.items() for word in (f"--{name}", str(value))]
        words += ["--checkpoint-activations"] if activations.checkpointed else []
        log = run.log.open("a", encoding="utf-8")
        start = log.tell()
        process = start_child(["train", *_beginning(run), *words], self._lock, output=log, messages=log)
        is_checkpointed = activations.checkpointed or run.config.model.checkpoint_activations
        self._running.append(_Process(run, process, log, start, device, is_checkpointed))

    def _device_of(self, run: PlannedRun, place: str) -> str:
        """An arm may have devices of its own, unless the runs are spread."""
        return place if self._comparison.compare.devices else run.config.run.device

    def _measured(self, run: PlannedRun, device: str) -> Activations | None:
        """Whether a micro-batch that is larger than the base run's fits; None when that could not be found out."""
        base, config = self._comparison.config.accumulation, run.config
        if config.model.checkpoint_activations or config.accumulation.micro_batch <= base.micro_batch:
            return AS_ASKED
        run.recipe.write_text(to_yaml(config), encoding="utf-8")
        devices = self._device_of(run, device)
        words = ["plan", "--recipe", str(run.recipe), "--memory", "auto", "--device", devices, "--json"]
        with tempfile.TemporaryFile() as output, run.log.open("a", encoding="utf-8") as log:
            process = start_child(words, self._lock, output=output, messages=log)
            try:
                code = process.wait()
            finally:
                process.kill()
            if code:
                return None
            output.seek(0)
            memory = json.loads(output.read())["memory"]
        num_sharing = len(self._comparison.devices) if memory["device"] == "cpu" else 1
        images = config.accumulation.micro_batch // len(named_devices(devices))
        return choose_activations(memory, images, num_sharing)

    def _ended(self, item: _Process) -> None:
        item.log.close()
        code = item.process.returncode
        if code == 0 and item.run.is_finished:
            self._set(item.run, RunState(status="finished"))
            return
        message = last_words(item.run.log, item.log_start) or f"it ended with exit code {code}"
        if code < 0:
            name = signal.Signals(-code).name
            likely = ", most often because memory ran out" if -code == signal.SIGKILL else ""
            message = f"it was ended by {name}{likely}"
        is_short = code == FAILED and MORE_MEMORY in message
        if is_short and not item.is_checkpointed:
            self._start(item.run, item.device, checkpointed=True)
        else:
            self._set(item.run, RunState(status="does not fit" if is_short else "failed", message=message))

    def _set(self, run: PlannedRun, state: RunState) -> None:
        self.states[run.arm, run.seed] = state
        self._changed(run, state)

    def _stop(self) -> None:
        """Ask the runs that are left to save and end, and wait for them."""
        for item in self._running:
            with contextlib.suppress(ProcessLookupError):
                item.process.terminate()
        deadline_s = time.monotonic() + STOP_WITHIN_S
        for item in self._running:
            try:
                item.process.wait(max(0.0, deadline_s - time.monotonic()))
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                item.process.kill()
            item.log.close()
        self._running.clear()


def _beginning(run: PlannedRun) -> list[str]:
    """From its last checkpoint, or from the start; what an earlier process left without one is put aside."""
    if (run.folder / "weights" / "last.pt").is_file():
        return ["--resume", str(run.folder)]
    if run.folder.exists():
        number = 1
        while (aside := run.folder.with_name(f"{run.folder.name}.interrupted{number}")).exists():
            number += 1
        run.folder.rename(aside)
    return ["--recipe", str(run.recipe)]
