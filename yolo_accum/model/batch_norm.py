"""Batch norm over the micro-batch, and batch norm that is frozen.

Names, shapes and meaning of weights and running statistics are those of torch's batch norm in every variant, so that a
checkpoint written with one loads into any other.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

EPS = 1e-3
MOMENTUM = 0.03
"""Constants that all public YOLOX weights were trained with."""


def window_momentum(momentum: float, num_micro_batches: int) -> float:
    """Momentum a micro-batch that forgets as much over a window as ``momentum`` forgets in one go."""
    return 1 - (1 - momentum) ** (1 / num_micro_batches)


def values_per_channel(x: Tensor) -> int:
    """How many values a channel of [m, channels, H, W] has: m * H * W."""
    return x.numel() // x.shape[1]


class BatchNorm(nn.BatchNorm2d):
    """Batch norm over the micro-batch, with running statistics that look back over as many images as in a large batch.

    A micro-batch that leaves one value per channel has no variance: it is normalised with the running statistics, and
    does not change them.

    Args:
        num_channels: of the map.
        momentum_correction: spread the momentum over the window's micro-batches.
    Source: Ioffe and Szegedy 2015, arXiv:1502.03167.
    """

    def __init__(self, num_channels: int, *, momentum_correction: bool = True) -> None:
        super().__init__(num_channels, eps=EPS, momentum=MOMENTUM)
        self.momentum_correction = momentum_correction

    def open_window(self, num_micro_batches: int) -> None:
        self.momentum = window_momentum(MOMENTUM, num_micro_batches) if self.momentum_correction else MOMENTUM

    def close_window(self, applied: bool) -> None:
        """Nothing outlives a window here: the engine takes running statistics back itself."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and values_per_channel(x) > 1:
            return super().forward(x)
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)


class FrozenBatchNorm(nn.BatchNorm2d):
    """Batch norm whose running statistics never move, whatever mode the model is put into.

    Args:
        num_channels: of the map.
        freeze_affine: do not train scale and shift either.
    """

    def __init__(self, num_channels: int, *, freeze_affine: bool = False) -> None:
        super().__init__(num_channels, eps=EPS, momentum=MOMENTUM)
        self.eval()
        if freeze_affine:
            self.requires_grad_(False)

    def train(self, mode: bool = True) -> FrozenBatchNorm:
        """Stay in evaluation mode."""
        return super().train(False)
