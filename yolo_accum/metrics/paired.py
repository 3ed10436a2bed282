"""Paired differences of two ways to train over the seeds that both were trained with, and what follows from them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.special import stdtrit

CONFIDENCE = 0.95
"""That the interval of a difference covers the true one."""

VerdictKind = Literal["equal", "better", "worse", "not enough runs", "no runs", "nothing learned"]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Values of one arm over its seeds."""

    mean: float
    sd: float | None
    """Standard deviation of the sample; None for one value."""
    num: int


@dataclass(frozen=True, kw_only=True)
class PairedDifference:
    """Of one number: arm minus reference, seed by seed."""

    mean: float
    low: float | None
    """The interval that covers the true mean with `CONFIDENCE`; None for one pair."""
    high: float | None
    sd: float | None
    num: int
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a difference means."""

    kind: VerdictKind
    metric: str
    sentence: str


def spread(values: Sequence[float]) -> Spread | None:
    """Mean and standard deviation; None without a value."""
    if not values:
        return None
    return Spread(mean=statistics.fmean(values), sd=_sd(values), num=len(values))


def paired_difference(
    arm: Sequence[float], reference: Sequence[float], confidence: float = CONFIDENCE
) -> PairedDifference | None:
    """The difference of the means with its confidence interval by Student's t over the pairs.

    Args:
        arm: one value a seed.
        reference: of the same seeds, in the same order.
        confidence: 0..1.
    Returns:
        None without a pair.
    Source: Student 1908, "The probable error of a mean", for the differences of pairs.
    """
    values = [mine - other for mine, other in zip(arm, reference, strict=True)]
    if not values:
        return None
    mean, sd, num = statistics.fmean(values), _sd(values), len(values)
    half = None if sd is None else float(stdtrit(num - 1, (1 + confidence) / 2)) * sd / math.sqrt(num)
    return PairedDifference(
        mean=mean,
        low=None if half is None else mean - half,
        high=None if half is None else mean + half,
        sd=sd,
        num=num,
        values=tuple(values),
    )


def verdict(
    difference: PairedDifference | None, *, margin: float, highest: float, arm: str, reference: str, metric: str = "AP"
) -> Verdict:
    """One sentence that follows from the interval.

    An interval within ``-margin..margin`` says equal, also where it leaves out zero: such a difference is real and too
    small to matter. One that leaves out zero says better or worse; any other one that more runs are needed.

    Args:
        difference: arm minus reference; more is better.
        margin: largest difference that is none.
        highest: value that any run of either has reached. Where it is within the margin of nothing, so is every
            difference, whatever the arms do.
    """
    if difference is None:
        return Verdict(
            kind="no runs",
            metric=metric,
            sentence=f"{arm} and {reference} cannot be compared: there is no seed that both were trained with to the "
            "end.",
        )
    if highest <= margin:
        return Verdict(
            kind="nothing learned",
            metric=metric,
            sentence=f"{arm} and {reference} cannot be compared yet: no run of either has learned anything "
            f"({metric} {highest:.4f} at most, and the margin is {_text(margin)}); train for longer.",
        )
    kind = _kind(difference, margin)
    low, high, mean = difference.low, difference.high, difference.mean
    if low is None or high is None:
        sentence = (
            f"Not enough runs to say whether {arm} and {reference} are equal within {_text(margin)} {metric}: one seed "
            f"differs by {mean:+.4f}."
        )
        return Verdict(kind=kind, metric=metric, sentence=sentence)
    found = (
        f"{metric} differs by {mean:+.4f}, {CONFIDENCE:.0%} interval {low:+.4f} to {high:+.4f}, {difference.num} seeds"
    )
    sentences = {
        "equal": f"{arm} is equal to {reference} within {_text(margin)} {metric} ({found}).",
        "better": f"{arm} is better than {reference} by {abs(mean):.4f} {metric} ({found}).",
        "worse": f"{arm} is worse than {reference} by {abs(mean):.4f} {metric} ({found}).",
        "not enough runs": f"Not enough runs to say whether {arm} and {reference} are equal within {_text(margin)} "
        f"{metric} ({found}).",
    }
    return Verdict(kind=kind, metric=metric, sentence=sentences[kind])


def _kind(difference: PairedDifference, margin: float) -> VerdictKind:
    if difference.low is None or difference.high is None:
        return "not enough runs"
    if -margin <= difference.low and difference.high <= margin:
        return "equal"
    if difference.low > 0:
        return "better"
    return "worse" if difference.high < 0 else "not enough runs"


def _sd(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def _text(number: float) -> str:
    return f"{number:g}"
