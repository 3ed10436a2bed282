"""Which image went through the network how often in the present epoch: the proof that none was lost or taken twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor


class Ledger:
    """Counts rows of the training index as they arrive.

    Args:
        num_images: rows of the index.
        planned: how often an epoch (0-based) is to take each image, [n]; by default each once.
    """

    def __init__(self, num_images: int, planned: Callable[[int], np.ndarray] | None = None) -> None:
        self.counts = torch.zeros(num_images, dtype=torch.int32)
        """[n] times each image was taken in the present epoch."""
        self._planned = planned

    def add(self, image_indices: Tensor) -> None:
        """Count the images of a micro-batch, [m] int64 on the CPU."""
        self.counts.index_add_(0, image_indices, torch.ones_like(image_indices, dtype=torch.int32))

    def num_off_plan(self, epoch: int) -> int:
        """Images that were taken more or less often than an epoch (0-based) is to take them."""
        planned = torch.from_numpy(self._planned(epoch)) if self._planned is not None else torch.ones_like(self.counts)
        return int((self.counts != planned).sum())
