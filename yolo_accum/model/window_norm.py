"""Batch norm over the window so far: this micro-batch and, as constants, the earlier ones of the same window.

Weights do not move inside a window, so the earlier micro-batches' statistics are still those that these weights give.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from yolo_accum.model.batch_norm import EPS, MOMENTUM, with_running_statistics
from yolo_accum.model.moments import Moments, moments_of, normalised, renormalised, values_per_channel
from yolo_accum.model.recompute import is_recomputing


class WindowNorm(nn.BatchNorm2d):
    """What both kinds have in common; a window of one micro-batch is plain batch norm, as is a pass outside a window.

    Running statistics follow once a window, from the window's own. What is known of an open window is no part of the
    state: it cannot leak into checkpoints or averaged weights. A micro-batch that leaves one value per channel is
    normalised with the running statistics and does not count.
    """

    def __init__(self, num_channels: int) -> None:
        super().__init__(num_channels, eps=EPS, momentum=MOMENTUM)
        self._is_open = False
        self._window: Moments | None = None
        self._before: Moments | None = None  # the same without the present micro-batch, for a second pass over it

    def open_window(self, num_micro_batches: int) -> None:
        self._is_open, self._window, self._before = True, None, None

    def close_window(self, applied: bool) -> None:
        if applied and self._window is not None:
            self._follow(self._window)
        self._is_open, self._window, self._before = False, None, None

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or values_per_channel(x) <= 1:
            return with_running_statistics(self, x)
        present = moments_of(x)
        before = self._before if is_recomputing() else self._window
        joint = before.joined(present) if before is not None else present
        if not is_recomputing():
            if self._is_open:
                self._before, self._window = before, joint
            else:
                self._follow(present)
        return self._normalised(x, present, joint)

    @abstractmethod
    def _normalised(self, x: Tensor, present: Moments, joint: Moments) -> Tensor:
        """Scaled and shifted."""

    @torch.no_grad()
    def _follow(self, moments: Moments) -> None:
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None
        self.running_mean.lerp_(moments.mean, MOMENTUM)
        self.running_var.lerp_(moments.unbiased_var(), MOMENTUM)
        self.num_batches_tracked.add_(1)


class CrossMiniBatchNorm(WindowNorm):
    """Cross mini-batch normalisation: the gradient goes through the part that the micro-batch has in the statistics.

    Source: Bochkovskiy et al. 2020 (YOLOv4), arXiv:2004.10934, section 3.3.
    """

    def _normalised(self, x: Tensor, present: Moments, joint: Moments) -> Tensor:
        return normalised(x, self.weight, self.bias, (joint.mean, joint.var), joint.count, self.eps)


class WindowRenorm(WindowNorm):
    """Window renormalisation: the same value, the gradient of the micro-batch's own normalisation.

    Source: the gradient is that of batch renormalisation, Ioffe 2017, arXiv:1702.03275.
    """

    def _normalised(self, x: Tensor, present: Moments, joint: Moments) -> Tensor:
        return renormalised(x, self.weight, self.bias, present, joint, self.eps)
