"""What the layers exchange. Imports numpy only, and torch for type checks, so that what reads data need not load it;
every other module of the package may import this one.

Boxes are ``boxes_xyxy_px``: left, top, right, bottom in pixels; a point (x, y) lies on pixel edges, so an image of
width W spans x in [0, W].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PAD_VALUE = 114
"""Grey level of the pixels that letterboxing, mosaic and affine transforms leave uncovered (YOLOX convention)."""


class StringTable:
    """An immutable sequence of strings in two numpy arrays, so that forked workers share it without copies.

    Args:
        values: the strings.
    """

    def __init__(self, values: Sequence[str]) -> None:
        encoded = [value.encode("utf-8", "surrogateescape") for value in values]
        self._ends = np.cumsum([len(item) for item in encoded], dtype=np.int64)
        self._bytes = np.frombuffer(b"".join(encoded), dtype=np.uint8)

    @classmethod
    def of_arrays(cls, ends: np.ndarray, content: np.ndarray) -> StringTable:
        """The table that has these ``arrays``."""
        table = cls.__new__(cls)
        table._ends, table._bytes = ends, content
        return table

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """[n] int64, where each string ends, and uint8, all of them as UTF-8."""
        return self._ends, self._bytes

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> str:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} outside 0..{len(self) - 1}")
        start = int(self._ends[index - 1]) if index else 0
        return self._bytes[start : int(self._ends[index])].tobytes().decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        return (self[index] for index in range(len(self)))


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectionIndex:
    """One split of a data set, in columns: n images, b boxes, c classes. No Python object per box.

    The boxes of image i are rows ``box_starts[i]:box_starts[i + 1]`` of the box columns. Class labels are 0..c-1 by
    ascending user category id; ``class_ids`` maps them back in every output.
    """

    source: Path
    """The file that described the split (COCO JSON, data YAML ...), for messages."""
    image_paths: StringTable
    """n paths, absolute."""
    image_ids: tuple[int | str, ...]
    """n ids as the user wrote them (YOLO layouts: the file name without suffix, made unique by its folder)."""
    widths_px: np.ndarray
    """[n] int32, of the picture as it is loaded (after the EXIF turn)."""
    heights_px: np.ndarray
    """[n] int32."""
    box_starts: np.ndarray
    """[n + 1] int64."""
    boxes_xyxy_px: np.ndarray
    """[b, 4] float64, pixels of the original picture, within it, of positive size."""
    labels: np.ndarray
    """[b] int32, 0..c-1."""
    is_crowd: np.ndarray
    """[b] bool: a region of many objects. Ignored in training, an ignore region in evaluation."""
    areas_px: np.ndarray
    """[b] float64: COCO's area (of the mask where the file gives one), decides small / medium / large."""
    class_names: tuple[str, ...]
    class_ids: tuple[int | str, ...]

    def __len__(self) -> int:
        return len(self.image_ids)

    @property
    def num_boxes(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    def rows(self, image: int) -> slice:
        """The rows of the box columns that belong to image number ``image``."""
        return slice(int(self.box_starts[image]), int(self.box_starts[image + 1]))


@dataclass(frozen=True)
class SampleKey:
    """Names one training sample: with the seed and the settings it determines every pixel of it.

    ``position`` is the place in the epoch's order, so the same key gives the same sample for every batch size,
    number of workers and number of replicas.
    """

    epoch: int
    position: int
    size_px: int
    """Side of the square network input."""


@dataclass(frozen=True)
class Letterbox:
    """How an original picture lies in the network input: ``input_px = original_px * scale + pad``."""

    scale: float
    pad_left_px: int
    pad_top_px: int
    width_px: int
    """Of the original."""
    height_px: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """One picture as the network will see it."""

    image: np.ndarray
    """[3, H, W] uint8, RGB, contiguous."""
    boxes_xyxy_px: np.ndarray
    """[N, 4] float32, pixels of the network input. Training boxes only: crowd regions are left out."""
    labels: np.ndarray
    """[N] int64."""
    image_index: int
    """Row of the index; for a mosaic, of the picture that the position stands for."""
    epoch: int = 0
    letterbox: Letterbox | None = None
    """Set for evaluation samples."""
    problems: tuple[str, ...] = ()
    """Pictures that could not be used, one sentence each; their place is grey and without boxes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """The images of one forward pass on one replica: m images, t boxes in all."""

    images: Tensor
    """[m, 3, H, W] uint8, RGB."""
    boxes_xyxy_px: Tensor
    """[t, 4] float32."""
    labels: Tensor
    """[t] int64."""
    sample_of_box: Tensor
    """[t] int64 in 0..m-1, ascending."""
    image_indices: Tensor
    """[m] int64, rows of the index (on the CPU)."""
    epoch: int = 0
    letterboxes: tuple[Letterbox, ...] = ()
    """m of them for evaluation batches, none for training."""
    problems: tuple[str, ...] = ()
    """Those of the samples, in order; the same picture may come up again in a later batch."""

    @property
    def num_images(self) -> int:
        return self.images.shape[0]

    def to(self, device: torch.device) -> Batch:
        """The same batch with images and boxes on ``device`` (asynchronous from pinned memory)."""
        return Batch(
            images=self.images.to(device, non_blocking=True),
            boxes_xyxy_px=self.boxes_xyxy_px.to(device, non_blocking=True),
            labels=self.labels.to(device, non_blocking=True),
            sample_of_box=self.sample_of_box.to(device, non_blocking=True),
            image_indices=self.image_indices,
            epoch=self.epoch,
            letterboxes=self.letterboxes,
            problems=self.problems,
        )

    def pin_memory(self) -> Batch:
        """The same batch in page-locked memory (called by torch's DataLoader)."""
        return Batch(
            images=self.images.pin_memory(),
            boxes_xyxy_px=self.boxes_xyxy_px.pin_memory(),
            labels=self.labels.pin_memory(),
            sample_of_box=self.sample_of_box.pin_memory(),
            image_indices=self.image_indices,
            epoch=self.epoch,
            letterboxes=self.letterboxes,
            problems=self.problems,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class DenseOutput:
    """What an anchor-free detector says at A places of m images, before any threshold."""

    box_raw: Tensor
    """[m, A, 4], the family's own encoding."""
    boxes_xyxy_px: Tensor
    """[m, A, 4] float32 at least, decoded, pixels of the network input, differentiable."""
    objectness_logits: Tensor | None
    """[m, A], or None in families without objectness."""
    class_logits: Tensor
    """[m, A, c]."""
    grid_xy: Tensor
    """[A, 2] column and row of the cell within its level."""
    stride_px: Tensor
    """[A]."""

    def scores(self) -> Tensor:
        """[m, A, c] float32 in 0..1: class probability, times objectness where there is one."""
        scores = self.class_logits.float().sigmoid()
        if self.objectness_logits is not None:
            scores = scores * self.objectness_logits.float().sigmoid().unsqueeze(-1)
        return scores


@dataclass(frozen=True, eq=False)
class LossSums:
    """Sums over the micro-batch and what they are to be divided by, never a mean.

    The gradient of an update is that of ``sum of terms / max(sum of denominators, 1)`` over all micro-batches and
    replicas of the window, so neither may be normalised here.
    """

    terms: Mapping[str, Tensor]
    """Scalar tensors with graph, gains applied. Every term depends on the network's output even when it is 0."""
    denominator: Tensor
    """Scalar, float32 or wider, detached, not clamped: what was supervised (for YOLOX, the number of positives)."""

    def total(self) -> Tensor:
        """Scalar, float32 or wider: the sum of the terms."""
        return reduce(add, (term.float() if term.element_size() < 4 else term for term in self.terms.values()))


class Criterion(Protocol):
    """A detection loss."""

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of all terms that it may ever return, in order."""
        ...

    def __call__(self, output: DenseOutput, batch: Batch) -> LossSums: ...


@runtime_checkable
class WindowAware(Protocol):
    """A module that is told where windows begin and end: a norm whose statistics depend on the whole window."""

    def open_window(self, num_micro_batches: int) -> None:
        """A window of so many micro-batches begins; whatever an earlier one left behind is void."""
        ...

    def close_window(self, applied: bool) -> None:
        """The window's update was applied, or refused; then every trace of the window has to go."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Detections:
    """What was found in one picture: k boxes, best first."""

    boxes_xyxy_px: np.ndarray
    """[k, 4] float32, pixels of the *original* picture."""
    scores: np.ndarray
    """[k] float32 in 0..1."""
    labels: np.ndarray
    """[k] int64, 0..c-1."""
    image_index: int


METRIC_NAMES = (
    "AP",
    "AP50",
    "AP75",
    "AP_small",
    "AP_medium",
    "AP_large",
    "AR_1",
    "AR_10",
    "AR_max",
    "AR_small",
    "AR_medium",
    "AR_large",
)
"""The twelve COCO numbers, in the order in which they are reported everywhere."""


@dataclass(frozen=True, kw_only=True)
class UpdateRecord:
    """One attempted update. Sums run over all replicas."""

    update: int
    """Number of the attempt, from 1."""
    epoch: int
    """0-based epoch of the window's last micro-batch."""
    first_micro_batch: int
    """0-based in the run."""
    last_micro_batch: int
    images: int
    objects: int
    denominator: float
    provisional: float
    factor: float
    losses: Mapping[str, float]
    """Window totals over the window's clamped denominator: the loss that was optimised."""
    grad_norm: float
    """Global L2 norm before clipping."""
    clip_coefficient: float
    """1.0 when nothing was clipped."""
    scaler_scale: float
    """1.0 without a scaler."""
    applied: bool
    lr: Mapping[str, float]
    """By parameter group."""
    weight_decay: Mapping[str, float]
    momentum: float
    ema_decay: float
    images_seen: int
    """Counter after this attempt."""
    images_applied: int
    images_dropped: int
    updates_applied: int
    updates_skipped: int
    images_per_s: float
    peak_memory_mib: float


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """One finished epoch."""

    epoch: int
    """0-based."""
    images: int
    """Images that went through the network in this epoch."""
    distinct_images: int
    """Different rows of the training index among them."""
    images_off_plan: int = 0
    """Rows that were taken more or less often than the plan of the epoch says; only dropped windows leave any."""
    images_dropped: int
    updates_applied: int
    updates_skipped: int
    losses: Mapping[str, float]
    """Sum of the epoch's window totals over the sum of its denominators."""
    lr: Mapping[str, float]
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Validation metrics (AP, AP50 ...); empty in an epoch without validation."""
    is_best: bool = False
    train_s: float
    val_s: float
    images_per_s: float
    peak_memory_mib: float


@dataclass(frozen=True, kw_only=True)
class RunStarted:
    """A run is about to open its first window, or the first one after the checkpoint that it goes on from."""

    folder: Path
    """The run folder; it exists."""
    num_epochs: int
    num_micro_batches: int
    """Of the whole run."""
    start_micro_batch: int
    """The one that comes first now: 0, or more when a run goes on."""
    images_seen: int = 0
    """Counters of a run that goes on."""
    updates_applied: int = 0
    config: Mapping[str, object] = field(default_factory=dict)
    """All options, flat, as in ``config.yaml``."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The start-up table: label -> value."""


@dataclass(frozen=True, kw_only=True)
class WindowOpened:
    """The micro-batches of the next update are about to be loaded; sizes are those of all replicas."""

    update: int
    """Number of the attempt that the window leads to, from 1."""
    epoch: int
    """0-based epoch of the window's first micro-batch."""
    first_micro_batch: int
    """0-based in the run."""
    last_micro_batch: int
    num_images: int
    lr: Mapping[str, float]
    """In force for this update, by parameter group."""
    momentum: float


@dataclass(frozen=True, kw_only=True)
class CheckpointSaved:
    """The state of the run was written."""

    path: Path
    """Of ``last.pt``."""
    micro_batches_done: int
    """In the run."""
    best_path: Path | None
    """Of ``best.pt`` when this checkpoint is the best so far and was written there as well."""


@dataclass(frozen=True, kw_only=True)
class RunEnded:
    """Nothing more will happen in this run, or not before somebody resumes it."""

    outcome: Literal["finished", "interrupted", "failed"]
    message: str = ""
    """One sentence on what interrupted it or went wrong."""
    exit_code: int = 0
    epochs_done: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    """Images seen, applied, dropped; updates attempted, applied, skipped."""
    best_epoch: int = -1
    """0-based; -1 when no epoch ended."""
    best_metrics: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    """What the run folder holds, by name: weights, tables, pictures."""
    card: Mapping[str, Any] = field(default_factory=dict)
    """The run card as in ``run_card.json``; empty when the run is not finished."""


class Observer:
    """Somebody who follows a run: records, console, loggers, callbacks of your own. Every event does nothing here.

    Calls arrive in the training process of the first replica, in the order in which things happen. An observer
    watches; nothing that it is told can be changed.
    """

    def on_run_start(self, event: RunStarted) -> None:
        """Once, before the first window."""

    def on_window_open(self, event: WindowOpened) -> None:
        """Before the first micro-batch of an update; windows that the plan drops are not opened."""

    def on_micro_batch(self, micro_batch: int, epoch: int, window_length: int) -> None:
        """After forward and backward pass of a micro-batch (0-based in the run); its window has so many."""

    def on_update(self, record: UpdateRecord) -> None:
        """After every attempted update, before one of the next two."""

    def on_update_applied(self, record: UpdateRecord) -> None:
        """The weights have moved."""

    def on_update_refused(self, record: UpdateRecord) -> None:
        """Loss or gradients were not finite: the weights are what they were."""

    def on_epoch(self, record: EpochRecord) -> None:
        """An epoch has ended and, when that was due, was evaluated."""

    def on_checkpoint(self, event: CheckpointSaved) -> None:
        """A checkpoint was written."""

    def on_training_end(self) -> None:
        """The last update is made; evaluation of the best weights and pictures follow."""

    def on_run_end(self, event: RunEnded) -> None:
        """Once, whether the run is finished, was interrupted or has failed."""
