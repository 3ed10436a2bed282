"""The training pictures of a run: what `train` learns from, and what `preview` shows of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from yolo_accum.config.schema import AugmentConfig, TrainConfig
from yolo_accum.contracts import DetectionIndex, SampleKey
from yolo_accum.data.augment import Photometric
from yolo_accum.data.dataset import TrainDataset
from yolo_accum.data.multi_scale import training_sizes_px, window_size_px
from yolo_accum.data.pipeline import UserAugmentations
from yolo_accum.data.sampling import image_order
from yolo_accum.engine.plan import Plan
from yolo_accum.errors import UserError

NUM_TRIED = 8
"""Pictures on which the user's own augmentations are tried before a run."""


def training_dataset(config: TrainConfig, index: DetectionIndex) -> TrainDataset:
    """The training samples of a run, by key.

    Args:
        config: of the run.
        index: the training split.
    Raises:
        UserError: ``--augmentations`` cannot be used.
    """
    return augmented(
        index,
        config.augment,
        seed=config.run.seed,
        num_epochs=config.optim.epochs,
        balance=config.data.balance,
    )


def augmented(
    index: DetectionIndex, augment: AugmentConfig, *, seed: int, num_epochs: int, balance: float = 0.0
) -> TrainDataset:
    """Training samples with all that the options of augmentation say.

    Args:
        index: the training split.
        augment: strength of every augmentation.
        seed: of the order and of every draw.
        num_epochs: of the run, to know when mosaic closes.
        balance: threshold of repeat factors; 0 shows each image once an epoch.
    Raises:
        UserError: ``--augmentations`` cannot be used.
    """
    augmentations = None
    if augment.augmentations is not None:
        augmentations = UserAugmentations(
            augment.augmentations,
            num_classes=index.num_classes,
            min_visible=augment.min_visible,
            min_box_px=augment.min_box_px,
        )
    return TrainDataset(
        index,
        augment,
        seed=seed,
        num_epochs=num_epochs,
        photometric=Photometric(augment.photometric) if augment.photometric else None,
        augmentations=augmentations,
        order=image_order(index, seed=seed, balance=balance),
    )


def try_augmentations(dataset: TrainDataset, config: TrainConfig) -> None:
    """Make a few pictures of the first epoch, each twice, so that a fault shows before anything is trained.

    Args:
        dataset: of the run.
        config: of the run; nothing is tried when it has no augmentations of the user's own.
    Raises:
        UserError: a transform breaks a picture or its boxes, or draws from something else than the generator it gets.
    """
    if config.augment.augmentations is None:
        return
    sizes_px = training_sizes_px(config.data.imgsz, config.augment.multi_scale)
    for number, position in enumerate(np.linspace(0, len(dataset) - 1, min(NUM_TRIED, len(dataset))).astype(int)):
        key = SampleKey(0, int(position), sizes_px[number % len(sizes_px)])
        first, again = dataset[key], dataset[key]
        same = np.array_equal(first.image, again.image) and np.array_equal(first.boxes_xyxy_px, again.boxes_xyxy_px)
        if not same or not np.array_equal(first.labels, again.labels):
            raise UserError(
                f"--augmentations, picture {dataset.picture_path(key)}: it comes out differently when it is made "
                "again; every draw has to come from the generator that is passed in, or runs could not be repeated"
            )


def micro_batch_keys(plan: Plan, config: TrainConfig, replica: int, num_replicas: int) -> Iterator[list[SampleKey]]:
    """What one replica has to load: its share of every micro-batch that is not dropped, if it has one."""
    for window in plan.windows():
        if not window.dropped:
            size_px = window_size_px(
                config.data.imgsz,
                config.augment.multi_scale,
                seed=config.run.seed,
                epoch=window.first.epoch,
                position=window.first.start,
            )
            for micro_batch in window.micro_batches:
                share = micro_batch.share(replica, num_replicas)
                if share:
                    yield [SampleKey(micro_batch.epoch, position, size_px) for position in share]
