"""Averaged weights: one step of the average per applied update."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn


def ema_decay_at(updates_applied: int, decay: float, tau: float) -> float:
    """Decay of the average after ``updates_applied`` updates: grows from 0 so that early weights are forgotten."""
    return decay * (1 - math.exp(-updates_applied / tau))


class EmaModel:
    """An exponential moving average of parameters and buffers, in a copy of the model in evaluation mode.

    Args:
        model: the model that is trained, already on its device.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self._refresh(model)

    def _refresh(self, model: nn.Module) -> None:
        """Pair up the tensors; they keep their identity while a run lasts, so this is done once."""
        ours, live = self.model.state_dict(), model.state_dict()
        pairs = [(ours[name], live[name]) for name in ours]
        self._averaged = [ours for ours, _ in pairs if ours.is_floating_point()]
        self._live = [live for ours, live in pairs if ours.is_floating_point()]
        self._counts = [(ours, live) for ours, live in pairs if not ours.is_floating_point()]

    @torch.no_grad()
    def update(self, decay: float) -> bool:
        """Fold the live weights in: ``average = decay * average + (1 - decay) * live``.

        Returns:
            False when a live weight is not finite: the average is left as it was.
        """
        if not all_finite(self._live):
            return False
        torch._foreach_lerp_(self._averaged, self._live, 1.0 - decay)
        for ours, live in self._counts:
            ours.copy_(live)
        return True


def all_finite(tensors: list[Tensor]) -> bool:
    """Whether every value of every tensor is finite (one number is read back)."""
    norms = torch._foreach_norm(tensors, ord=float("inf"))
    return bool(torch.stack(norms).isfinite().all())
