"""One update: forward and backward of its micro-batches, then unscale, factor, norm, finite?, clip, step: each once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from yolo_accum.contracts import Batch, Criterion, DenseOutput, LossSums, WindowAware
from yolo_accum.engine.distributed import Replicas
from yolo_accum.engine.precision import Precision

Keep = Callable[[dict[str, Tensor]], None]
"""Is given the gradient of a window by name of the parameter, before it is clipped, and may not change it."""


@dataclass(frozen=True, kw_only=True)
class AppliedUpdate:
    """What came of an attempted update."""

    applied: bool
    grad_norm: float
    """Global L2 norm before clipping."""
    clip_coefficient: float
    scaler_scale: float
    """In force while the window was open."""


def network_input(images: Tensor, memory_format: torch.memory_format) -> Tensor:
    """[m, 3, H, W] uint8 -> float32 in 0..1, the input of every model of this project."""
    return images.to(torch.float32, memory_format=memory_format).div_(255.0)


class Stepper:
    """Owns model, optimizer and scaler, and performs the parts of an update in the order that the loop calls them.

    Args:
        model: on its device, in training mode, already frozen as wished.
        criterion: returns sums, see `yolo_accum.contracts.LossSums`.
        optimizer: over the model's parameters.
        precision: of the forward pass.
        device: of the model.
        max_grad_norm: clip to this global L2 norm, 0 for no clipping.
        replicas: this process's place among the replicas.
        channels_last: memory format of the images.
        dtype: of images and weights, float32 in training; float64 in proofs.
    """

    def __init__(
        self,
        *,
        model: nn.Module,
        criterion: Criterion,
        optimizer: torch.optim.Optimizer,
        precision: Precision,
        device: torch.device,
        max_grad_norm: float,
        replicas: Replicas | None = None,
        channels_last: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.model = model
        self.criterion = criterion
        self.optimizer = optimizer
        self.precision = precision
        self.device = device
        self.max_grad_norm = max_grad_norm
        self.replicas = replicas or Replicas()
        self.scaler = precision.scaler(device)
        self._wrapped = self.replicas.wrap(model, device)
        self._memory_format = torch.channels_last if channels_last else torch.contiguous_format
        self._dtype = dtype
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # Gradients keep their place for the whole run: made anew among the activations of each window, they would leave
        # holes there that the next window cannot use.
        for parameter in self._parameters:
            parameter.grad = torch.zeros_like(parameter)
        self._norm_buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        self._norm_buffers_before = [buffer.clone() for buffer in self._norm_buffers]
        self._window_aware = [module for module in model.modules() if isinstance(module, WindowAware)]

    def sync_context(self, is_last: bool) -> AbstractContextManager[None]:
        """Around forward and backward of a micro-batch; gradients are exchanged on the window's last one only."""
        return self.replicas.sync_context(self._wrapped, is_last)

    def open_window(self, num_micro_batches: int) -> None:
        """Forget old gradients and remember running statistics, so that a refused update leaves no trace.

        Args:
            num_micro_batches: length of the window, for norms that depend on it.
        """
        self.optimizer.zero_grad(set_to_none=False)
        if self._norm_buffers:
            torch._foreach_copy_(self._norm_buffers_before, self._norm_buffers)
        for module in self._window_aware:
            module.open_window(num_micro_batches)

    def forward(self, batch: Batch) -> LossSums:
        """Loss sums of one micro-batch that lies on the device."""
        images = network_input(batch.images, self._memory_format).to(self._dtype)
        with self.precision.autocast(self.device):
            output: DenseOutput = self._wrapped(images)
        return self.criterion(output, batch)

    def backward(self, sums: LossSums, provisional: float) -> None:
        """Accumulate the gradients of ``sums / provisional``, scaled by the scaler's present scale."""
        loss = sums.total() / provisional
        if self.scaler is not None:
            loss = self.scaler.scale(loss)
        loss.backward()

    def backward_nothing(self, size_px: int) -> None:
        """A micro-batch of no images, for a replica that has no share: it adds a gradient of zero, and takes part in
        whatever the replicas exchange on the way forward and back.
        """
        images = torch.zeros(0, 3, size_px, size_px, device=self.device, dtype=self._dtype)
        with self.precision.autocast(self.device):
            output: DenseOutput = self._wrapped(images)
        parts = [output.boxes_xyxy_px, output.box_raw, output.class_logits, output.objectness_logits]
        loss = torch.stack([part.float().sum() for part in parts if part is not None]).sum()
        if self.scaler is not None:
            loss = self.scaler.scale(loss)
        loss.backward()

    def apply(self, factor: float, *, finite: bool, keep: Keep | None = None) -> AppliedUpdate:
        """Unscale, multiply by the factor, measure, clip and step - or refuse.

        Args:
            factor: see `yolo_accum.engine.totals.gradient_factor`.
            finite: whether all losses of the window were finite, on every replica.
            keep: is called with the gradient of the window.
        Returns:
            what happened. A refused update leaves weights, optimizer state and running statistics as they were
            when the window was opened.
        """
        scale = 1.0
        if self.scaler is not None:
            scale = self.scaler.get_scale()
            self.scaler.unscale_(self.optimizer)
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        torch._foreach_mul_(gradients, factor)
        if keep is not None:
            keep({name: item.grad for name, item in self.model.named_parameters() if item.grad is not None})
        norm = torch.nn.utils.get_total_norm(gradients)
        grad_norm = float(norm)
        applied = finite and grad_norm < float("inf")
        clip_coefficient = 1.0
        if applied:
            if 0 < self.max_grad_norm < grad_norm:
                clip_coefficient = self.max_grad_norm / grad_norm
                torch._foreach_mul_(gradients, clip_coefficient)
            if self.scaler is not None:
                self.scaler.step(self.optimizer)
            else:
                self.optimizer.step()
        elif self._norm_buffers:
            torch._foreach_copy_(self._norm_buffers, self._norm_buffers_before)
        for module in self._window_aware:
            module.close_window(applied)
        if self.scaler is not None:
            self.scaler.update()
        self.optimizer.zero_grad(set_to_none=False)
        return AppliedUpdate(
            applied=applied, grad_norm=grad_norm, clip_coefficient=clip_coefficient, scaler_scale=scale
        )
