"""How a batch passes from a worker process to the main one: its images through memory that is used again.

Fresh shared memory for each batch would have to be mapped and cleared page by page, by the worker that fills it and
once more by the process that reads it: a quarter of a worker's time at 320 px. So the main process sets aside as many
places as batches can be under way, and says with each micro-batch which place its images go to. A place is free again
when nothing refers to its images any more; a batch that finds none, or fits none, gets fresh memory.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from yolo_accum.contracts import Batch

_SPARE_PLACES = 3
"""Beyond the batches that are asked for ahead: the one in use, the next one and one that has just been used."""


def shared_memory(num_bytes: int) -> Tensor:
    """[num_bytes] uint8 that other processes can read; nothing is written to it, so it takes no memory yet."""
    memory = torch.UntypedStorage._new_shared(num_bytes, device="cpu")
    return torch.empty(0, dtype=torch.uint8).set_(memory, 0, (num_bytes,), (1,))


class Places:
    """Shared memory for the images of batches.

    Args:
        num_ahead: batches that are asked for ahead of the one in use.
        num_bytes: of the images of one batch.
    """

    _numbers: ClassVar = itertools.count()
    _known: ClassVar[weakref.WeakValueDictionary[int, Places]] = weakref.WeakValueDictionary()

    def __init__(self, num_ahead: int, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        num_places = num_ahead + _SPARE_PLACES
        self._memory = shared_memory(num_places * num_bytes).view(num_places, num_bytes)
        self._free = list(range(num_places))
        self.number = next(Places._numbers)
        Places._known[self.number] = self

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _places_in_worker, (self.num_bytes, self._memory, self.number)  # of a spawned worker

    def take(self) -> int | None:
        """A free place, the one used last; None when there is none. For the main process alone."""
        return self._free.pop() if self._free else None

    def images(self, place: int, shape: Sequence[int]) -> np.ndarray:
        """The beginning of a place as a uint8 array of ``shape``, which is [m, 3, H, W] of a batch."""
        array: np.ndarray = self._memory[place].numpy()[: math.prod(shape)].reshape(shape)
        return array

    def arrived(self, place: int, shape: Sequence[int]) -> Tensor:
        """The images of a place, uint8 of ``shape``; once nothing shares their memory, the place is free again."""
        array = self.images(place, shape)
        weakref.finalize(array, self._free.append, place).atexit = False
        return torch.from_numpy(array)

    @classmethod
    def numbered(cls, number: int) -> Places:
        """The places of this process with that number.

        Raises:
            KeyError: their loader is gone.
        """
        return cls._known[number]


def _places_in_worker(num_bytes: int, memory: Tensor, number: int) -> Places:
    places = Places.__new__(Places)
    places.num_bytes, places._memory, places.number = num_bytes, memory, number
    return places


@dataclass(frozen=True, eq=False)
class Request:
    """A micro-batch and where its images shall lie; ``place`` is None for fresh memory."""

    keys: Sequence[Any]
    place: int | None


class Requests:
    """The micro-batches for torch's DataLoader, each with its place.

    Args:
        batches: the keys of each.
        places: for their images.
        num_bytes: of the images of a micro-batch.
    """

    def __init__(
        self, batches: Iterable[Sequence[Any]], places: Places, num_bytes: Callable[[Sequence[Any]], int]
    ) -> None:
        self._batches = batches
        self._places = places
        self._num_bytes = num_bytes

    def __iter__(self) -> Iterator[Request]:
        for keys in self._batches:
            fits = self._num_bytes(keys) <= self._places.num_bytes
            yield Request(keys, self._places.take() if fits else None)

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]


class Delivery:
    """A batch as a worker hands it over; in the main process it arrives as the ``Batch``.

    Args:
        batch: the batch.
        places: of its images, when they lie in one.
        place: which.
    """

    def __init__(self, batch: Batch, places: Places, place: int | None) -> None:
        self._batch, self._places, self._place = batch, places, place

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # A tensor would go through shared memory of its own and cost the receiver 0.2 ms, an array nothing.
        parts = {part.name: getattr(self._batch, part.name) for part in fields(Batch)}
        images = parts.pop("images")
        parts |= {name: value.numpy() for name, value in parts.items() if isinstance(value, Tensor)}
        if self._place is None:
            return _batch_of, (images, parts)
        return _batch_in_place, (self._places.number, self._place, tuple(images.shape), parts)


def _batch_of(images: Tensor, parts: dict[str, Any]) -> Batch:
    arrays = {name: torch.tensor(value) for name, value in parts.items() if isinstance(value, np.ndarray)}
    return Batch(images=images, **(parts | arrays))


def _batch_in_place(number: int, place: int, shape: Sequence[int], parts: dict[str, Any]) -> Batch:
    return _batch_of(Places.numbered(number).arrived(place, shape), parts)
