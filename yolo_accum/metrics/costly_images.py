"""Which images of a validation set cost the most AP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from yolo_accum.metrics.matching import ClassMatches, interpolated_precision

CANDIDATES_PER_IMAGE = 8
"""AP is computed anew for so many times the images that are asked for: those with the most and surest errors."""


@dataclass(frozen=True, kw_only=True)
class ImageCost:
    """What an image takes from AP."""

    image: int
    """Row of the index."""
    ap: float
    """AP that would be gained if this image were perfect: every object found with certainty, nothing false."""


def costly_images(matches: Sequence[ClassMatches], number: int) -> list[ImageCost]:
    """The images that cost the most AP (the mean over IoU 0.5 to 0.95 and the classes that have objects).

    Args:
        matches: of all classes.
        number: at most so many images, and none that costs nothing.
    Returns:
        the costliest first; of equal costs the first image.
    """
    defined = [item for item in matches if item.num_truth]
    if not defined:
        return []
    before = [_ap(item.hits, item.ignored, item.num_truth) for item in defined]
    costs = []
    for image in _candidates(defined, CANDIDATES_PER_IMAGE * number):
        gain = sum(_ap_if_perfect(item, image, ap) - ap for item, ap in zip(defined, before, strict=True))
        costs.append(ImageCost(image=image, ap=gain / len(defined)))
    costs.sort(key=lambda cost: (-cost.ap, cost.image))
    return [cost for cost in costs[:number] if cost.ap > 1e-9]


def _ap(hits: np.ndarray, ignored: np.ndarray, num_truth: int) -> float:
    return float(interpolated_precision(hits, ignored, num_truth).mean())


def _ap_if_perfect(matches: ClassMatches, image: int, ap: float) -> float:
    num_own = int(matches.truth_per_image[image])
    others = matches.images != image
    if not num_own and others.all():
        return ap
    certain = np.ones((len(matches.hits), num_own), dtype=bool)
    hits = np.concatenate([certain, matches.hits[:, others]], axis=1)
    ignored = np.concatenate([~certain, matches.ignored[:, others]], axis=1)
    return _ap(hits, ignored, matches.num_truth)


def _candidates(matches: Sequence[ClassMatches], number: int) -> list[int]:
    """Images by what they miss and by the scores of their false alarms, as shares of the objects of a class."""
    num_images = len(matches[0].truth_per_image)
    errors = np.zeros(num_images)
    for item in matches:
        hits = np.bincount(item.images, weights=item.hits.mean(axis=0), minlength=num_images)
        is_false = (~item.hits & ~item.ignored).mean(axis=0)
        false = np.bincount(item.images, weights=is_false * item.scores, minlength=num_images)
        errors += (item.truth_per_image - hits + false) / item.num_truth
    order = np.argsort(-errors, kind="stable")[:number]
    return [int(image) for image in order if errors[image] > 0]
