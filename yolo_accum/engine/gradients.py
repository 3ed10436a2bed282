"""The gradient of one window, as the training engine makes it, and how far two of them agree."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from yolo_accum.contracts import Batch, Criterion
from yolo_accum.engine.memory import peak_memory_mib, restart_peak_memory
from yolo_accum.engine.precision import Precision
from yolo_accum.engine.totals import TotalsAccumulator, gradient_factor, next_provisional
from yolo_accum.engine.update import Stepper

Gradient = dict[str, Tensor]
"""By name of the parameter, on the CPU."""
DENOMINATOR_PER_IMAGE = 4.0
"""Guess that the provisional divisor is made of; the gradient does not depend on it."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Of a gradient with an expected one, both taken as one long vector."""

    cosine: float
    """1: same direction. Not a number where one of them is zero."""
    relative_difference: float
    """Length of the difference over that of the expected gradient."""
    norm_ratio: float
    """Length over that of the expected gradient."""


@dataclass(frozen=True, kw_only=True)
class WindowMeasurement:
    """One window, forward and backward, with the update that it would have made."""

    gradient: Gradient
    loss: float
    """The loss that was optimised."""
    denominator: float
    seconds: float
    peak_memory_mib: float | None
    """Highest memory of the process or device meanwhile; None where it cannot be told."""


class KeepGradients(torch.optim.Optimizer):
    """Stands in for an optimizer: keeps the gradients of an update instead of following them."""

    def __init__(self, model: nn.Module) -> None:
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        super().__init__([parameter for parameter in model.parameters() if parameter.requires_grad], {})
        self.gradient: Gradient = {}

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take what an optimizer would follow."""
        self.gradient = {
            self._names[id(parameter)]: parameter.grad.detach().clone().cpu()
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        }


def measure_window(
    model: nn.Module,
    criterion: Criterion,
    micro_batches: Sequence[Batch],
    *,
    nbs: int,
    device: torch.device,
    channels_last: bool = False,
    dtype: torch.dtype = torch.float32,
    mean_of_means: bool = False,
) -> WindowMeasurement:
    """The gradient that a window gives the optimizer. Weights and buffers are left as they were.

    Args:
        model: on the device, of the given type; put into training mode.
        criterion: returns sums.
        micro_batches: of the window, in order.
        nbs: nominal batch size.
        device: of the model.
        channels_last: memory format of the images.
        dtype: of weights and images.
        mean_of_means: normalise every micro-batch by its own denominator, as many trainers do, and not the window.
    Raises:
        ValueError: loss or gradient are not finite.
    """
    kept = KeepGradients(model)
    stepper = Stepper(
        model=model.train(),
        criterion=criterion,
        optimizer=kept,
        precision=Precision("off"),
        device=device,
        max_grad_norm=0.0,
        channels_last=channels_last,
        dtype=dtype,
    )
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    images = sum(batch.num_images for batch in micro_batches)
    provisional = next_provisional(DENOMINATOR_PER_IMAGE, images)
    totals = TotalsAccumulator(criterion.term_names, device)
    can_tell_memory = restart_peak_memory(device)
    start_s = time.perf_counter()
    stepper.open_window(len(micro_batches))
    for batch in micro_batches:
        batch = batch.to(device)
        sums = stepper.forward(batch)
        totals.add(sums, images=batch.num_images, objects=batch.labels.shape[0])
        own = max(float(sums.denominator), 1.0) * images / batch.num_images
        stepper.backward(sums, own if mean_of_means else provisional)
    window = totals.totals()
    factor = gradient_factor(provisional=provisional, images=window.images, nbs=nbs, denominator=window.denominator)
    update = stepper.apply(images / nbs if mean_of_means else factor, finite=window.finite)
    seconds = time.perf_counter() - start_s
    for name, buffer in model.named_buffers():
        buffer.copy_(before[name])
    if not update.applied:
        raise ValueError("loss or gradient of the window are not finite")
    return WindowMeasurement(
        gradient=kept.gradient,
        loss=sum(window.losses().values()),
        denominator=window.denominator,
        seconds=seconds,
        peak_memory_mib=peak_memory_mib(device) if can_tell_memory else None,
    )


def agreement(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], names: Iterable[str]) -> Agreement:
    """Compare the named parts of two gradients, in float64.

    Raises:
        KeyError: a name that one of them lacks.
    """
    product = found_square = expected_square = difference_square = 0.0
    for name in names:
        a, b = found[name].double(), expected[name].double()
        product += float((a * b).sum())
        found_square += float(a.square().sum())
        expected_square += float(b.square().sum())
        difference_square += float((a - b).square().sum())
    lengths = math.sqrt(found_square * expected_square)
    return Agreement(
        cosine=product / lengths if lengths else math.nan,
        relative_difference=math.sqrt(difference_square / expected_square) if expected_square else math.nan,
        norm_ratio=math.sqrt(found_square / expected_square) if expected_square else math.nan,
    )


def agreement_by_part(
    found: Mapping[str, Tensor], expected: Mapping[str, Tensor], part_of: Callable[[str], str]
) -> dict[str, Agreement]:
    """The same for every part of the model, under the names that ``part_of`` gives, in order of appearance."""
    parts: dict[str, list[str]] = {}
    for name in expected:
        parts.setdefault(part_of(name), []).append(name)
    return {part: agreement(found, expected, names) for part, names in parts.items()}
