"""The windows that `verify` computes, and what it concludes from them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from yolo_accum.cli.training.data import augmented
from yolo_accum.cli.wiring import build_detector
from yolo_accum.config.verify_arguments import VerifyArguments
from yolo_accum.contracts import Batch, DetectionIndex, Sample, SampleKey
from yolo_accum.data.loader import collate
from yolo_accum.engine.free_memory import free_memory_bytes
from yolo_accum.engine.gradients import (
    Agreement,
    Gradient,
    WindowMeasurement,
    agreement,
    agreement_by_part,
    measure_window,
)
from yolo_accum.engine.groups import freeze
from yolo_accum.engine.memory import saved_mib
from yolo_accum.engine.update import network_input
from yolo_accum.errors import UserError
from yolo_accum.loss.yolox import YoloxCriterion
from yolo_accum.model.norms import norm_factory
from yolo_accum.model.recompute import recompute_activations
from yolo_accum.model.yolox import YOLOX, part_of

WITHOUT_BATCH_STATISTICS = ("gn", "frozen")
"""Norms for which cutting must not matter."""
LIMIT_FLOAT32 = 1e-5
LIMIT_FLOAT64 = 1e-9
"""Relative differences up to these are rounding."""
MIN_IMAGES_FLOAT64 = 8
"""Of a window that is repeated in float64; two micro-batches at least."""
MEMORY_SHARE = 0.7
"""Of the free memory, what the activations of the plain large batch may take."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A window in one way of cutting, against the large batch."""

    norm: str
    micro_batch: int
    mean_of_means: bool
    """Whether each micro-batch was normalised by its own denominator, as many trainers do."""
    overall: Agreement
    parts: dict[str, Agreement]
    loss: float
    seconds: float
    peak_memory_mib: float | None

    @property
    def label(self) -> str:
        return f"{self.norm}, mean of means" if self.mean_of_means else self.norm

    @property
    def is_exact_by_design(self) -> bool:
        return self.norm in WITHOUT_BATCH_STATISTICS and not self.mean_of_means


@dataclass(frozen=True, kw_only=True)
class Check:
    """Something that must hold exactly, up to rounding."""

    text: str
    relative_difference: float
    dtype: str
    """In which the difference was found small enough, or too large."""
    holds: bool


def load_window(index: DetectionIndex, arguments: VerifyArguments) -> list[Sample]:
    """The first ``nbs`` training samples, from further epochs where one has not so many."""
    dataset = augmented(index, arguments.augment, seed=arguments.run.seed, num_epochs=arguments.accumulation.nbs)
    places = [divmod(number, len(index)) for number in range(arguments.accumulation.nbs)]
    return [dataset[SampleKey(epoch, position, arguments.data.imgsz)] for epoch, position in places]


class Verification:
    """All windows, one after the other.

    Args:
        arguments: what is compared.
        class_names: of the data.
        samples: of the window, the same for every way of cutting.
        device: to compute on.
    Raises:
        UserError: a micro-batch that is larger than the window.
    """

    def __init__(
        self,
        arguments: VerifyArguments,
        class_names: Sequence[str],
        samples: Sequence[Sample],
        device: torch.device,
    ) -> None:
        self._arguments = arguments
        self._class_names = class_names
        self._samples = samples
        self._device = device
        self._channels_last = arguments.run.channels_last is not False
        self._memory_format = torch.channels_last if self._channels_last else torch.contiguous_format
        self._criterion = YoloxCriterion(arguments.loss, len(class_names), None)
        self._sizes = arguments.verify.sizes
        self._norms = arguments.verify.norm_names
        if self._sizes[-1] >= len(samples):
            raise UserError(
                f"--micro-batches {arguments.verify.micro_batches}: each must be smaller than --nbs {len(samples)}"
            )
        self.is_large_checkpointed = False
        self.comparisons: list[Comparison] = []
        self.checks: list[Check] = []
        self._large: dict[str, WindowMeasurement] = {}
        self._large_float64: dict[tuple[str, int], Gradient] = {}
        self._done: Callable[[int], None] = lambda done: None
        self._num_done = 0

    @property
    def _references(self) -> list[str]:
        """Norms whose large batch is computed: a window of one micro-batch of cmbn or wrn is bn."""
        wanted = [self._reference(norm) for norm in (*self._norms, *self._normalisations)]
        return list(dict.fromkeys(wanted))

    @property
    def _normalisations(self) -> tuple[str, ...]:
        """Norms with which the mean of means is measured: once without batch statistics, once as others train."""
        pure = next((norm for norm in self._norms if norm == "frozen"), None) or "frozen"
        return (pure, "bn") if "bn" in self._norms else (pure,)

    @staticmethod
    def _reference(norm: str) -> str:
        return norm if norm in WITHOUT_BATCH_STATISTICS else "bn"

    @property
    def num_windows(self) -> int:
        """That will be computed, when nothing has to be repeated in float64."""
        return len(self._references) + 1 + len(self._sizes) * (len(self._norms) + len(self._normalisations))

    def carry_out(self, progress: Callable[[int], None]) -> None:
        """Compute everything."""
        self._done = progress
        self.is_large_checkpointed = self._must_checkpoint()
        for norm in self._references:
            model = self._model(norm)
            recompute_activations(model, self.is_large_checkpointed)
            self._large[norm] = self._measure(model, len(self._samples))
        self._check_checkpointing()
        for norm in self._norms:
            model = self._model(norm)
            for size in self._sizes:
                self._compare(model, norm, size)
        for norm in self._normalisations:
            model = self._model(norm)
            for size in self._sizes:
                self._compare(model, norm, size, mean_of_means=True)

    def large_batches(self) -> list[dict[str, Any]]:
        """What the references cost."""
        return [
            {
                "norm": norm,
                "loss": item.loss,
                "denominator": item.denominator,
                "seconds": item.seconds,
                "peak_memory_mib": item.peak_memory_mib,
            }
            for norm, item in self._large.items()
        ]

    def _model(self, norm: str) -> YOLOX:
        """The user's detector with that norm, on the device."""
        torch.manual_seed(self._arguments.run.seed)
        model, _, _ = build_detector(self._arguments.model, self._class_names, norm_factory(norm))
        model.to(self._device, memory_format=self._memory_format)  # type: ignore[call-overload]
        freeze(model, self._arguments.model.freeze)
        return model.train()

    def _micro_batches(self, size: int, num_images: int | None = None) -> list[Batch]:
        samples = self._samples[:num_images]
        return [collate(samples[start : start + size]) for start in range(0, len(samples), size)]

    def _measure(
        self,
        model: YOLOX,
        size: int,
        *,
        dtype: torch.dtype = torch.float32,
        mean_of_means: bool = False,
        num_images: int | None = None,
    ) -> WindowMeasurement:
        measured = measure_window(
            model,
            self._criterion,
            self._micro_batches(size, num_images),
            nbs=len(self._samples),
            device=self._device,
            channels_last=self._channels_last,
            dtype=dtype,
            mean_of_means=mean_of_means,
        )
        self._num_done += 1
        self._done(self._num_done)
        return measured

    def _must_checkpoint(self) -> bool:
        """Whether the large batch is computed with checkpointed activations."""
        how = self._arguments.verify.large_batch
        if how != "auto":
            return how == "checkpointed"
        model, memory_format = (
            self._model("bn"),
            torch.channels_last if self._channels_last else torch.contiguous_format,
        )
        images = network_input(self._micro_batches(2, 2)[0].images.to(self._device), memory_format)
        an_image = saved_mib(lambda: model(images)) / len(images)
        return an_image * len(self._samples) > MEMORY_SHARE * free_memory_bytes(self._device) / 2**20

    def _check_checkpointing(self) -> None:
        """Plain and checkpointed give one gradient: of the large batch, or of a micro-batch where it does not fit."""
        norm = self._references[0]
        model = self._model(norm)
        size = self._sizes[-1] if self.is_large_checkpointed else len(self._samples)
        plain = self._measure(model, size, num_images=size) if self.is_large_checkpointed else self._large[norm]
        recompute_activations(model)
        checkpointed = self._measure(model, size, num_images=size)
        overall = agreement(checkpointed.gradient, plain.gradient, plain.gradient)
        self.checks.append(
            Check(
                text=f"{norm}: {size} images in one go have the same gradient with checkpointed activations "
                f"(relative difference {overall.relative_difference:.1e})",
                relative_difference=overall.relative_difference,
                dtype="float32",
                holds=overall.relative_difference <= LIMIT_FLOAT32,
            )
        )

    def _compare(self, model: YOLOX, norm: str, size: int, *, mean_of_means: bool = False) -> None:
        expected = self._large[self._reference(norm)].gradient
        found = self._measure(model, size, mean_of_means=mean_of_means)
        comparison = Comparison(
            norm=norm,
            micro_batch=size,
            mean_of_means=mean_of_means,
            overall=agreement(found.gradient, expected, expected),
            parts=agreement_by_part(found.gradient, expected, part_of),
            loss=found.loss,
            seconds=found.seconds,
            peak_memory_mib=found.peak_memory_mib,
        )
        self.comparisons.append(comparison)
        if comparison.is_exact_by_design:
            self.checks.append(self._exactness(model, comparison))

    def _exactness(self, model: YOLOX, comparison: Comparison) -> Check:
        """Whether a way of cutting is exact.

        Rounding in float32 may give an object to another place of the network, which is a difference of the size of
        that place's share; float64 tells this from a fault. It is slow, so some images must do.
        """
        norm, size = comparison.norm, comparison.micro_batch
        difference, dtype = comparison.overall.relative_difference, "float32"
        holds = difference <= LIMIT_FLOAT32
        where = "in float32"
        if not holds:
            num_images = min(len(self._samples), max(MIN_IMAGES_FLOAT64, 2 * size))
            where = f"in float64 on {num_images} images, {difference:.1e} in float32 on all"
            difference, dtype = self._difference_float64(model, norm, size, num_images), "float64"
            holds = difference <= LIMIT_FLOAT64
        return Check(
            text=f"{norm}: micro-batches of {size} have the gradient of the large batch (relative difference "
            f"{difference:.1e} {where})",
            relative_difference=difference,
            dtype=dtype,
            holds=holds,
        )

    def _difference_float64(self, model: YOLOX, norm: str, size: int, num_images: int) -> float:
        """Relative difference between a cut of the first images and all of them in one go."""
        double = copy.deepcopy(model).double()
        if (norm, num_images) not in self._large_float64:
            whole = self._measure(double, num_images, dtype=torch.float64, num_images=num_images)
            self._large_float64[norm, num_images] = whole.gradient
        expected = self._large_float64[norm, num_images]
        found = self._measure(double, size, dtype=torch.float64, num_images=num_images).gradient
        return agreement(found, expected, expected).relative_difference
