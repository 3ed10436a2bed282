"""Order and keyed randomness: pure functions of seed, epoch and position."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from yolo_accum.data.order import Stream, epoch_order, keyed_rng, recent_positions

RECORDED_RAW = [5502067147563351689, 12515878954227384525]


def test_an_order_is_a_read_only_permutation() -> None:
    order = epoch_order(3, 5, 100)
    assert order.dtype == np.int64
    assert sorted(order) == list(range(100))
    with pytest.raises(ValueError, match="read-only"):
        order[0] = 1


def test_seed_epoch_and_number_of_images_each_change_the_order() -> None:
    orders = [epoch_order(0, 0, 50), epoch_order(0, 1, 50), epoch_order(1, 0, 50), epoch_order(1, 1, 50)]
    assert len({tuple(order) for order in orders}) == 4


def test_every_image_comes_first_about_equally_often() -> None:
    firsts = np.bincount([epoch_order(0, epoch, 4)[0] for epoch in range(2000)], minlength=4)
    # 500 expected, standard deviation 19.4: five of them.
    assert (abs(firsts - 500) < 97).all()


def test_another_process_gives_the_same_order_and_draws() -> None:
    code = (
        "from yolo_accum.data.order import *;"
        "print(epoch_order(7, 2, 10).tolist(), keyed_rng(7, 2, 4, Stream.COLOUR).integers(10**9))"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert other.strip() == f"{epoch_order(7, 2, 10).tolist()} {keyed_rng(7, 2, 4, Stream.COLOUR).integers(10**9)}"


def test_draws_are_the_recorded_ones() -> None:
    """A change here gives a resumed run other samples. numpy promises that these bits stay."""
    assert keyed_rng(0, 0, 0, Stream.GEOMETRY).bit_generator.random_raw(2).tolist() == RECORDED_RAW


def test_every_part_of_the_key_counts() -> None:
    keys = [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (2**40, 0, 0, 0), (1, 1, 0, 0)]
    assert len({int(keyed_rng(*key).integers(2**62)) for key in keys}) == len(keys)


def test_a_negative_key_is_refused() -> None:
    with pytest.raises(ValueError, match="non-negative"):
        keyed_rng(0, 0, -1, Stream.COLOUR)


def test_a_generator_is_cheap() -> None:
    start = time.perf_counter()
    for position in range(1000):
        keyed_rng(0, 0, position, Stream.COLOUR)
    # 10 us each on an idle core; the bound leaves room for a busy machine.
    assert (time.perf_counter() - start) / 1000 < 200e-6


def test_partners_come_from_the_recent_past() -> None:
    steps = {700 - place for seed in range(500) for place in recent_positions(keyed_rng(seed, 0, 700, 1), 700, 1000, 3)}
    assert steps == set(range(1, 65))  # 1500 draws


def test_partners_at_the_start_are_those_that_the_epoch_begins_with() -> None:
    places = {place for seed in range(500) for place in recent_positions(keyed_rng(seed, 0, 3, 1), 3, 1000, 3)}
    assert places == set(range(65)) - {3}


@pytest.mark.parametrize("num_images", [2, 3, 5])
def test_partners_of_a_tiny_set_are_all_the_others(num_images: int) -> None:
    found = {place for seed in range(100) for place in recent_positions(keyed_rng(seed, 0, 1, 1), 1, num_images, 3)}
    assert found == set(range(num_images)) - {1}


def test_a_single_image_is_its_own_partner() -> None:
    assert recent_positions(keyed_rng(0, 0, 0, 1), 0, 1, 3) == [0, 0, 0]
