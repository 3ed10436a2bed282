"""Photometric extras from albumentations; the only module that imports it."""

from __future__ import annotations

import os

import numpy as np

# Its import would otherwise ask a server for newer versions.
os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")

import albumentations


class Photometric:
    """Blur, noise, grey, local contrast and JPEG artefacts, each with the same probability, in this order.

    The library's own composition would draw from a state that outlives the call. Here every transform is seeded
    from the sample's generator before it is applied (13 us), so a sample depends on nothing that came before it.

    Args:
        probability: of each of the five, 0..1.
    """

    def __init__(self, probability: float) -> None:
        self._probability = probability
        self._transforms = (
            albumentations.GaussianBlur(blur_limit=(3, 7), p=1),
            albumentations.GaussNoise(std_range=(0.01, 0.06), p=1),
            albumentations.ToGray(p=1),
            albumentations.CLAHE(clip_limit=(1, 3), p=1),
            albumentations.ImageCompression(quality_range=(40, 90), p=1),
        )

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Vary a picture.

        Args:
            image: [H, W, 3] uint8, RGB; not written to.
            rng: decides everything; ten draws.
        Returns:
            [H, W, 3] uint8; the picture itself when no transform comes up.
        """
        chances = rng.random(len(self._transforms))
        seeds = rng.integers(2**32, size=len(self._transforms))
        for transform, chance, seed in zip(self._transforms, chances, seeds, strict=True):
            if chance < self._probability:
                transform.set_random_seed(int(seed))
                image = transform(image=image)["image"]
        return image
