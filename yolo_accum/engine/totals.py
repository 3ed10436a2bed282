"""Loss sums of a window and the one number its gradients are multiplied by.

The gradient of an update is ``(n / nbs) * grad(sum of sums) / max(sum of S, 1)``. ``S`` is known only after the last
forward pass and the gradient is linear in it, so every micro-batch back-propagates ``sums / provisional`` and the
accumulated gradients are multiplied once by ``provisional * n / (nbs * max(S, 1))``.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from yolo_accum.contracts import LossSums


@dataclass(frozen=True, kw_only=True)
class Requests:
    """What is to be done at the window's end because a replica asks for it.

    Requests are added up over the replicas with the totals, so that all of them save or stop at the same window.
    """

    sigint: int = 0
    """Replicas that received SIGINT."""
    sigterm: int = 0
    save: int = 0
    """Replicas that find their last checkpoint old."""

    @property
    def stop_signal(self) -> int | None:
        """The signal to stop for, or None."""
        if self.sigterm:
            return signal.SIGTERM
        return signal.SIGINT if self.sigint else None


@dataclass(frozen=True, kw_only=True)
class WindowTotals:
    """Sums over all micro-batches and replicas of one window."""

    terms: dict[str, float]
    denominator: float
    images: int
    objects: int
    finite: bool
    """Whether the loss of every micro-batch was finite."""
    requests: Requests = Requests()

    def losses(self) -> dict[str, float]:
        """The loss that is optimised, by term: totals over the clamped total denominator."""
        return {name: value / max(self.denominator, 1.0) for name, value in self.terms.items()}


class TotalsAccumulator:
    """Adds loss sums on the device in float64, without waiting for it; read once a window.

    Args:
        term_names: the terms that the criterion may return.
        device: where the sums lie.
    """

    def __init__(self, term_names: Sequence[str], device: torch.device) -> None:
        self._names = tuple(term_names)
        self.values = torch.zeros(len(self._names) + 4 + 3, dtype=torch.float64, device=device)
        """[terms + 4 + 3]: terms, denominator, images, objects, micro-batches with a loss that is not finite;
        requests. Added up over the replicas this is all that they have to tell each other."""

    def add(self, sums: LossSums, *, images: int, objects: int) -> None:
        """Add one micro-batch."""
        zero = torch.zeros((), dtype=torch.float64, device=self.values.device)
        terms = [sums.terms[name].detach().double() if name in sums.terms else zero for name in self._names]
        parts = torch.stack([*terms, sums.denominator.double(), zero + images, zero + objects, zero])
        parts[-1] = (~torch.isfinite(parts).all()).double()
        self.values[:-3] += torch.where(torch.isfinite(parts), parts, 0.0)

    def ask(self, requests: Requests) -> None:
        """Add what this replica asks for."""
        numbers = [requests.sigint, requests.sigterm, requests.save]
        self.values[-3:] += torch.tensor(numbers, dtype=torch.float64, device=self.values.device)

    def totals(self) -> WindowTotals:
        """The sums as numbers (waits for the device)."""
        *terms, denominator, images, objects, not_finite, sigint, sigterm, save = self.values.tolist()
        return WindowTotals(
            terms=dict(zip(self._names, terms, strict=True)),
            denominator=denominator,
            images=round(images),
            objects=round(objects),
            finite=not_finite == 0,
            requests=Requests(sigint=round(sigint), sigterm=round(sigterm), save=round(save)),
        )


def gradient_factor(*, provisional: float, images: int, nbs: int, denominator: float, averaged_over: int = 1) -> float:
    """What the accumulated gradients of ``sums / provisional`` are multiplied by.

    Args:
        provisional: the positive constant that every micro-batch of the window was divided by.
        images: n, images that the window really held, over all replicas.
        nbs: nominal batch size.
        denominator: S, total over all micro-batches and replicas; clamped at 1 here and nowhere else.
        averaged_over: replicas, where their reduction averages instead of summing.
    """
    return provisional * averaged_over * images / (nbs * max(denominator, 1.0))


def next_provisional(estimate_per_image: float, images: int) -> float:
    """The divisor for a window of ``images`` images: the expected denominator, rounded to a power of two.

    A division by a power of two is exact, so the choice cannot change the result by rounding; being near the true
    denominator keeps fp16 gradients in range.
    """
    return 2.0 ** round(math.log2(max(1.0, estimate_per_image * images)))


def update_estimate(estimate_per_image: float, totals: WindowTotals) -> float:
    """Running estimate of the denominator an image, from the window just finished."""
    if totals.images == 0:
        return estimate_per_image
    return 0.7 * estimate_per_image + 0.3 * totals.denominator / totals.images
