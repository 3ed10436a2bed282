"""Which micro-batches make which update: a pure function of integers, known and printable before training.

Words: a *micro-batch* is what one forward pass takes (over all replicas); a *window* is the run of micro-batches whose
gradients share one optimizer *update*.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

from yolo_accum.errors import UserError

Tail = Literal["step", "carry", "drop"]


@dataclass(frozen=True)
class MicroBatch:
    """Images ``start..stop-1`` of an epoch's order."""

    index: int
    """0-based in the run."""
    epoch: int
    start: int
    stop: int

    @property
    def num_images(self) -> int:
        return self.stop - self.start

    def share(self, replica: int, num_replicas: int) -> range:
        """Positions that one replica takes: contiguous, none twice, none padded, sizes differing by one at most."""
        base, extra = divmod(self.num_images, num_replicas)
        first = self.start + replica * base + min(replica, extra)
        return range(first, first + base + (replica < extra))


@dataclass(frozen=True)
class Window:
    """The micro-batches of one update, or of one counted drop."""

    micro_batches: tuple[MicroBatch, ...]
    dropped: bool = False

    @property
    def num_images(self) -> int:
        return sum(micro_batch.num_images for micro_batch in self.micro_batches)

    @property
    def first(self) -> MicroBatch:
        return self.micro_batches[0]

    @property
    def last(self) -> MicroBatch:
        return self.micro_batches[-1]

    def __len__(self) -> int:
        return len(self.micro_batches)


class Span(NamedTuple):
    """A window as numbers."""

    first: int
    """0-based micro-batch of the run."""
    last: int
    num_images: int
    dropped: bool


class ImageRange(NamedTuple):
    """A window as images of the run, epoch after epoch: image ``i`` is position ``i % num_images`` of an epoch."""

    start: int
    stop: int
    dropped: bool


def nominal_window_length(batch: int, nbs: int) -> int:
    """Micro-batches of a full window, before it is capped by the length of the run. Half-to-even rounding."""
    return max(1, round(nbs / batch))


def exact_batches(batch: int, nbs: int) -> tuple[int, ...]:
    """The nearest values to ``batch``, below and above, whose full window holds exactly ``nbs`` images."""
    small = [value for value in range(1, math.isqrt(nbs) + 1) if nbs % value == 0]
    divisors = sorted({*small, *(nbs // value for value in small)})
    below = [value for value in divisors if value <= batch]
    above = [value for value in divisors if value >= batch]
    return tuple(sorted({*below[-1:], *above[:1]}))


def scaled_weight_decay(weight_decay: float, batch: int, nbs: int) -> float:
    """Decay in force: scaled by the images of a full window over the nominal batch, 1 when they agree."""
    return weight_decay * batch * nominal_window_length(batch, nbs) / nbs


def check_divisible(batch: int, num_replicas: int) -> None:
    """Raises:
    UserError: the micro-batch does not divide over the replicas; names the two nearest values.
    """
    if batch % num_replicas:
        below = batch // num_replicas * num_replicas
        nearest = f"{below} or {below + num_replicas}" if below else f"{num_replicas}"
        raise UserError(
            f"--batch {batch} is the micro-batch over all replicas and does not divide by {num_replicas} replicas; "
            f"use {nearest}"
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The windows of a run.

    Raises:
        UserError: no images, or a tail that would drop every window.
    """

    num_images: int
    """Of one epoch."""
    epochs: int
    batch: int
    nbs: int
    warmup_epochs: float = 3.0
    ramp: bool = True
    tail: Tail = "step"
    start_epoch: int = 0
    """Where a resumed run goes on; the first window begins at this image of this epoch."""
    start_position: int = 0
    window_batch: int | None = None
    """Images of the micro-batches that the windows are planned from, ``batch`` itself by default. With another number
    the same windows are cut into micro-batches of ``batch``, each from its first image on, anew at an epoch's end."""

    def __post_init__(self) -> None:
        if self.num_images < 1:
            raise UserError("the training set holds no images")
        if self.base is self and self.tail == "drop" and self.window_length_nominal > self.micro_batches_per_epoch:
            raise UserError(
                f"--tail drop would drop every micro-batch after warm-up: an epoch has {self.micro_batches_per_epoch} "
                f"of them and a window {self.window_length_nominal}; use --tail step or carry, a larger --batch or a "
                "smaller --nbs"
            )

    @cached_property
    def base(self) -> Plan:
        """The plan that the windows come from: this one, unless it cuts those of another micro-batch anew."""
        if self.window_batch in (None, self.batch):
            return self
        return replace(self, batch=self.window_batch, window_batch=None)

    @cached_property
    def whole(self) -> Plan:
        """The same from the first image of the run on, where this is the rest of one that goes on."""
        return replace(self, start_epoch=0, start_position=0) if self._start_image else self

    @property
    def micro_batches_per_epoch(self) -> int:
        """Where windows of another micro-batch are cut anew: on average, rounded up."""
        if self.base is not self:
            return -(-self.num_micro_batches // self.epochs)
        return -(-self.num_images // self.batch)

    @cached_property
    def num_micro_batches(self) -> int:
        """Of the whole run."""
        if self.base is not self:
            return sum(self._num_pieces(images) for images in self.base.whole.image_ranges())
        return self.micro_batches_per_epoch * self.epochs

    @property
    def full_window_images(self) -> int:
        """Images of a full window, not capped by the length of the run."""
        return self.base.batch * nominal_window_length(self.base.batch, self.nbs)

    @property
    def window_length_nominal(self) -> int:
        """K of a full window, capped at the micro-batches of the run."""
        if self.base is not self:
            return -(-self.base.window_length_nominal * self.base.batch // self.batch)
        return min(nominal_window_length(self.batch, self.nbs), self.num_micro_batches)

    @property
    def warmup_micro_batches(self) -> int:
        """Over which the window grows; those of the base plan."""
        return max(0, round(min(self.warmup_epochs, self.epochs - 1) * self.base.micro_batches_per_epoch))

    @property
    def warmup_images(self) -> int:
        """The same warm-up counted in images: what learning rate and momentum follow."""
        return max(0, round(min(self.warmup_epochs, self.epochs - 1) * self.num_images))

    @cached_property
    def start_micro_batch(self) -> int:
        """0-based number of the first micro-batch. Counted back from the epoch's end, so that it also holds when a
        resumed run cuts the rest of an epoch into micro-batches of another size."""
        if self.base is not self:
            return self.num_micro_batches - sum(self._num_pieces(images) for images in self.image_ranges())
        remaining = -(-(self.num_images - self.start_position) // self.batch)
        return (self.start_epoch + 1) * self.micro_batches_per_epoch - remaining

    def window_length(self, micro_batch: int) -> int:
        """K in force at a micro-batch of the base plan: ramps from 1 while the run warms up."""
        nw = self.warmup_micro_batches
        if self.ramp and nw > 0 and micro_batch <= nw:
            return max(1, round(1 + (self.window_length_nominal - 1) * micro_batch / nw))
        return self.window_length_nominal

    def _closings(self) -> Iterator[tuple[int, int, bool]]:
        """First and last micro-batch of every window of a base plan, and whether it is dropped.

        Once the ramp is over every window is as long as the next, so that only the ramp is walked one by one.
        """
        nb, k = self.micro_batches_per_epoch, self.window_length_nominal
        first, total = self.start_micro_batch, self.num_micro_batches
        ramp_end = self.warmup_micro_batches if self.ramp else -1
        carry, drop = self.tail == "carry", self.tail == "drop"
        while first < total:
            limit = total - 1 if carry else first // nb * nb + nb - 1
            last = first
            while last <= ramp_end and last < limit and last - first + 1 < self.window_length(last):
                last += 1
            if last > ramp_end:
                last = min(max(last, first + k - 1), limit)
            yield first, last, drop and last - first + 1 < self.window_length(last)
            first = last + 1

    def spans(self) -> Iterator[Span]:
        """All windows as plain numbers: what `windows` tells, at a fraction of its time."""
        if self.base is not self:
            following = self.start_micro_batch
            for images in self.image_ranges():
                first, following = following, following + self._num_pieces(images)
                yield Span(first, following - 1, images.stop - images.start, images.dropped)
            return
        nb, batch, num_images = self.micro_batches_per_epoch, self.batch, self.num_images
        # The rest of a resumed epoch is cut from where it starts; what comes after is cut from an epoch's start.
        rest_ends = self.start_epoch * nb + nb if self.start_position else 0
        first_of_rest, start_image = self.start_micro_batch, self._start_image
        seen = start_image
        for first, last, dropped in self._closings():
            following = last + 1
            if following < rest_ends:
                before = start_image + (following - first_of_rest) * batch
            else:
                epoch, in_epoch = divmod(following, nb)
                before = epoch * num_images + in_epoch * batch
            yield Span(first, last, before - seen, dropped)
            seen = before

    def image_ranges(self) -> Iterator[ImageRange]:
        """All windows as ranges of images: the same however they are cut into micro-batches."""
        start = self._start_image
        for span in self.base.spans():
            yield ImageRange(start, start + span.num_images, span.dropped)
            start += span.num_images

    def windows(self) -> Iterator[Window]:
        """All windows from the start on, dropped ones included: every micro-batch lies in exactly one."""
        index = self.start_micro_batch
        for images in self.image_ranges():
            micro_batches = tuple(self._cut(images, index))
            index += len(micro_batches)
            yield Window(micro_batches, images.dropped)

    @property
    def _start_image(self) -> int:
        return self.start_epoch * self.num_images + self.start_position

    def _cut(self, images: ImageRange, index: int) -> Iterator[MicroBatch]:
        """The micro-batches of a window, the first of which has number ``index`` in the run."""
        start = images.start
        while start < images.stop:
            epoch, position = divmod(start, self.num_images)
            epoch_start = start - position
            stop = min(start + self.batch, epoch_start + self.num_images, images.stop)
            yield MicroBatch(index, epoch, position, stop - epoch_start)
            index, start = index + 1, stop

    def _num_pieces(self, images: ImageRange) -> int:
        """Micro-batches that `_cut` makes."""
        count, start = 0, images.start
        while start < images.stop:
            stop = min(images.stop, start - start % self.num_images + self.num_images)
            count, start = count + -(-(stop - start) // self.batch), stop
        return count

    @cached_property
    def num_updates(self) -> int:
        """Updates that will be attempted from the start on."""
        return sum(not dropped for _, _, dropped in self.base._closings())

    @cached_property
    def num_images_dropped(self) -> int:
        return sum(span.num_images for span in self.spans() if span.dropped) if self.tail == "drop" else 0

    @property
    def updates_per_epoch(self) -> float:
        """Updates of an epoch after warm-up (``carry``: on average)."""
        nb, k = self.base.micro_batches_per_epoch, self.base.window_length_nominal
        if self.tail == "carry":
            return nb / k
        return float(-(-nb // k)) if self.tail == "step" else float(nb // k)
