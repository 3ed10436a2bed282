"""Mixed precision: which one, and the gradient scaler that fp16 needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from yolo_accum.errors import UserError

BF16_GAIN = 1.1
"""`auto` takes bf16 on a CPU when a micro-batch is at least this many times faster than in fp32."""


@dataclass(frozen=True)
class Precision:
    """The type of the forward pass; weights, optimizer state and averages are always fp32."""

    name: str
    """off, bf16 or fp16."""
    reason: str = ""

    @property
    def dtype(self) -> torch.dtype | None:
        return {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[self.name]

    def autocast(self, device: torch.device) -> AbstractContextManager[None]:
        """Around a forward pass."""
        return torch.autocast(device.type, dtype=self.dtype, enabled=self.dtype is not None, cache_enabled=True)

    def scaler(self, device: torch.device) -> torch.amp.GradScaler | None:
        """A gradient scaler for fp16, whose small gradients would vanish otherwise."""
        return torch.amp.GradScaler(device.type) if self.name == "fp16" else None


def choose_precision(requested: str, device: torch.device, trial: Callable[[Precision], None]) -> Precision:
    """Resolve ``--amp``.

    Args:
        requested: auto, fp16, bf16 or off.
        device: where the model runs.
        trial: runs one micro-batch forward and backward in the given precision; used to measure on a CPU.
    Raises:
        UserError: bf16 on a GPU that has none.
    """
    if requested == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise UserError(f"--amp bf16: {torch.cuda.get_device_name(device)} has no bf16; use --amp fp16 or off")
    if requested != "auto":
        return Precision(requested, "as asked")
    if device.type == "cuda":
        return Precision("fp16", "auto: CUDA")
    if device.type != "cpu" or not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return Precision("off", f"auto: no native bf16 on this {device.type}")
    gain = _speed_gain(trial)
    name = "bf16" if gain >= BF16_GAIN else "off"
    return Precision(name, f"auto: bf16 measured {gain:.2f} times as fast as fp32")


def _speed_gain(trial: Callable[[Precision], None], rounds: int = 5) -> float:
    """Time of fp32 over time of bf16, alternating after one round to warm up.

    The fastest of each counts: other work on the machine only ever adds time, and the same command should choose the
    same precision on a busy machine.
    """
    seconds: dict[str, list[float]] = {"off": [], "bf16": []}
    for _ in range(rounds + 1):
        for name, times in seconds.items():
            start = time.perf_counter()
            trial(Precision(name))
            times.append(time.perf_counter() - start)
    return min(seconds["off"][1:]) / min(seconds["bf16"][1:])
