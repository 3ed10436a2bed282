"""Batches of workers: the memory of their images is used again, but never while anybody refers to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from picture_index import random_pictures, write_picture_index

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.contracts import Batch, DetectionIndex, SampleKey
from yolo_accum.data.dataset import TrainDataset
from yolo_accum.data.hand_over import Places, Requests
from yolo_accum.data.loader import train_loader

NUM_IMAGES = 6


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> DetectionIndex:
    return write_picture_index(tmp_path_factory.mktemp("pictures"), random_pictures(NUM_IMAGES))


def batches(index: DetectionIndex, sizes_px: Sequence[int], workers: int, start_method: str | None = None):
    """One epoch for each size, an epoch one batch."""
    keys = ([SampleKey(epoch, place, size_px) for place in range(NUM_IMAGES)] for epoch, size_px in enumerate(sizes_px))
    dataset = TrainDataset(index, AugmentConfig(), seed=0, num_epochs=len(sizes_px))
    return train_loader(dataset, keys, workers=workers, pin_memory=False, start_method=start_method)


def digests(found: Iterator[Batch] | list[Batch]) -> list[str]:
    return [hashlib.sha256(batch.images.numpy().tobytes()).hexdigest() for batch in found]


@pytest.mark.parametrize("start_method", [None, "spawn"])
def test_batches_that_are_kept_stay_what_they_were(index: DetectionIndex, start_method: str | None) -> None:
    """Far more of them than there are places."""
    sizes_px = [64] * 40
    kept = list(batches(index, sizes_px, 2, start_method))
    assert digests(kept) == digests(batches(index, sizes_px, 0))


def test_a_part_of_a_batch_keeps_its_memory(index: DetectionIndex) -> None:
    sizes_px = [64] * 40
    expected = [batch.images[2].clone() for batch in batches(index, sizes_px, 0)]
    parts = [batch.images[2] for batch in batches(index, sizes_px, 2)]
    assert all(map(torch.equal, parts, expected))


def test_batches_larger_than_the_first_find_memory(index: DetectionIndex) -> None:
    sizes_px = [64, 128, 32, 96] * 8
    assert digests(batches(index, sizes_px, 2)) == digests(batches(index, sizes_px, 0))


def test_memory_is_used_again_once_it_is_free(index: DetectionIndex) -> None:
    addresses = [batch.images.data_ptr() for batch in batches(index, [64] * 40, 1)]
    assert len(set(addresses)) <= 1 * 4 + 3


def test_a_place_is_taken_until_its_images_are_gone() -> None:
    places = Places(num_ahead=0, num_bytes=12)
    taken = [places.take() for _ in range(3)]
    assert sorted(place for place in taken if place is not None) == [0, 1, 2]
    assert places.take() is None
    images = places.arrived(1, (2, 3, 2))
    view = images[1:]
    del images
    assert places.take() is None
    del view
    assert places.take() == 1


def test_a_batch_that_does_not_fit_takes_no_place() -> None:
    places = Places(num_ahead=0, num_bytes=12)
    requests = list(Requests([[0] * 13, [0] * 12], places, len))
    assert [request.place is None for request in requests] == [True, False]


def test_no_micro_batch_at_all(tmp_path: Path) -> None:
    index = write_picture_index(tmp_path, random_pictures(2))
    assert list(batches(index, [], 2)) == []
