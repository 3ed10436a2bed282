"""Activation checkpointing: a block keeps its input only and is computed again in the backward pass.

The second pass repeats the values of the first bit for bit, so gradients do not change. It works on copies of the
buffers as they were before the first, so running statistics follow once.

Source: Chen et al. 2016, arXiv:1604.06174; the second pass itself is torch's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

_thread = threading.local()  # the backward pass of a GPU runs in a thread of its own


def is_recomputing() -> bool:
    """Whether a block is being computed for the second time. Norms with a memory outside of their buffers must then
    repeat the values of the first pass, and leave that memory alone."""
    return getattr(_thread, "is_recomputing", False)


class Recomputable(nn.Module):
    """A block that can do without its inner activations between forward and backward pass."""

    recompute = False
    """Set by `recompute_activations`."""

    def __call__(self, *inputs: Any) -> Any:
        if not self.recompute or is_recomputing() or not (self.training and torch.is_grad_enabled()):
            return super().__call__(*inputs)
        before = {name: buffer.clone() for name, buffer in self.named_buffers()}

        def compute(*inputs: Any) -> Any:
            return (
                functional_call(self, before, inputs)
                if is_recomputing()
                else super(Recomputable, self).__call__(*inputs)
            )

        return checkpoint(compute, *inputs, use_reentrant=False, context_fn=_passes)


def recompute_activations(model: nn.Module, on: bool = True) -> int:
    """Let the outermost blocks of a model be computed again in the backward pass, in training mode.

    Returns:
        how many blocks.
    """
    if isinstance(model, Recomputable):
        model.recompute = on
        return 1
    return sum(recompute_activations(child, on) for child in model.children())


def _passes() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    return nullcontext(), _second_pass()


@contextmanager
def _second_pass() -> Iterator[None]:
    _thread.is_recomputing = True
    try:
        yield
    finally:
        _thread.is_recomputing = False
