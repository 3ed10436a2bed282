"""What a plan should be told to a person about: sentences that training and `plan` share. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from yolo_accum.engine.plan import Plan, Span, exact_batches


def first_spans(plan: Plan) -> Iterator[Span]:
    """The windows of warm-up and some more: later ones repeat these."""
    first = max(plan.warmup_micro_batches, plan.start_micro_batch)
    until = first + 2 * max(plan.micro_batches_per_epoch, plan.window_length_nominal)
    return takewhile(lambda span: span.first <= until, plan.spans())


def plan_notices(plan: Plan) -> list[str]:
    """Sentences about what does not go together, and what would."""
    notices = []
    option = "--batch" if plan.base is plan else "--window-batch"
    plan = plan.base  # the windows are the same
    images = plan.full_window_images
    if images != plan.nbs:
        nearest = " or ".join(str(value) for value in exact_batches(plan.batch, plan.nbs))
        cause = "is larger than" if plan.batch > plan.nbs else "does not divide"
        notices.append(
            f"a full window holds {images} images, not --nbs {plan.nbs}, because {option} {plan.batch} {cause} it; "
            f"{option} {nearest} hits it exactly. Gradients are weighted by images / nbs, so the learning rate keeps "
            "its meaning"
        )
    largest = max((span.num_images for span in first_spans(plan)), default=images)  # none are left of a run at its end
    if largest < min(images, plan.nbs):
        notices.append(
            f"no window reaches --nbs {plan.nbs} images: the largest of {plan.num_updates} updates has {largest}, "
            f"because the set has {plan.num_images} images an epoch"
        )
    return notices


def tail_text(plan: Plan) -> str:
    """What happens to an open window at an epoch's end."""
    return {
        "step": "step: an open window updates with what it holds",
        "carry": "carry: an open window runs on into the next epoch",
        "drop": f"drop: an open window is discarded, {plan.num_images_dropped} images in all",
    }[plan.tail]
