"""Paired differences, their intervals by hand, and the sentences that follow."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yolo_accum.metrics.paired import PairedDifference, paired_difference, spread, verdict


def test_the_interval_of_three_pairs_by_hand() -> None:
    # differences 0.01, 0.02, 0.03: mean 0.02, sd 0.01, t(0.975, 2 degrees of freedom) = 4.30265
    found = paired_difference([0.31, 0.42, 0.53], [0.30, 0.40, 0.50])

    assert found is not None and found.num == 3
    assert found.mean == pytest.approx(0.02) and found.sd == pytest.approx(0.01)
    half = 4.302652729911275 * 0.01 / math.sqrt(3)
    assert found.low == pytest.approx(0.02 - half) and found.high == pytest.approx(0.02 + half)
    assert found.values == pytest.approx((0.01, 0.02, 0.03))


def test_pairs_cancel_what_the_seeds_have_in_common() -> None:
    found = paired_difference([0.9, 0.1, 0.5], [0.9, 0.1, 0.5])

    assert found is not None and (found.mean, found.low, found.high) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("num", "t"), [(2, 12.706204736), (5, 2.776445105), (11, 2.228138852)])
def test_quantiles_of_students_t_from_a_printed_table(num: int, t: float) -> None:
    values = [0.0] * (num - 1) + [1.0]
    found = paired_difference(values, [0.0] * num)

    assert found is not None and found.high is not None and found.sd is not None
    assert (found.high - found.mean) * math.sqrt(num) / found.sd == pytest.approx(t, rel=1e-8)


def test_one_pair_has_no_interval_and_none_no_difference() -> None:
    one = paired_difference([0.5], [0.4])

    assert one is not None and one.mean == pytest.approx(0.1)
    assert (one.low, one.high, one.sd) == (None, None, None)
    assert paired_difference([], []) is None and spread([]) is None


def test_spread_by_hand() -> None:
    found = spread([1.0, 2.0, 3.0, 4.0])

    assert found is not None and (found.mean, found.num) == (2.5, 4)
    assert found.sd == pytest.approx(math.sqrt(5 / 3))


def difference(low: float | None, high: float | None) -> PairedDifference:
    mean = 0.002 if low is None or high is None else (low + high) / 2
    return PairedDifference(mean=mean, low=low, high=high, sd=None, num=1 if low is None else 3, values=())


@pytest.mark.parametrize(
    ("low", "high", "kind", "words"),
    [
        (-0.004, 0.009, "equal", "is equal to large within 0.01 AP"),
        (0.001, 0.009, "equal", "is equal to large within 0.01 AP"),  # real, and too small to matter
        (-0.01, 0.01, "equal", "within 0.01"),
        (0.002, 0.03, "better", "is better than large by 0.0160 AP"),
        (-0.03, -0.002, "worse", "is worse than large by 0.0160 AP"),
        (-0.03, 0.002, "not enough runs", "Not enough runs to say"),
        (0.0, 0.03, "not enough runs", "Not enough runs to say"),
        (None, None, "not enough runs", "one seed differs by +0.0020"),
    ],
)
def test_the_verdict_follows_from_interval_and_margin(
    low: float | None, high: float | None, kind: str, words: str
) -> None:
    found = verdict(difference(low, high), margin=0.01, highest=0.5, arm="accumulation", reference="large")

    assert found.kind == kind
    assert words in found.sentence and "accumulation" in found.sentence
    assert low is None or f"95% interval {low:+.4f} to {high:+.4f}, 3 seeds" in found.sentence


def test_arms_that_have_learned_nothing_are_not_equal() -> None:
    found = verdict(difference(0.0, 0.0), margin=0.01, highest=0.004, arm="a", reference="b")

    assert found.kind == "nothing learned"
    assert "no run of either has learned anything (AP 0.0040 at most" in found.sentence


def test_without_a_common_seed_there_is_nothing_to_compare() -> None:
    found = verdict(None, margin=0.01, highest=0.5, arm="a", reference="b")

    assert found.kind == "no runs" and "cannot be compared" in found.sentence


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 0.5))
def test_better_and_worse_are_mirror_images(mean: float, half: float, margin: float) -> None:
    one = verdict(difference(mean - half, mean + half), margin=margin, highest=1.0, arm="a", reference="b").kind
    other = verdict(difference(-mean - half, half - mean), margin=margin, highest=1.0, arm="b", reference="a").kind

    assert other == {"better": "worse", "worse": "better"}.get(one, one)
