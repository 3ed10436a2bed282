"""Wires the parts of a run: loop, averaged weights, evaluation, checkpoints, early end."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from yolo_accum.contracts import Batch, CheckpointSaved, EpochRecord, Observer
from yolo_accum.engine.checkpoint import (
    random_state,
    save_checkpoint,
    set_random_state,
)
from yolo_accum.engine.clock import Clock
from yolo_accum.engine.interrupt import StopRequest
from yolo_accum.engine.loop import FinishedEpoch, FinishedWindow, Loop, LoopState
from yolo_accum.engine.memory import peak_memory_mib
from yolo_accum.engine.totals import Requests
from yolo_accum.engine.update import Stepper
from yolo_accum.errors import Interrupted, TrainingError

Validate = Callable[[nn.Module, int], Mapping[str, float]]
"""Evaluates a model after an epoch (0-based): metrics by name; ``AP`` decides which one is best."""


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """When to evaluate, save and stop."""

    val_every: int
    patience: int
    save_minutes: float
    max_skipped: int


@dataclass(kw_only=True)
class Progress:
    """What a run remembers between epochs; saved with every checkpoint."""

    best_ap: float = -1.0
    best_epoch: int = -1
    best_metrics: dict[str, float] = field(default_factory=dict)
    epochs_done: int = 0
    finished: bool = False


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """How a run ended."""

    clock: Clock
    best_metrics: Mapping[str, float]
    best_epoch: int
    epochs_done: int
    stopped_early: bool
    peak_memory_mib: float
    train_s: float
    """From the first to the last micro-batch of this process, evaluation included."""
    images_per_s: float
    """Of the loop alone: images over the time spent in windows."""


class _EpochSums:
    """What the updates of an epoch add up to."""

    def __init__(self, stepper: Stepper) -> None:
        self.terms = dict.fromkeys(stepper.criterion.term_names, 0.0)
        self.denominator = 0.0
        self.images = 0
        self.images_dropped = 0
        self.applied = 0
        self.skipped = 0
        self.lr: Mapping[str, float] = {group["name"]: group["lr"] for group in stepper.optimizer.param_groups}
        self.start_s = time.perf_counter()

    def add(self, finished: FinishedWindow) -> None:
        if finished.totals is None or finished.record is None:
            self.images_dropped += finished.window.num_images
            return
        for name, value in finished.totals.terms.items():
            self.terms[name] += value
        self.denominator += finished.totals.denominator
        self.images += finished.totals.images
        self.applied += finished.record.applied
        self.skipped += not finished.record.applied
        self.lr = finished.record.lr

    def losses(self) -> dict[str, float]:
        return {name: value / max(self.denominator, 1.0) for name, value in self.terms.items()}

    def state(self) -> dict[str, Any]:
        return {
            **vars(self),
            "lr": dict(self.lr),
            "start_s": 0.0,
            "elapsed_s": time.perf_counter() - self.start_s,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        values = dict(state)
        elapsed_s = values.pop("elapsed_s")
        vars(self).update(values, start_s=time.perf_counter() - elapsed_s)


class Trainer:
    """A run from its plan's start to its end; every replica carries out the same one, the first writes its files.

    Args:
        loop: with stepper, plan, ledger and averaged weights.
        validate: evaluates a model, or None without a validation set.
        weights_folder: where ``last.pt`` and ``best.pt`` go.
        observers: are told of updates, epochs, checkpoints.
        options: when to evaluate, save and stop.
        description: plain content for the checkpoints (class names and ids, model size, config).
        image_name: name of a row of the training index, for messages.
    """

    def __init__(
        self,
        *,
        loop: Loop,
        validate: Validate | None,
        weights_folder: Path,
        observers: Sequence[Observer],
        options: TrainerOptions,
        description: Mapping[str, Any],
        image_name: Callable[[int], str],
    ) -> None:
        self.loop = loop
        self.validate = validate
        self.last_path = weights_folder / "last.pt"
        self.best_path = weights_folder / "best.pt"
        self.observers = observers
        self.options = options
        self.description = description
        self.image_name = image_name
        self.progress = Progress()
        self.state = LoopState()
        self._epoch_sums = _EpochSums(loop.stepper)
        self._saved_s = time.perf_counter()

    def run(self, batches: Iterable[Batch]) -> TrainingResult:
        """Train to the end, or until patience runs out.

        Raises:
            TrainingError: too many refused updates in a row, or a checkpoint that cannot be written.
            Interrupted: SIGINT or SIGTERM arrived; the state is saved.
        """
        if self.progress.finished:  # by an earlier process; what comes after training may still be missing
            return self._result(train_s=0.0, images_per_s=0.0)
        start_s = time.perf_counter()
        images, window_s = 0, 0.0
        self._saved_s = time.perf_counter()
        with StopRequest() as stop:
            self.loop.requests = lambda: self._requests(stop)
            for finished in self.loop.run(batches, self.state):
                self._after_window(finished)
                if finished.record is not None:
                    images += finished.record.images
                    window_s += finished.record.images / finished.record.images_per_s
                requests = finished.totals.requests if finished.totals is not None else Requests()
                if finished.finished_epochs or requests.save or requests.stop_signal is not None:
                    self.loop.average_buffers()
                    if finished.finished_epochs:
                        self._after_epochs(finished)
                    self._save(finished)
                if self.progress.finished:
                    break
                if requests.stop_signal is not None:
                    self.loop.stepper.replicas.barrier()  # until the file is whole
                    raise Interrupted(
                        requests.stop_signal,
                        f"stopped after update {self.state.clock.updates_attempted}; the state is in {self.last_path}",
                    )
        stop.check(f"stopped after the last update; the state is in {self.last_path}")  # while that was evaluated
        for observer in self.observers:
            observer.on_training_end()
        clock = self.state.clock
        if clock.updates_applied == 0:
            raise TrainingError(
                f"not one of {clock.updates_attempted} updates was applied: loss or gradients were not finite, so the "
                f"weights are those the run was started with; try {self._other_precision()}a lower --lr0 or look at "
                "the images"
            )
        return self._result(train_s=time.perf_counter() - start_s, images_per_s=images / window_s if window_s else 0.0)

    def _other_precision(self) -> str:
        """The beginning of an advice, empty where the forward pass is in full precision already."""
        return "" if self.loop.stepper.precision.dtype is None else "--amp off, "

    def _result(self, *, train_s: float, images_per_s: float) -> TrainingResult:
        return TrainingResult(
            clock=self.state.clock,
            best_metrics=self.progress.best_metrics,
            best_epoch=self.progress.best_epoch,
            epochs_done=self.progress.epochs_done,
            stopped_early=self.progress.epochs_done < self.loop.plan.epochs,
            peak_memory_mib=peak_memory_mib(self.loop.stepper.device),
            train_s=train_s,
            images_per_s=images_per_s,
        )

    def _requests(self, stop: StopRequest) -> Requests:
        return Requests(
            sigint=stop.signal_number == signal.SIGINT,
            sigterm=stop.signal_number == signal.SIGTERM,
            save=(time.perf_counter() - self._saved_s) / 60 >= self.options.save_minutes,
        )

    def _after_window(self, finished: FinishedWindow) -> None:
        """Take over the new state, tell the observers, give up after too many refused updates."""
        self.state = finished.state
        self._epoch_sums.add(finished)
        if finished.record is not None:
            for observer in self.observers:
                observer.on_update(finished.record)
                if finished.record.applied:
                    observer.on_update_applied(finished.record)
                else:
                    observer.on_update_refused(finished.record)
        if self.state.clock.skipped_in_a_row >= self.options.max_skipped:
            images = self.loop.stepper.replicas.gather(finished.image_indices)
            names = ", ".join(self.image_name(index) for index in images[:8])
            more = len(images) - 8
            good = (
                f"the last good checkpoint is {self.last_path}" if self.last_path.exists() else "nothing was saved yet"
            )
            raise TrainingError(
                f"{self.state.clock.skipped_in_a_row} updates in a row were refused because loss or gradients were not "
                f"finite (--max-skipped); images of the last window: {names}"
                f"{f' and {more} more' if more > 0 else ''}; {good}; try {self._other_precision()}a lower --lr0 or "
                "check these images"
            )

    def _after_epochs(self, finished: FinishedWindow) -> None:
        """Evaluate if it is due, report the epochs that ended, and see whether the run is at its end.

        An epoch without a defined AP (no validation set, or one without objects) counts as the best so far.
        """
        plan, progress = self.loop.plan, self.progress
        *earlier, last = finished.finished_epochs
        is_last_epoch = last.epoch == plan.epochs - 1
        train_s = time.perf_counter() - self._epoch_sums.start_s
        due = is_last_epoch or any((item.epoch + 1) % self.options.val_every == 0 for item in finished.finished_epochs)
        metrics: Mapping[str, float] = {}
        is_best = False
        val_start_s = time.perf_counter()
        if due:
            if self.validate is not None:
                metrics = self.validate(self.evaluated_model, last.epoch)
            ap = metrics.get("AP", math.nan)
            is_best = not ap <= progress.best_ap
            if is_best:
                progress.best_ap = -1.0 if math.isnan(ap) else ap
                progress.best_epoch, progress.best_metrics = last.epoch, dict(metrics)
        val_s = time.perf_counter() - val_start_s
        for epoch in earlier:
            self._report(epoch, {}, False, 0.0, 0.0)
        self._report(last, metrics, is_best, train_s, val_s)
        progress.epochs_done = last.epoch + 1
        out_of_patience = 0 < self.options.patience <= last.epoch - progress.best_epoch
        progress.finished = is_last_epoch or (due and out_of_patience)
        self._epoch_sums = _EpochSums(self.loop.stepper)

    def _report(
        self, epoch: FinishedEpoch, metrics: Mapping[str, float], is_best: bool, train_s: float, val_s: float
    ) -> None:
        sums = self._epoch_sums
        record = EpochRecord(
            epoch=epoch.epoch,
            images=epoch.images,
            distinct_images=epoch.distinct_images,
            images_off_plan=epoch.images_off_plan,
            images_dropped=sums.images_dropped,
            updates_applied=sums.applied,
            updates_skipped=sums.skipped,
            losses=sums.losses(),
            lr=sums.lr,
            metrics=metrics,
            is_best=is_best,
            train_s=train_s,
            val_s=val_s,
            images_per_s=sums.images / train_s if train_s > 0 else 0.0,
            peak_memory_mib=peak_memory_mib(self.loop.stepper.device),
        )
        for observer in self.observers:
            observer.on_epoch(record)

    @property
    def evaluated_model(self) -> nn.Module:
        """The averaged weights, or the live ones when averaging is off."""
        return self.loop.ema.model.model if self.loop.ema is not None else self.loop.stepper.model

    def _save(self, finished: FinishedWindow) -> None:
        """Write ``best.pt`` if the epoch that just ended is the best, then ``last.pt``.

        In this order, as ``last.pt`` says which epoch is the best: a kill in between repeats the epoch, no more.
        """
        content = self.content(finished)
        self._saved_s = time.perf_counter()
        if not self.loop.stepper.replicas.is_first:
            return
        is_best = bool(finished.finished_epochs) and self.progress.best_epoch == finished.finished_epochs[-1].epoch
        if is_best:
            save_checkpoint(content, self.best_path)
        save_checkpoint(content, self.last_path)
        saved = CheckpointSaved(
            path=self.last_path,
            micro_batches_done=finished.window.last.index + 1,
            best_path=self.best_path if is_best else None,
        )
        for observer in self.observers:
            observer.on_checkpoint(saved)

    def content(self, finished: FinishedWindow) -> dict[str, Any]:
        """Everything that a resumed run needs, as plain numbers, text, lists, dicts and tensors.

        All replicas have to ask for it together, since each has counted its own images.
        """
        stepper, plan = self.loop.stepper, self.loop.plan
        ledger = self.loop.ledger.counts.clone()
        stepper.replicas.sum_(ledger)
        last = finished.window.last
        at_epoch_end = last.stop == plan.num_images
        return {
            **self.description,
            "model": self.evaluated_model.state_dict(),
            "live": stepper.model.state_dict(),
            "optimizer": stepper.optimizer.state_dict(),
            "scaler": stepper.scaler.state_dict() if stepper.scaler is not None else {},
            "precision": stepper.precision.name,
            "clock": self.state.clock.as_dict(),
            "denominator_per_image": self.state.denominator_per_image,
            "next_epoch": last.epoch + at_epoch_end,
            "next_position": 0 if at_epoch_end else last.stop,
            "ledger": ledger,
            "epoch_sums": self._epoch_sums.state(),
            "progress": asdict(self.progress),
            "random": random_state(),
        }

    def load(self, content: Mapping[str, Any]) -> None:
        """Go on where a checkpoint was written; the loop's plan must start at its ``next_epoch, next_position``."""
        stepper = self.loop.stepper
        stepper.model.load_state_dict(content["live"])
        if self.loop.ema is not None:
            self.loop.ema.model.model.load_state_dict(content["model"])
        stepper.optimizer.load_state_dict(content["optimizer"])
        if stepper.scaler is not None and content["scaler"]:
            stepper.scaler.load_state_dict(content["scaler"])
        self.state = LoopState(clock=Clock(**content["clock"]), denominator_per_image=content["denominator_per_image"])
        if stepper.replicas.is_first:  # the ledgers of all replicas are added up
            self.loop.ledger.counts.copy_(content["ledger"])
        self._epoch_sums.load(content["epoch_sums"])
        self.progress = Progress(**content["progress"])
        set_random_state(content["random"])
