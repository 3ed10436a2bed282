"""Running statistics measured on images, instead of averaged on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from yolo_accum.model.moments import Moments, moments_of, values_per_channel


def batch_norms(model: nn.Module) -> list[_BatchNorm]:
    """All norms that keep running statistics."""
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


def is_folded(model: nn.Module) -> bool:
    """Whether all running statistics are without effect: mean 0, variance 1, or 1 - eps.

    In trained weights this means that the norms were folded into the convolutions. In training mode such a network
    starts from nothing.
    """
    norms = batch_norms(model)
    for norm in norms:
        assert norm.running_mean is not None and norm.running_var is not None
        if norm.running_mean.any() or ((norm.running_var - 1).abs() > 1.01 * norm.eps).any():
            return False
    return bool(norms)


@torch.no_grad()
def estimate_running_statistics(model: nn.Module, batches: Iterable[Tensor]) -> None:
    """Set running statistics to the average of the statistics of batches, with the weights as they are now.

    Statistics that were averaged during training lag behind the weights, and those of averaged weights were never
    measured at all. The larger of two batches has the larger share; a layer that a batch leaves one value per channel
    skips it.

    Args:
        model: any mode; restored.
        batches: network inputs [m, 3, H, W]; each is normalised by itself, as in training.
    Source: Wu and Johnson 2021, arXiv:2105.07576, section 3.
    """
    sums: dict[_BatchNorm, tuple[Tensor, Tensor, int]] = {}

    def add(norm: _BatchNorm, x: Tensor) -> None:
        if values_per_channel(x) > 1:
            own = moments_of(x)
            mean, var, images = sums.get(norm, (0.0, 0.0, 0))
            sums[norm] = (
                mean + own.mean.double() * len(x),
                var + own.unbiased_var().double() * len(x),
                images + len(x),
            )

    with _watched(model, add, training=True):
        for images in batches:
            model(images)
    for norm, (mean, var, num_images) in sums.items():
        _set(norm.running_mean, mean / num_images)
        _set(norm.running_var, var / num_images)


@torch.no_grad()
def calibrate(model: nn.Module, batches: Iterable[Tensor]) -> int:
    """Give norms the statistics of their inputs, and scale and shift that leave the output in evaluation mode as it is.

    With norms that were folded away a network works in evaluation mode only: its batch statistics have nothing to do
    with the running ones. Afterwards both agree, so training starts from where the weights are. One pass is enough,
    since no activation in evaluation mode changes.

    Args:
        model: any mode; restored.
        batches: network inputs [m, 3, H, W].
    Returns:
        number of norms.
    """
    measured: dict[_BatchNorm, Moments] = {}

    def add(norm: _BatchNorm, x: Tensor) -> None:
        own = moments_of(x)
        wide = Moments(own.mean.double(), own.var.double(), own.count)
        measured[norm] = measured[norm].joined(wide) if norm in measured else wide

    with _watched(model, add, training=False):
        for images in batches:
            model(images)
    for norm, moments in measured.items():
        assert norm.running_mean is not None and norm.running_var is not None
        scale = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
        _set(norm.bias, norm.bias.double() + (moments.mean - norm.running_mean.double()) * scale)
        _set(norm.weight, scale * (moments.var + norm.eps).sqrt())
        _set(norm.running_mean, moments.mean)
        _set(norm.running_var, moments.var)
    return len(measured)


@contextmanager
def _watched(model: nn.Module, add: Callable[[_BatchNorm, Tensor], None], *, training: bool) -> Iterator[None]:
    """Call ``add`` with the input of every norm, in the given mode; both are taken back afterwards."""
    was_training = model.training
    handles = [
        norm.register_forward_pre_hook(lambda module, inputs: add(module, inputs[0])) for norm in batch_norms(model)
    ]
    try:
        model.train(training)
        yield
    finally:
        for handle in handles:
            handle.remove()
        model.train(was_training)


def _set(tensor: Tensor | None, values: Tensor) -> None:
    assert tensor is not None
    tensor.copy_(values)
