"""Batch norm over the micro-batch, over the replicas, and frozen.

Names, shapes and meaning of weights and running statistics are those of torch's batch norm in every variant, so that a
checkpoint written with one loads into any other.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yolo_accum.model.moments import SumOverReplicas, moments_of, normalised, values_per_channel
from yolo_accum.model.recompute import is_recomputing

EPS = 1e-3
"""What all public YOLOX weights were trained with."""
MOMENTUM = 0.1
"""Of the running statistics, a window. The public 0.03 looks back over 33 updates of a large batch, more than a short
run has to spare: after 12 epochs on the embedded set at lr 0.006, AP50 was 0.13 with 0.03 and 0.47 with 0.1."""


def window_momentum(momentum: float, num_micro_batches: int) -> float:
    """Momentum a micro-batch that forgets as much over a window as ``momentum`` forgets in one go."""
    return 1 - (1 - momentum) ** (1 / num_micro_batches)


def with_running_statistics(norm: nn.modules.batchnorm._BatchNorm, x: Tensor) -> Tensor:
    """What a norm makes of a map in evaluation mode."""
    return F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)


class _WindowMomentum:
    """Running statistics that look back over as many images as in a large batch."""

    momentum: float | None
    momentum_correction: bool

    def open_window(self, num_micro_batches: int) -> None:
        self.momentum = window_momentum(MOMENTUM, num_micro_batches) if self.momentum_correction else MOMENTUM

    def close_window(self, applied: bool) -> None:
        """Nothing outlives a window here: the engine itself takes running statistics back."""


class BatchNorm(_WindowMomentum, nn.BatchNorm2d):
    """Batch norm over the micro-batch.

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

    def forward(self, x: Tensor) -> Tensor:
        if self.training and values_per_channel(x) > 1:
            return super().forward(x)
        return with_running_statistics(self, x)


class SyncBatchNorm(_WindowMomentum, nn.BatchNorm2d):
    """Batch norm over the micro-batch of all replicas, which may hold different numbers of images, or none.

    The arithmetic of torch's own, which knows CUDA only, over any means of adding up. All replicas have to call it
    equally often, forward and backward.

    Args:
        num_channels: of the map.
        sum_over_replicas: adds up.
        momentum_correction: spread the momentum over the window's micro-batches.
    """

    def __init__(
        self, num_channels: int, *, sum_over_replicas: SumOverReplicas, momentum_correction: bool = True
    ) -> None:
        super().__init__(num_channels, eps=EPS, momentum=MOMENTUM)
        self.sum_over_replicas = sum_over_replicas
        self.momentum_correction = momentum_correction

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return with_running_statistics(self, x)
        mean, var, count = self._joint_statistics(x)
        return normalised(x, self.weight, self.bias, (mean, var), count, self.eps, self.sum_over_replicas)

    @torch.no_grad()
    def _joint_statistics(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, variance and number of values over all replicas; running statistics follow.

        One value in all has no variance: then these are the running statistics, to which ``x`` adds nothing, which an
        infinite number of values says.
        """
        assert self.running_mean is not None and self.running_var is not None
        # float64: sums of squares lose nothing to speak of
        sums = torch.zeros(3, self.num_features, dtype=torch.float64, device=x.device)
        if x.numel():
            own = moments_of(x)
            mean, var = own.mean.double(), own.var.double()
            sums = torch.stack((torch.ones_like(mean), mean, var + mean.square())) * own.count
        self.sum_over_replicas(sums)
        count = sums[0, 0]
        mean, square = sums[1:] / count
        var = (square - mean.square()).clamp(min=0)
        has_variance = count > 1
        if not is_recomputing():
            weight = has_variance.double() * (self.momentum or 0.0)
            self.running_mean.lerp_(mean.to(self.running_mean), weight.to(self.running_mean))
            unbiased = var * (count / (count - 1).clamp(min=1))
            self.running_var.lerp_(unbiased.to(self.running_var), weight.to(self.running_var))
        return (
            torch.where(has_variance, mean.to(self.running_mean), self.running_mean),
            torch.where(has_variance, var.to(self.running_var), self.running_var),
            torch.where(has_variance, count, torch.inf).to(self.running_mean),
        )


class CudaSyncBatchNorm(_WindowMomentum, nn.SyncBatchNorm):
    """torch's own, over the default process group.

    Args:
        num_channels: of the map.
        momentum_correction: spread the momentum over the window's micro-batches.
    """

    def __init__(self, num_channels: int, *, momentum_correction: bool = True) -> None:
        super().__init__(num_channels, eps=EPS, momentum=MOMENTUM)
        self.momentum_correction = momentum_correction


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
