"""What a micro-batch needs, measured at two small ones on the device at hand."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from yolo_accum.contracts import Batch
from yolo_accum.engine.memory import peak_memory_mib, restart_peak_memory
from yolo_accum.engine.memory_model import MemoryModel, fit_memory
from yolo_accum.engine.update import Stepper

PROBED_IMAGES = (1, 2)
TIMED_WINDOWS = 3
"""The fastest counts: other work on the machine only ever adds time."""
CPU_SCRATCH: Mapping[bool, float] = {False: 0.2, True: 0.25}
"""On a CPU, what kernels and allocator need besides live tensors, as a share of the activations an image keeps in the
same precision (also where they are recomputed: it is the same kernels), by whether that is half precision. Measured
from the peaks of whole processes that keep freed memory, 4 to 32 images of yolox_nano at 320 px, kept and recomputed:
predictions are then within 6 % in fp32 and bf16."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What was measured: on CUDA the peaks of the allocator, on a CPU those of live tensors."""

    peaks: Mapping[int, float]
    """Bytes of forward and backward pass, by images."""
    update_bytes: float
    """Peak of the optimizer's step."""
    process_bytes: float | None
    """Peak of the process meanwhile; None on CUDA."""
    seconds_per_image: float
    """Of forward, loss, backward and an update every second micro-batch."""
    is_half_precision: bool = False


def memory_model(found: Probe, kept: Probe) -> MemoryModel:
    """Peaks of the device or, on a CPU, of the process.

    Args:
        found: of the run.
        kept: of the same run with all activations kept; may be the same probe.
    """
    plain = fit_memory(found.peaks, found.update_bytes)
    if kept.process_bytes is None:
        return plain
    scratch = CPU_SCRATCH[kept.is_half_precision] * fit_memory(kept.peaks, kept.update_bytes).image_bytes
    known = max(kept.update_bytes, *(peak + scratch * images for images, peak in kept.peaks.items()))
    program = kept.process_bytes - known
    return MemoryModel(
        fixed_bytes=plain.fixed_bytes + program,
        image_bytes=plain.image_bytes + scratch,
        update_bytes=plain.update_bytes + program,
    )


class LiveTensors(TorchDispatchMode):
    """Counts the bytes of tensor storages that operations take or make and that are still alive; for CPUs, where torch
    itself keeps no count. Operations of the backward pass are seen as well, what kernels allocate inside is not.
    """

    def __init__(self) -> None:
        super().__init__()
        self._alive: dict[int, Any] = {}
        self._bytes = 0
        self._peak_bytes = 0

    def take_peak(self) -> float:
        """The most that was alive at once since the last call."""
        peak, self._peak_bytes = self._peak_bytes, self._bytes
        return float(peak)

    def __torch_dispatch__(
        self, operation: Any, types: Any, arguments: tuple[Any, ...] = (), options: Mapping[str, Any] | None = None
    ) -> Any:
        result = operation(*arguments, **(options or {}))
        for leaf in tree_leaves((arguments, options, result)):
            if isinstance(leaf, Tensor):
                self._count(leaf)
        return result

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, num_bytes = storage._cdata, storage.nbytes()
        if key in self._alive:
            return

        def freed(_: Any) -> None:
            self._bytes -= num_bytes
            del self._alive[key]

        self._alive[key] = weakref.ref(storage, freed)
        self._bytes += num_bytes
        self._peak_bytes = max(self._peak_bytes, self._bytes)


def dense_batch(num_images: int, *, num_objects: int, num_classes: int, size_px: int, epoch: int) -> Batch:
    """A micro-batch of noise whose every image has ``num_objects`` objects, which the loss needs memory for."""
    generator = torch.Generator().manual_seed(0)
    total = num_images * num_objects
    corner = torch.rand(total, 2, generator=generator) * 0.7
    side = 0.02 + torch.rand(total, 2, generator=generator) * 0.28
    return Batch(
        images=torch.randint(0, 256, (num_images, 3, size_px, size_px), dtype=torch.uint8, generator=generator),
        boxes_xyxy_px=torch.cat((corner, corner + side), dim=1) * size_px,
        labels=torch.randint(0, num_classes, (total,), generator=generator),
        sample_of_box=torch.arange(num_images).repeat_interleave(num_objects),
        image_indices=torch.arange(num_images),
        epoch=epoch,
    )


def probe(stepper: Stepper, batches: Sequence[Batch]) -> Probe:
    """Measure updates of two micro-batches each, so that gradients are there while activations are.

    Args:
        stepper: its weights are trained on noise here, so it is of no use afterwards.
        batches: two, of different sizes.
    """
    _window(stepper, batches[-1])  # allocates the optimizer's state, and lets kernels prepare
    seconds_per_image = min(_seconds(stepper, batches[-1]) for _ in range(TIMED_WINDOWS)) / (2 * batches[-1].num_images)
    restart_peak_memory(stepper.device)
    if stepper.device.type == "cuda":
        peaks, update_bytes = _peaks(stepper, batches, lambda: _cuda_peak(stepper.device))
        return Probe(peaks=peaks, update_bytes=update_bytes, process_bytes=None, seconds_per_image=seconds_per_image)
    with LiveTensors() as live:
        _window(stepper, batches[-1])  # makes weights and optimizer state known
        live.take_peak()
        peaks, update_bytes = _peaks(stepper, batches, live.take_peak)
    process_bytes = peak_memory_mib(stepper.device) * 2**20
    return Probe(
        peaks=peaks,
        update_bytes=update_bytes,
        process_bytes=process_bytes,
        seconds_per_image=seconds_per_image,
        is_half_precision=stepper.precision.dtype is not None,
    )


def _peaks(
    stepper: Stepper, batches: Sequence[Batch], take_peak: Callable[[], float]
) -> tuple[dict[int, float], float]:
    """Peak bytes of micro-batches, and of the optimizer's step."""
    peaks, updates = {}, []
    for batch in batches:
        _micro_batches(stepper, batch)
        peaks[batch.num_images] = take_peak()
        stepper.apply(1.0, finite=True)
        updates.append(take_peak())
    return peaks, max(updates)


def _cuda_peak(device: torch.device) -> float:
    peak = torch.cuda.max_memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    return float(peak)


def _seconds(stepper: Stepper, batch: Batch) -> float:
    """Of one window; `apply` waits for the device, as it reads the norm of the gradients."""
    start_s = time.perf_counter()
    _window(stepper, batch)
    return time.perf_counter() - start_s


def _window(stepper: Stepper, batch: Batch) -> None:
    _micro_batches(stepper, batch)
    stepper.apply(1.0, finite=True)


def _micro_batches(stepper: Stepper, batch: Batch) -> None:
    stepper.open_window(2)
    for _ in range(2):
        stepper.backward(stepper.forward(batch.to(stepper.device)), 1.0)
