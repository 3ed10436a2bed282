"""The order of images and the randomness of every sample: pure functions of seed, epoch and position.

Nothing here knows micro-batches, workers or replicas, so none of them can change a sample.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

import numpy as np


class Stream(IntEnum):
    """Independent sources of randomness of one position, so that an option that draws more disturbs no other.

    The numbers enter the random key: never reuse or change one, or a resumed run would see other samples.
    """

    ORDER = 0
    GEOMETRY = 1
    MIXUP = 2
    COLOUR = 3
    PHOTOMETRIC = 4
    BALANCE = 5
    MULTI_SCALE = 6
    COPY_PASTE = 7
    CUTOUT = 8
    AUGMENTATIONS = 9
    FRACTION = 10


_WORD = 2**32


def keyed_rng(seed: int, epoch: int, position: int, stream: int) -> np.random.Generator:
    """A fresh generator that is determined by its four arguments, each at least 0 (about 10 us).

    The bit generator is named because numpy may one day change its default.

    Raises:
        ValueError: a negative argument.
    """
    key: tuple[int, ...] | np.ndarray = (seed, epoch, position, int(stream))
    if all(0 <= number < _WORD for number in (seed, epoch, position)):
        key = np.array(key, np.uint32)  # the words that numpy makes of the numbers, in half the time
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))


@lru_cache(maxsize=4)
def epoch_order(seed: int, epoch: int, num_images: int) -> np.ndarray:
    """The order in which an epoch shows the images.

    Returns:
        [num_images] int64, a permutation of 0..num_images-1, read-only. The last few epochs stay in memory, since
        loading ahead crosses from one epoch into the next.
    """
    order = keyed_rng(seed, epoch, 0, Stream.ORDER).permutation(num_images)
    order.setflags(write=False)
    return order


REACH = 64
"""The farthest step back to a partner. At 640 px so many decoded pictures are 60 to 80 MiB."""


def recent_positions(
    rng: np.random.Generator, position: int, num_images: int, count: int, reach: int = REACH
) -> list[int]:
    """Draw positions that an epoch passed shortly before ``position``; at its start, those that it begins with.

    Staying near keeps the pictures that are wanted again few, so that a small cache of decoded ones serves them.

    Args:
        count: how many positions, each drawn on its own (a small data set repeats some).
        reach: the farthest step back.
    Returns:
        ``count`` positions in 0..num_images-1; ``position`` itself only when there is no other image.
    """
    farthest = min(num_images - 1, reach)
    if farthest == 0:
        return [position] * count
    steps = rng.integers(1, farthest + 1, size=count).tolist()
    return [position - step if step <= position else step for step in steps]
