"""The training pictures of a run: what `train` learns from, and what `preview` shows of it."""

from __future__ import annotations

from collections.abc import Iterator

from yolo_accum.config.schema import TrainConfig
from yolo_accum.contracts import DetectionIndex, SampleKey
from yolo_accum.data.dataset import PhotometricFn, TrainDataset
from yolo_accum.engine.plan import Plan


def training_dataset(
    config: TrainConfig, index: DetectionIndex, photometric: PhotometricFn | None = None
) -> TrainDataset:
    """The training samples of a run, by key.

    Args:
        config: of the run.
        index: the training split.
        photometric: extra changes of colour.
    """
    return TrainDataset(
        index,
        config.augment,
        seed=config.run.seed,
        num_epochs=config.optim.epochs,
        photometric=photometric,
    )


def micro_batch_keys(plan: Plan, size_px: int, replica: int, num_replicas: int) -> Iterator[list[SampleKey]]:
    """What one replica has to load: its share of every micro-batch that is not dropped, if it has one."""
    for window in plan.windows():
        if not window.dropped:
            for micro_batch in window.micro_batches:
                share = micro_batch.share(replica, num_replicas)
                if share:
                    yield [SampleKey(micro_batch.epoch, position, size_px) for position in share]
