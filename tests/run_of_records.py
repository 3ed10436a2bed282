"""Records of a run that could have been: 8 images a micro-batch, windows of 8, 4 updates an epoch."""

from __future__ import annotations

import math

from yolo_accum.contracts import METRIC_NAMES, EpochRecord, UpdateRecord

UPDATES_PER_EPOCH = 4


def update_record(number: int) -> UpdateRecord:
    """Attempt ``number``, from 1."""
    fall = math.exp(-number / 40)
    lr = 0.01 * min(1.0, number / 12)
    return UpdateRecord(
        update=number,
        epoch=(number - 1) // UPDATES_PER_EPOCH,
        first_micro_batch=8 * (number - 1),
        last_micro_batch=8 * number - 1,
        images=64,
        objects=200 + number,
        denominator=411.0 + number / 3,
        provisional=400.0,
        factor=0.97,
        losses={"box": 1 + 3 * fall, "obj": 0.5 + 5 * fall, "cls": 0.4 + 2 * fall},
        grad_norm=5 + 20 * fall,
        clip_coefficient=min(1.0, 10 / (5 + 20 * fall)),
        scaler_scale=1.0,
        applied=True,
        lr={"decay": lr, "no_decay": lr},
        weight_decay={"decay": 0.0005, "no_decay": 0.0},
        momentum=0.9,
        ema_decay=0.1,
        images_seen=64 * number,
        images_applied=64 * number,
        images_dropped=0,
        updates_applied=number,
        updates_skipped=0,
        images_per_s=24.0,
        peak_memory_mib=812.5,
    )


def epoch_record(number: int) -> EpochRecord:
    """Epoch ``number``, from 0."""
    ap = 0.5 * (1 - math.exp(-(number + 1) / 8))
    return EpochRecord(
        epoch=number,
        images=64 * UPDATES_PER_EPOCH,
        distinct_images=64 * UPDATES_PER_EPOCH,
        images_dropped=0,
        updates_applied=UPDATES_PER_EPOCH,
        updates_skipped=0,
        losses={"box": 2.0, "obj": 1.0, "cls": 1.0},
        lr={"decay": 0.01, "no_decay": 0.01},
        metrics=dict.fromkeys(METRIC_NAMES, ap) | {"AP50": 1.5 * ap},
        train_s=10.5,
        val_s=1.25,
        images_per_s=24.0,
        peak_memory_mib=812.5,
    )
