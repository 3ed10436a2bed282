"""The only place that iterates over training images: windows of micro-batches in, one record an update out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from yolo_accum.contracts import Batch, Observer, UpdateRecord, WindowOpened
from yolo_accum.engine.clock import Clock
from yolo_accum.engine.ema import EmaModel, ema_decay_at
from yolo_accum.engine.groups import set_hyperparameters
from yolo_accum.engine.ledger import Ledger
from yolo_accum.engine.memory import peak_memory_mib
from yolo_accum.engine.plan import MicroBatch, Plan, Window
from yolo_accum.engine.ramp import Schedule
from yolo_accum.engine.totals import (
    Requests,
    TotalsAccumulator,
    WindowTotals,
    gradient_factor,
    next_provisional,
    update_estimate,
)
from yolo_accum.engine.update import Keep, Stepper


@dataclass(frozen=True, kw_only=True)
class LoopState:
    """What the next window depends on besides weights and optimizer."""

    clock: Clock = field(default_factory=Clock)
    denominator_per_image: float = 4.0
    """Running estimate that the provisional divisor is made of."""


@dataclass(frozen=True, kw_only=True)
class EmaSettings:
    """The averaged weights and how closely they follow."""

    model: EmaModel
    decay: float
    tau: float


@dataclass(frozen=True, kw_only=True)
class FinishedEpoch:
    """What the ledger says of an epoch whose last micro-batch was passed."""

    epoch: int
    images: int
    distinct_images: int
    images_off_plan: int


@dataclass(frozen=True, kw_only=True)
class FinishedWindow:
    """A window after its update was applied or refused, or after it was dropped (then without totals and record)."""

    window: Window
    state: LoopState
    totals: WindowTotals | None = None
    record: UpdateRecord | None = None
    image_indices: tuple[int, ...] = ()
    """Rows of the index that this replica took, for messages."""
    finished_epochs: tuple[FinishedEpoch, ...] = ()


class Loop:
    """Trains window by window; after each, control returns to the caller, who may save, evaluate or stop.

    Args:
        stepper: performs the update.
        plan: which micro-batches make which update.
        schedule: learning rate and momentum by images.
        ema: averaged weights, or None.
        ledger: counts the images.
        observers: are told of every window and micro-batch.
        size_px: side of the network input, for a replica that has no image in a micro-batch.
        requests: what this replica asks for, read at every window's end.

    ``keeper`` says what is to be called with the gradient of an attempted update (from 1), if anything.
    """

    def __init__(
        self,
        *,
        stepper: Stepper,
        plan: Plan,
        schedule: Schedule,
        ema: EmaSettings | None,
        ledger: Ledger,
        observers: Sequence[Observer],
        size_px: int,
        requests: Callable[[], Requests] = Requests,
    ) -> None:
        self.stepper = stepper
        self.plan = plan
        self.schedule = schedule
        self.ema = ema
        self.ledger = ledger
        self.observers = observers
        self.size_px = size_px
        self.requests = requests
        self.keeper: Callable[[int], Keep | None] = lambda update: None

    def run(self, batches: Iterable[Batch], state: LoopState) -> Iterator[FinishedWindow]:
        """All windows from where the plan starts.

        Args:
            batches: this replica's share of every micro-batch that is not dropped, in order; shares without an
                image are left out.
            state: of the last finished window.
        """
        source = iter(batches)
        for window in self.plan.windows():
            if window.dropped:
                state = LoopState(
                    clock=state.clock.after_drop(window.num_images),
                    denominator_per_image=state.denominator_per_image,
                )
                epochs = tuple(epoch for item in window.micro_batches for epoch in self._epochs_ending_at(item))
                yield FinishedWindow(window=window, state=state, finished_epochs=epochs)
            else:
                finished = self._update(window, source, state)
                state = finished.state
                yield finished

    def _update(self, window: Window, source: Iterator[Batch], state: LoopState) -> FinishedWindow:
        """One attempted update."""
        start_s = time.perf_counter()
        values = self.schedule.at(state.clock.images_applied)
        set_hyperparameters(self.stepper.optimizer, values)
        groups = self.stepper.optimizer.param_groups
        opened = WindowOpened(
            update=state.clock.updates_attempted + 1,
            epoch=window.first.epoch,
            first_micro_batch=window.first.index,
            last_micro_batch=window.last.index,
            num_images=window.num_images,
            lr={group["name"]: group["lr"] for group in groups},
            momentum=values.momentum,
        )
        for observer in self.observers:
            observer.on_window_open(opened)
        provisional = next_provisional(state.denominator_per_image, window.num_images)

        totals, image_indices, epochs = self._accumulate(window, source, provisional)
        factor = gradient_factor(
            provisional=provisional,
            images=totals.images,
            nbs=self.plan.nbs,
            denominator=totals.denominator,
            averaged_over=self.stepper.replicas.size,
        )
        update = self.stepper.apply(factor, finite=totals.finite, keep=self.keeper(state.clock.updates_attempted + 1))
        clock = state.clock.after_update(totals.images, update.applied)
        ema_decay = self._follow(clock) if update.applied else 0.0

        record = UpdateRecord(
            update=clock.updates_attempted,
            epoch=window.last.epoch,
            first_micro_batch=window.first.index,
            last_micro_batch=window.last.index,
            images=totals.images,
            objects=totals.objects,
            denominator=totals.denominator,
            provisional=provisional,
            factor=factor,
            losses=totals.losses(),
            grad_norm=update.grad_norm,
            clip_coefficient=update.clip_coefficient,
            scaler_scale=update.scaler_scale,
            applied=update.applied,
            lr={group["name"]: group["lr"] for group in groups},
            weight_decay={group["name"]: group["weight_decay"] for group in groups},
            momentum=values.momentum,
            ema_decay=ema_decay,
            images_seen=clock.images_seen,
            images_applied=clock.images_applied,
            images_dropped=clock.images_dropped,
            updates_applied=clock.updates_applied,
            updates_skipped=clock.updates_skipped,
            images_per_s=totals.images / (time.perf_counter() - start_s),
            peak_memory_mib=peak_memory_mib(self.stepper.device),
        )
        return FinishedWindow(
            window=window,
            state=LoopState(clock=clock, denominator_per_image=update_estimate(state.denominator_per_image, totals)),
            totals=totals,
            record=record,
            image_indices=image_indices,
            finished_epochs=epochs,
        )

    def _accumulate(
        self, window: Window, source: Iterator[Batch], provisional: float
    ) -> tuple[WindowTotals, tuple[int, ...], tuple[FinishedEpoch, ...]]:
        """Forward and backward of all micro-batches of a window, and its totals over all replicas."""
        stepper, replicas = self.stepper, self.stepper.replicas
        accumulator = TotalsAccumulator(stepper.criterion.term_names, stepper.device)
        image_indices: list[int] = []
        epochs: list[FinishedEpoch] = []
        stepper.open_window(len(window))
        for micro_batch in window.micro_batches:
            is_last = micro_batch is window.last
            with stepper.sync_context(is_last):
                if micro_batch.share(replicas.rank, replicas.size):
                    batch = next(source)
                    self.ledger.add(batch.image_indices)
                    image_indices += batch.image_indices.tolist()
                    batch = batch.to(stepper.device)
                    sums = stepper.forward(batch)
                    stepper.backward(sums, provisional)
                    accumulator.add(sums, images=batch.num_images, objects=batch.labels.shape[0])
                else:
                    stepper.backward_nothing(self.size_px)
            epochs += self._epochs_ending_at(micro_batch)
            for observer in self.observers:
                observer.on_micro_batch(micro_batch.index, micro_batch.epoch, len(window))
        accumulator.ask(self.requests())
        replicas.sum_(accumulator.values)
        return accumulator.totals(), tuple(image_indices), tuple(epochs)

    def _epochs_ending_at(self, micro_batch: MicroBatch) -> list[FinishedEpoch]:
        """The epoch that ends with this micro-batch, with what the ledgers of all replicas hold of it."""
        if micro_batch.stop < self.plan.num_images:
            return []
        counts = self.ledger.counts
        self.stepper.replicas.sum_(counts)
        finished = FinishedEpoch(
            epoch=micro_batch.epoch,
            images=int(counts.sum()),
            distinct_images=int((counts > 0).sum()),
            images_off_plan=self.ledger.num_off_plan(micro_batch.epoch),
        )
        counts.zero_()
        return [finished]

    def average_buffers(self) -> None:
        """Make running statistics, live and averaged, the same on all replicas: each has seen only its own images.

        All replicas have to call this, before the model is measured or saved.
        """
        models = [self.stepper.model] + ([self.ema.model.model] if self.ema is not None else [])
        buffers = [buffer for model in models for buffer in model.buffers() if buffer.is_floating_point()]
        self.stepper.replicas.average_(buffers)

    def _follow(self, clock: Clock) -> float:
        """Fold the new weights into the average; returns the decay that was used, 0 when nothing was folded in."""
        if self.ema is None:
            return 0.0
        decay = ema_decay_at(clock.updates_applied, self.ema.decay, self.ema.tau)
        return decay if self.ema.model.update(decay) else 0.0
