"""From batches to detections to COCO numbers, every validation image exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from yolo_accum.contracts import Batch, DetectionIndex, Detections
from yolo_accum.metrics.coco import CocoMetrics, Evaluator, coco_metrics

Detect = Callable[[Batch], Sequence[Detections]]
"""Finds the objects in the images of a batch: one entry an image, in the batch's order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """The outcome of one pass over a validation set."""

    metrics: CocoMetrics
    detections: tuple[Detections, ...]
    """One an image, in the order of the index."""


def detect_all(
    batches: Iterable[Batch], detect: Detect, *, progress: Callable[[int], None] | None = None
) -> list[Detections]:
    """The detections in all batches, in their order: a replica's share of the work.

    Raises:
        ValueError: ``detect`` answers for other images than it was given.
    """
    detections: list[Detections] = []
    for batch in batches:
        found = detect(batch)
        asked = batch.image_indices.tolist()
        answered = [item.image_index for item in found]
        if answered != asked:
            raise ValueError(f"detections of image rows {answered} came for the batch of rows {asked}")
        detections += found
        if progress is not None:
            progress(len(detections))
    return detections


def measure(
    detections: Sequence[Detections],
    index: DetectionIndex,
    *,
    evaluator: Evaluator = "hotcoco",
    max_det: int = 100,
) -> Evaluation:
    """The COCO numbers of the detections of all replicas, which must cover every image exactly once.

    Raises:
        ValueError: an image is missing or comes twice; the first such image is named.
    """
    metrics = coco_metrics(index, detections, evaluator=evaluator, max_det=max_det)
    if len(detections) < len(index):
        present = {item.image_index for item in detections}
        missing = [image_id for row, image_id in enumerate(index.image_ids) if row not in present]
        raise ValueError(f"validation images not evaluated: {len(missing)}, the first is {missing[0]!r}")
    return Evaluation(metrics=metrics, detections=tuple(sorted(detections, key=lambda item: item.image_index)))
