"""The schedule hits its targets exactly and does not know how images were cut."""

from __future__ import annotations

import pytest

from yolo_accum.engine.plan import Plan
from yolo_accum.engine.ramp import Schedule


def schedule(**changes: object) -> Schedule:
    values = {
        "total_images": 1000,
        "warmup_images": 300,
        "lr0": 0.01,
        "lrf": 0.1,
        "shape": "cosine",
        "warmup_lr": 0.1,
        "momentum": 0.9,
        "warmup_momentum": 0.8,
    }
    return Schedule(**{**values, **changes})  # type: ignore[arg-type]


def test_targets() -> None:
    course = schedule()
    assert course.at(0).lr == pytest.approx(0.001, rel=1e-12)
    assert course.at(0).momentum == 0.8
    assert course.at(150).momentum == pytest.approx(0.85, rel=1e-12)
    assert course.at(300).momentum == 0.9
    assert course.at(1000).lr == pytest.approx(0.001, rel=1e-12)
    assert course.at(5000).lr == course.at(1000).lr


def test_middle_of_the_course() -> None:
    # cosine and line are both halfway between 1 and lrf at half the images: 0.01 * (0.1 + 0.9 / 2)
    assert schedule().at(500).lr == pytest.approx(0.0055, rel=1e-12)
    assert schedule(shape="linear").at(500).lr == pytest.approx(0.0055, rel=1e-12)


def test_without_warmup_the_first_update_has_the_base_rate() -> None:
    assert schedule(warmup_images=0).at(0).lr == 0.01


def test_rates_are_those_of_the_large_batch() -> None:
    def rates(batch: int) -> list[float]:
        plan = Plan(num_images=40, epochs=4, batch=batch, nbs=8, warmup_epochs=1, ramp=False)
        course = schedule(total_images=160, warmup_images=plan.warmup_images)
        seen, result = 0, []
        for window in plan.windows():
            result.append(course.at(seen).lr)
            seen += window.num_images
        return result

    assert rates(8) == rates(2) == rates(1)
