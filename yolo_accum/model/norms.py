"""Normalisation layers. A model is built with a factory, so that no block knows which norm it carries."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

NormFactory = Callable[[int], nn.Module]
"""Makes the norm of so many channels."""


def batch_norm(num_channels: int) -> nn.Module:
    """Batch norm with the constants that all public YOLOX weights were trained with."""
    return nn.BatchNorm2d(num_channels, eps=1e-3, momentum=0.03)
