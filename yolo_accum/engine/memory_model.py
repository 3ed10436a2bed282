"""Peak memory of a replica as a function of its images, and the micro-batch that fits. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HEADROOM = 0.1
"""Share of the memory that stays free: a prediction may be that far off, and allocators leave gaps."""


@dataclass(frozen=True, kw_only=True)
class MemoryModel:
    """A line through two measurements; activations are proportional to the images, everything else is not."""

    fixed_bytes: float
    """Program, weights, gradients, optimizer, averaged weights, and what the densest image needs in the loss."""
    image_bytes: float
    """Of one more image."""
    update_bytes: float
    """Highest point of the optimizer's step, which no image takes part in."""

    def peak_bytes(self, num_images: int) -> float:
        """Of micro-batches of so many images on one replica."""
        return max(self.update_bytes, self.fixed_bytes + self.image_bytes * num_images)

    def fits(self, num_images: int, memory_bytes: float) -> bool:
        """Whether so many images leave `HEADROOM` free."""
        return self.peak_bytes(num_images) <= memory_bytes * (1 - HEADROOM)


def fit_memory(peaks: Mapping[int, float], update_bytes: float) -> MemoryModel:
    """The line through the peaks of two micro-batches.

    Args:
        peaks: bytes by images of forward and backward pass; two entries.
        update_bytes: peak of the optimizer's step.
    """
    (few, low), (many, high) = sorted(peaks.items())
    image_bytes = max(0.0, (high - low) / (many - few))
    return MemoryModel(fixed_bytes=low - image_bytes * few, image_bytes=image_bytes, update_bytes=update_bytes)


def candidate_batches(nbs: int, num_replicas: int) -> list[int]:
    """Batches, ascending, that divide over the replicas and whose full window holds exactly ``nbs`` images.

    Where there is none, because ``nbs`` does not divide over the replicas, all up to ``nbs`` that do.
    """
    divisible = range(num_replicas, max(nbs, num_replicas) + 1, num_replicas)
    return [batch for batch in divisible if nbs % batch == 0] or list(divisible)


def largest_batch(model: MemoryModel, memory_bytes: float, nbs: int, num_replicas: int) -> int | None:
    """The largest of `candidate_batches` that fits; None when not even the smallest does."""
    fitting = [
        batch for batch in candidate_batches(nbs, num_replicas) if model.fits(batch // num_replicas, memory_bytes)
    ]
    return max(fitting, default=None)
