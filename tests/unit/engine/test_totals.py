"""Sums of a window and the factor that its gradients are multiplied by."""

from __future__ import annotations

import math

import pytest
import torch

from yolo_accum.contracts import LossSums
from yolo_accum.engine.totals import (
    TotalsAccumulator,
    WindowTotals,
    gradient_factor,
    next_provisional,
    update_estimate,
)


def totals(**changes: object) -> WindowTotals:
    values = {"terms": {"box": 6.0}, "denominator": 3.0, "images": 4, "objects": 5, "finite": True}
    return WindowTotals(**{**values, **changes})  # type: ignore[arg-type]


def test_factor_of_a_full_window_undoes_the_provisional_divisor() -> None:
    assert gradient_factor(provisional=128.0, images=64, nbs=64, denominator=300.0) == pytest.approx(128 / 300)


def test_factor_of_a_short_window_lets_every_image_weigh_the_same() -> None:
    assert gradient_factor(provisional=1.0, images=16, nbs=64, denominator=10.0) == pytest.approx(0.25 / 10)


def test_clamp_is_applied_to_the_total_once() -> None:
    assert gradient_factor(provisional=8.0, images=64, nbs=64, denominator=0.0) == 8.0
    assert totals(denominator=0.0).losses() == {"box": 6.0}


def test_averaging_replicas_are_undone() -> None:
    assert gradient_factor(provisional=1.0, images=64, nbs=64, denominator=2.0, averaged_over=4) == 2.0


def test_provisional_is_a_power_of_two_near_the_expected_denominator() -> None:
    for per_image, images in ((0.0, 8), (3.7, 64), (900.0, 64)):
        value = next_provisional(per_image, images)
        assert math.log2(value) == int(math.log2(value))
        assert 0.7 <= value / max(1.0, per_image * images) <= 1.42


def test_estimate_follows_the_windows_and_ignores_empty_ones() -> None:
    assert update_estimate(4.0, totals(denominator=8.0, images=4)) == pytest.approx(0.7 * 4 + 0.3 * 2)
    assert update_estimate(4.0, totals(images=0)) == 4.0


def test_sums_are_kept_in_float64() -> None:
    accumulator = TotalsAccumulator(["box"], torch.device("cpu"))
    big = LossSums({"box": torch.tensor(1e8)}, torch.tensor(1.0))
    small = LossSums({"box": torch.tensor(0.25)}, torch.tensor(1.0))
    accumulator.add(big, images=1, objects=0)
    for _ in range(4):
        accumulator.add(small, images=1, objects=2)
    result = accumulator.totals()
    assert result.terms["box"] == 1e8 + 1.0
    assert (result.images, result.objects, result.denominator, result.finite) == (5, 8, 5.0, True)


def test_a_term_that_a_micro_batch_lacks_counts_as_zero_and_nan_is_noticed() -> None:
    accumulator = TotalsAccumulator(["box", "l1"], torch.device("cpu"))
    accumulator.add(LossSums({"box": torch.tensor(2.0)}, torch.tensor(1.0)), images=1, objects=1)
    assert accumulator.totals().terms == {"box": 2.0, "l1": 0.0}
    accumulator.add(LossSums({"box": torch.tensor(float("nan"))}, torch.tensor(1.0)), images=1, objects=1)
    assert not accumulator.totals().finite
