"""Mean and variance of the channels of a map, and normalising with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

SumOverReplicas = Callable[[Tensor], None]
"""Adds a tensor up over all replicas, in place."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Of all values of a channel, for c channels; without graph."""

    mean: Tensor
    """[c] float32 at least."""
    var: Tensor
    """[c], the mean square distance from the mean."""
    count: int
    """Values of one channel."""

    def unbiased_var(self) -> Tensor:
        """[c], the variance that running statistics are made of."""
        return self.var * (self.count / max(self.count - 1, 1))

    def joined(self, other: Moments) -> Moments:
        """Of the values of both (Chan et al. 1979: no small difference of large squares)."""
        count = self.count + other.count
        share = other.count / count
        distance = other.mean - self.mean
        return Moments(
            mean=self.mean + distance * share,
            var=self.var * (1 - share) + other.var * share + distance.square() * (share * (1 - share)),
            count=count,
        )


def values_per_channel(x: Tensor) -> int:
    """How many values a channel of [m, c, H, W] has: m * H * W."""
    return x.numel() // x.shape[1]


@torch.no_grad()
def moments_of(x: Tensor) -> Moments:
    """Of a map [m, c, H, W] with at least one value."""
    dtype = x.dtype if x.dtype == torch.float64 else torch.float32
    # `var_mean` would say the same, 3 to 70 times more slowly on a CPU; given tensors decide the type of the result
    unused = torch.zeros(2, x.shape[1], dtype=dtype, device=x.device)
    mean, var = torch.batch_norm_update_stats(x, unused[0], unused[1], 0.0)
    return Moments(mean, var, values_per_channel(x))


def normalised(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    statistics: tuple[Tensor, Tensor],
    count: float | Tensor,
    eps: float,
    sum_over_replicas: SumOverReplicas | None = None,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, differentiated through the share that ``x`` has in mean and
    variance.

    Args:
        x: [m, c, H, W]; m may be 0 on some replicas.
        weight: [c].
        bias: [c].
        statistics: mean and variance, [c] each, over ``x`` and other values that are constant, or that other replicas
            differentiate likewise.
        count: values of a channel that the statistics are over.
        eps: added to the variance.
        sum_over_replicas: where other replicas have a share too.
    """
    return _Normalise.apply(x, weight, bias, *statistics, count, eps, sum_over_replicas)


def renormalised(x: Tensor, weight: Tensor, bias: Tensor, own: Moments, joint: Moments, eps: float) -> Tensor:
    """The value of normalising with the joint statistics, the gradient of batch renormalisation.

    That is ``(x - mean_own) / sd_own * r + d``, where ``r = sd_own / sd_joint`` and ``d = (mean_own - mean_joint) /
    sd_joint`` count as constants, times ``weight`` plus ``bias``.

    Args:
        x: [m, c, H, W].
        weight: [c].
        bias: [c].
        own: of ``x``.
        joint: of ``x`` and others.
        eps: added to the variances.
    Source: Ioffe 2017, arXiv:1702.03275.
    """
    return _Renormalise.apply(x, weight, bias, own.mean, own.var, joint.mean, joint.var, eps)


class _Normalise(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        mean: Tensor,
        var: Tensor,
        count: float | Tensor,
        eps: float,
        sum_over_replicas: SumOverReplicas | None,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, var)
        ctx.count, ctx.eps, ctx.sum_over_replicas = count, eps, sum_over_replicas
        return F.batch_norm(x, mean, var, weight, bias, eps=eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, var = ctx.saved_tensors
        inv_sd = (var + ctx.eps).rsqrt()
        sums = torch.zeros(2, len(mean), dtype=mean.dtype, device=mean.device)
        if x.numel():
            _, grad_weight, grad_bias = _batch_norm_backward(grad, x, weight, mean, inv_sd, ctx.eps, with_input=False)
            sums = torch.stack((grad_bias, grad_weight))
        else:
            grad_bias, grad_weight = sums
        if ctx.sum_over_replicas is not None:
            sums = sums.clone()
            ctx.sum_over_replicas(sums)
        mean_grad, mean_product = (_channels(item, x) for item in sums / ctx.count)
        scale = _channels(weight * inv_sd, x)
        grad_x = (grad - mean_grad) * scale
        grad_x -= (x - _channels(mean, x)) * (scale * _channels(inv_sd, x) * mean_product)
        return grad_x.to(x.dtype), grad_weight, grad_bias, None, None, None, None, None


class _Renormalise(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        own_mean: Tensor,
        own_var: Tensor,
        mean: Tensor,
        var: Tensor,
        eps: float,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, own_mean, own_var, mean, var)
        ctx.eps = eps
        return F.batch_norm(x, mean, var, weight, bias, eps=eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, own_mean, own_var, mean, var = ctx.saved_tensors
        own_inv_sd, inv_sd = (own_var + ctx.eps).rsqrt(), (var + ctx.eps).rsqrt()
        r, d = inv_sd / own_inv_sd, (own_mean - mean) * inv_sd
        grad_x, grad_weight, grad_bias = _batch_norm_backward(grad, x, weight * r, own_mean, own_inv_sd, ctx.eps)
        return grad_x, grad_weight * r + grad_bias * d, grad_bias, None, None, None, None, None


def _batch_norm_backward(
    grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, inv_sd: Tensor, eps: float, *, with_input: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of batch norm in training mode, by torch's fused kernel."""
    wanted = [with_input, True, True]
    return torch.ops.aten.native_batch_norm_backward(grad, x, weight, None, None, mean, inv_sd, True, eps, wanted)


def _channels(values: Tensor, x: Tensor) -> Tensor:
    """[c] in a shape that goes with ``x``."""
    return values.view(-1, *(1 for _ in x.shape[2:]))
