"""How far the gradient of a window of small micro-batches is that of the large batch, by norm. No torch.

Source: this project's own measurement, docs/norms.md: the cosine between the gradient of a window and that of the same
64 images in one batch, yolox_nano with COCO weights on blood cells, means over three windows. `yolo-accum verify`
measures it on one's own model and data.
"""

from __future__ import annotations

from collections.abc import Mapping

GRADIENT_COSINES: Mapping[str, Mapping[int, float]] = {
    "bn": {2: 0.68, 4: 0.757, 8: 0.827, 16: 0.884},
    "cmbn": {2: 0.167, 4: 0.259, 8: 0.457, 16: 0.688},
    "wrn": {2: 0.804, 4: 0.83, 8: 0.87, 16: 0.884},
}
"""By norm and images of a micro-batch on one replica. Those of gn and frozen are 1: they do not depend on the cut."""
WRN_TIME = 1.15
"""Time of a training step with wrn over one with bn, at most."""
ENOUGH_IMAGES = 16
"""From this micro-batch on, nothing measured is closer to the large batch than bn by more than 0.01."""


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
