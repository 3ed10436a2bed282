"""Which image went through the network how often in the present epoch: the proof that none was lost or taken twice."""

from __future__ import annotations

import torch
from torch import Tensor


class Ledger:
    """Counts rows of the training index as they arrive.

    Args:
        num_images: rows of the index.
    """

    def __init__(self, num_images: int) -> None:
        self.counts = torch.zeros(num_images, dtype=torch.int32)
        """[n] times each image was taken in the present epoch."""

    def add(self, image_indices: Tensor) -> None:
        """Count the images of a micro-batch, [m] int64 on the CPU."""
        self.counts.index_add_(0, image_indices, torch.ones_like(image_indices, dtype=torch.int32))
