"""Memory and micro-batch: what `plan --memory` shows, and what ``--batch auto`` decides by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from yolo_accum.cli.training.build import build_training
from yolo_accum.cli.wiring import choose_device
from yolo_accum.config.byte_size import byte_size, size_text
from yolo_accum.config.schema import TrainConfig
from yolo_accum.contracts import DetectionIndex, StringTable
from yolo_accum.data.multi_scale import training_sizes_px
from yolo_accum.engine.distributed import Replicas
from yolo_accum.engine.fidelity import WRN_TIME, gradient_cosine, recommended_norm
from yolo_accum.engine.free_memory import free_memory_bytes
from yolo_accum.engine.memory import restart_peak_memory
from yolo_accum.engine.memory_model import HEADROOM, MemoryModel, candidate_batches, largest_batch
from yolo_accum.engine.memory_probe import PROBED_IMAGES, Probe, dense_batch, memory_model, probe
from yolo_accum.engine.plan import nominal_window_length
from yolo_accum.errors import UserError

ASSUMED_CLASSES = 80
ASSUMED_OBJECTS = 50
"""In an image, where there are no data to count them in."""


@dataclass(frozen=True, kw_only=True)
class MemoryReport:
    """What was measured, and how much memory there is."""

    device: torch.device
    memory_bytes: int
    """For one replica."""
    num_objects: int
    """Of the densest image."""
    models: Mapping[bool, MemoryModel]
    """Peaks by whether activations are recomputed."""
    seconds_per_image: Mapping[bool, float]
    size_px: int
    nbs: int
    num_replicas: int

    def batch(self, recompute: bool) -> int:
        """The largest micro-batch that divides the nominal batch and fits.

        Raises:
            UserError: not even the smallest fits.
        """
        model = self.models[recompute]
        found = largest_batch(model, self.memory_bytes, self.nbs, self.num_replicas)
        if found is None:
            raise UserError(
                f"--memory: a micro-batch of one image needs {size_text(model.peak_bytes(1))} on {self.device}, and of "
                f"{size_text(self.memory_bytes)} {HEADROOM:.0%} are left free; "
                f"a smaller --imgsz (now {self.size_px}) or --model needs less"
            )
        return found

    def sentence(self, batch: int, recompute: bool) -> str:
        """What ``--batch auto`` became, and why."""
        own = batch // self.num_replicas
        peak = size_text(self.models[recompute].peak_bytes(own))
        return (
            f"--batch auto: {batch} ({own} x {self.num_replicas} replicas), about {peak} of "
            f"{size_text(self.memory_bytes)} on {self.device}; the largest that --nbs {self.nbs} divides into and that "
            f"leaves {HEADROOM:.0%} free"
        )

    def rows(self) -> list[dict[str, Any]]:
        """Every micro-batch that could be taken, without and with recomputed activations."""
        rows = []
        for recompute, model in sorted(self.models.items()):
            time = self.seconds_per_image[recompute] / self.seconds_per_image[False]
            for batch in candidate_batches(self.nbs, self.num_replicas):
                images = batch // self.num_replicas
                norm = recommended_norm(images, self.nbs)
                rows.append(
                    {
                        "batch": batch,
                        "images_a_replica": images,
                        "window_length": nominal_window_length(batch, self.nbs),
                        "checkpoint_activations": recompute,
                        "peak_bytes": round(model.peak_bytes(images)),
                        "fits": model.fits(images, self.memory_bytes),
                        "norm": norm,
                        "gradient_cosine": gradient_cosine(norm, images, self.nbs),
                        "time": time * (WRN_TIME if norm == "wrn" else 1.0),
                    }
                )
        return rows

    def recommended(self) -> dict[str, Any] | None:
        """The row nearest to the large batch among those that fit, the fastest of equals; None when nothing fits."""
        fitting = [row for row in self.rows() if row["fits"]]
        return max(fitting, key=lambda row: (row["gradient_cosine"] or 0.0, row["batch"], -row["time"]), default=None)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "device": str(self.device),
            "memory_bytes": self.memory_bytes,
            "headroom": HEADROOM,
            "objects_an_image": self.num_objects,
            "measured": [
                {
                    "checkpoint_activations": recompute,
                    "images": images,
                    "peak_bytes": round(model.peak_bytes(images)),
                }
                for recompute, model in sorted(self.models.items())
                for images in PROBED_IMAGES
            ],
            "predicted": self.rows(),
            "recommended": self.recommended(),
        }


def measure_memory(
    config: TrainConfig, index: DetectionIndex, num_replicas: int, place: Replicas, modes: Sequence[bool]
) -> MemoryReport:
    """Measure micro-batches of 1 and 2 images of the densest kind, as the run would train them.

    Args:
        config: of the run.
        index: its training images.
        num_replicas: of the run, which may be planned only.
        place: this process's place among replicas that run.
        modes: whether activations are recomputed; what each needs is measured.
    Raises:
        UserError: the run cannot be built.
    """
    device = choose_device(config.run.device, place)
    largest_px = training_sizes_px(config.data.imgsz, config.augment.multi_scale)[-1]
    config = replace(config, data=replace(config.data, imgsz=largest_px))
    asked = config.accumulation.memory
    memory_bytes = free_memory_bytes(device) if asked in (None, "auto") else byte_size(str(asked), "--memory")
    if device.type == "cpu" and asked in (None, "auto"):
        memory_bytes //= max(place.local_size, num_replicas if place.size == 1 else 1)  # they share the machine
    num_objects = densest(index, mosaic=config.augment.mosaic > 0)
    # On a CPU the other kind is judged by what is kept.
    probes = {recompute: _probe(config, index, device, num_objects, recompute) for recompute in sorted({False, *modes})}
    return MemoryReport(
        device=device,
        memory_bytes=memory_bytes,
        num_objects=num_objects,
        models={recompute: memory_model(found, probes[False]) for recompute, found in probes.items()},
        seconds_per_image={recompute: found.seconds_per_image for recompute, found in probes.items()},
        size_px=config.data.imgsz,
        nbs=config.accumulation.nbs,
        num_replicas=num_replicas,
    )


def densest(index: DetectionIndex, *, mosaic: bool) -> int:
    """Objects of the fullest image, or mosaic of four, that the index can give."""
    if not index.num_boxes:
        return ASSUMED_OBJECTS
    counts = np.sort(np.diff(index.box_starts))[::-1]
    return int(counts[: 4 if mosaic else 1].sum())


def assumed_index(num_images: int, num_classes: int = ASSUMED_CLASSES) -> DetectionIndex:
    """Stands for images that are only counted."""
    none = np.zeros(0)
    return DetectionIndex(
        source=Path("--num-images"),
        image_paths=StringTable([""] * num_images),
        image_ids=tuple(range(num_images)),
        widths_px=np.ones(num_images, np.int32),
        heights_px=np.ones(num_images, np.int32),
        box_starts=np.zeros(num_images + 1, np.int64),
        boxes_xyxy_px=none.reshape(0, 4),
        labels=none.astype(np.int32),
        is_crowd=none.astype(bool),
        areas_px=none,
        class_names=tuple(str(number) for number in range(num_classes)),
        class_ids=tuple(range(num_classes)),
    )


def _probe(
    config: TrainConfig, index: DetectionIndex, device: torch.device, num_objects: int, recompute: bool
) -> Probe:
    """Build the run, measure, and forget it."""
    config = replace(
        config,
        accumulation=replace(config.accumulation, batch=max(PROBED_IMAGES), tail="step"),
        model=replace(config.model, checkpoint_activations=recompute),
        norm=replace(config.norm, calibrate_bn=0),
        run=replace(config.run, device=str(device)),
    )
    training = build_training(config, index)
    batches = [
        dense_batch(
            images,
            num_objects=num_objects,
            num_classes=index.num_classes,
            size_px=config.data.imgsz,
            epoch=config.optim.epochs - 1,
        )
        for images in PROBED_IMAGES
    ]
    found = probe(training.loop.stepper, batches)
    del training
    if device.type == "cuda":
        torch.cuda.empty_cache()
    restart_peak_memory(device)
    return found


def plan_report(config: TrainConfig, num_images: int, index: DetectionIndex | None, num_replicas: int) -> MemoryReport:
    """For `plan`: both with kept and with recomputed activations; from assumptions where there are no data."""
    index = index if index is not None else assumed_index(num_images)
    return measure_memory(config, index, num_replicas, Replicas(), modes=(False, True))
