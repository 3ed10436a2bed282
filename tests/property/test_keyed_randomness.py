"""A sample is a function of seed, epoch and position: not of what was loaded before, by whom, or in which order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from picture_index import random_pictures, write_picture_index

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.contracts import DetectionIndex, Sample, SampleKey
from yolo_accum.data.augment import Photometric
from yolo_accum.data.dataset import TrainDataset
from yolo_accum.data.order import epoch_order, keyed_rng, recent_positions

AUGMENT = AugmentConfig(mosaic=0.7, mixup=0.5, degrees=10, shear=5, flipud=0.3, photometric=0.3)
NUM_IMAGES = 10
NATURAL = st.integers(0, 2**63)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> DetectionIndex:
    return write_picture_index(tmp_path_factory.mktemp("pictures"), random_pictures(NUM_IMAGES))


def make_dataset(index: DetectionIndex, seed: int, cache_mib: float = 8) -> TrainDataset:
    return TrainDataset(
        index, AUGMENT, seed=seed, num_epochs=6, photometric=Photometric(AUGMENT.photometric), cache_mib=cache_mib
    )


def content(sample: Sample) -> tuple[bytes, bytes, bytes, int]:
    return sample.image.tobytes(), sample.boxes_xyxy_px.tobytes(), sample.labels.tobytes(), sample.image_index


@given(seed=NATURAL, epoch=st.integers(0, 10**6), num_images=st.integers(1, 200))
def test_every_epoch_shows_every_image_once(seed: int, epoch: int, num_images: int) -> None:
    assert np.array_equal(np.sort(epoch_order(seed, epoch, num_images)), np.arange(num_images))


@given(key=st.tuples(NATURAL, NATURAL, NATURAL, st.integers(0, 100)))
def test_the_same_key_draws_the_same(key: tuple[int, int, int, int]) -> None:
    assert np.array_equal(keyed_rng(*key).integers(2**63, size=4), keyed_rng(*key).integers(2**63, size=4))


@given(position=st.integers(0, 999), num_images=st.integers(1, 1000), seed=NATURAL)
def test_partners_are_other_positions_of_the_epoch(position: int, num_images: int, seed: int) -> None:
    position %= num_images
    partners = recent_positions(keyed_rng(seed, 0, position, 1), position, num_images, 3)
    assert all(0 <= partner < num_images for partner in partners)
    assert num_images == 1 or position not in partners
    assert all(abs(position - partner) <= 64 for partner in partners)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_samples_do_not_depend_on_what_was_loaded_before(index: DetectionIndex, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 5))
    places = st.tuples(st.integers(0, 5), st.integers(0, NUM_IMAGES - 1), st.sampled_from([64, 96]))
    keys = [SampleKey(*place) for place in data.draw(st.lists(places, min_size=1, max_size=8))]
    in_order = {key: content(make_dataset(index, seed)[key]) for key in keys}
    used = make_dataset(index, seed, cache_mib=data.draw(st.sampled_from([0, 0.05, 8])))
    for key in data.draw(st.permutations(keys)):
        assert content(used[key]) == in_order[key]
