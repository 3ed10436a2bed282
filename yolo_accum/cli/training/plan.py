"""Windows and learning rate of a run from its configuration: what `plan` prints is what `train` does."""

from __future__ import annotations

from yolo_accum.config.schema import OptimConfig, TrainConfig
from yolo_accum.engine.plan import Plan
from yolo_accum.engine.ramp import Schedule


def plan_of(config: TrainConfig, num_images: int, *, start_epoch: int = 0, start_position: int = 0) -> Plan:
    """The plan of a run, from its first image on or from where it is resumed.

    Raises:
        UserError: no images, or a tail that drops every window.
    """
    return Plan(
        num_images=num_images,
        epochs=config.optim.epochs,
        batch=config.accumulation.micro_batch,
        nbs=config.accumulation.nbs,
        warmup_epochs=config.optim.warmup_epochs,
        ramp=config.accumulation.ramp,
        tail=config.accumulation.tail,
        start_epoch=start_epoch,
        start_position=start_position,
        window_batch=config.accumulation.window_batch,
    )


def schedule_of(optim: OptimConfig, plan: Plan, lr0: float) -> Schedule:
    """Learning rate and momentum of the run that is planned."""
    return Schedule(
        total_images=plan.num_images * plan.epochs,
        warmup_images=plan.warmup_images,
        lr0=lr0,
        lrf=optim.lrf,
        shape=optim.schedule,
        warmup_lr=optim.warmup_lr,
        momentum=optim.momentum,
        warmup_momentum=optim.warmup_momentum,
    )
