"""Which image stands at which place of an epoch: each once, or images of rare classes more often."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.order import Stream, epoch_order, keyed_rng

NUM_KEPT_EPOCHS = 4
"""Orders that stay in memory: loading ahead crosses from one epoch into the next."""


class ImageOrder:
    """The images of every epoch in order, a pure function of the seed, the epoch and the repeat factors.

    An image with the factor r is shown floor(r) times an epoch, or once more: which images get the extra places is
    drawn for each epoch, so that every one of them gets its part in the long run. Every epoch has the same number of
    places: the sum of all floor(r), and of the parts behind the point, rounded down.

    Args:
        seed: of the run.
        num_images: rows of the index, at least 1.
        factors: [num_images], at least 1; None shows every image once.
    """

    def __init__(self, seed: int, num_images: int, factors: np.ndarray | None = None) -> None:
        self.seed = seed
        self.num_images = num_images
        self.factors = None if factors is None or (factors == 1).all() else factors
        self.num_positions = num_images
        """Places of an epoch: images that go through the network."""
        if self.factors is not None:
            whole = np.floor(self.factors)
            self._num_extra = int(np.floor((self.factors - whole).sum() + 1e-9))
            self.num_positions = int(whole.sum()) + self._num_extra
        self._kept: OrderedDict[int, np.ndarray] = OrderedDict()

    @property
    def is_balanced(self) -> bool:
        """Whether any image is shown more often than another."""
        return self.factors is not None

    def rows(self, epoch: int) -> np.ndarray:
        """[num_positions] int64, read-only: the row of the index at every place of an epoch (0-based)."""
        if self.factors is None:
            return epoch_order(self.seed, epoch, self.num_images)
        if epoch not in self._kept:
            repeated = np.repeat(np.arange(self.num_images), self.counts(epoch))
            rows = keyed_rng(self.seed, epoch, 0, Stream.ORDER).permutation(repeated)
            rows.setflags(write=False)
            self._kept[epoch] = rows
            if len(self._kept) > NUM_KEPT_EPOCHS:
                self._kept.popitem(last=False)
        return self._kept[epoch]

    def counts(self, epoch: int) -> np.ndarray:
        """[num_images] int64: how often an epoch shows each image; its sum is ``num_positions``."""
        if self.factors is None:
            return np.ones(self.num_images, dtype=np.int64)
        rng = keyed_rng(self.seed, epoch, 0, Stream.BALANCE)
        counts = np.floor(self.factors).astype(np.int64)
        parts = self.factors - counts
        if self._num_extra:
            # Systematic sampling: laid end to end in a random order, the parts are hit by points one unit apart. Each
            # image is hit in proportion to its part and at most once, and the number of hits is no matter of chance.
            order = rng.permutation(self.num_images)
            ends = np.cumsum(parts[order])
            ends *= self._num_extra / ends[-1]
            hits = np.searchsorted(ends, np.arange(self._num_extra) + rng.random(), side="right")
            counts[order[np.minimum(hits, self.num_images - 1)]] += 1
        return counts


def repeat_factors(index: DetectionIndex, threshold: float) -> np.ndarray:
    """How often an epoch should show each image, so that rare classes are seen more often.

    A class on the share f of the images has the factor ``max(1, sqrt(threshold / f))``, an image that of its rarest
    class; images without objects have 1. Crowd regions do not count.

    Args:
        index: of the training split.
        threshold: classes that are on a smaller share of the images are shown more often, 0..1.
    Returns:
        [n] float64, at least 1.
    Source: Gupta et al. 2019, arXiv:1908.03195, appendix B (repeat factor sampling).
    """
    single = ~index.is_crowd
    image_of_box = np.repeat(np.arange(len(index)), np.diff(index.box_starts))[single]
    pairs = np.unique(np.column_stack([image_of_box, index.labels[single]]), axis=0)
    images_with_class = np.bincount(pairs[:, 1], minlength=index.num_classes)
    share = np.maximum(images_with_class, 1) / len(index)
    of_class = np.maximum(1.0, np.sqrt(threshold / share))
    factors = np.ones(len(index))
    np.maximum.at(factors, pairs[:, 0], of_class[pairs[:, 1]])
    return factors


def image_order(index: DetectionIndex, *, seed: int, balance: float) -> ImageOrder:
    """The order of a run: each image once an epoch, or by repeat factors where ``balance`` is above 0."""
    return ImageOrder(seed, len(index), repeat_factors(index, balance) if balance else None)
