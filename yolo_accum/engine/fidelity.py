"""How far the gradient of a window of small micro-batches is that of the large batch, by norm. No torch.

Source: this project's measurements on a detector after a short training: the cosine between the gradient of a window
and that of the same 64 images in one batch, norms in training mode. The values of a norm at 2, 4 and 8 images come
from one experiment for all norms; ``bn`` at 16 comes from an earlier one, in which it had 0.48, 0.56 and 0.83 at 2, 4
and 8. `yolo-accum verify` measures them on one's own model and data.
"""

from __future__ import annotations

from collections.abc import Mapping

GRADIENT_COSINES: Mapping[str, Mapping[int, float]] = {
    "bn": {2: 0.43, 4: 0.41, 8: 0.52, 16: 0.94},
    "wrn": {2: 0.57, 4: 0.61, 8: 0.70},
    "cmbn": {2: 0.13, 8: 0.28},
}
"""By norm and images of a micro-batch on one replica."""
WRN_TIME = 1.15
"""Time of a training step with wrn over one with bn, at most."""
ENOUGH_IMAGES = 16
"""From this micro-batch on, bn is close enough to the large batch."""


def recommended_norm(images: int, nbs: int) -> str:
    """For micro-batches of so many images on one replica."""
    return "bn" if images >= min(ENOUGH_IMAGES, nbs) else "wrn"


def gradient_cosine(norm: str, images: int, nbs: int) -> float | None:
    """With the gradient of the large batch: that of the next smaller micro-batch that was measured.

    Returns:
        1 where the micro-batch is the large batch; None where nothing as small was measured.
    """
    if images >= nbs:
        return 1.0
    below = [measured for measured in GRADIENT_COSINES[norm] if measured <= images]
    return GRADIENT_COSINES[norm][max(below)] if below else None
