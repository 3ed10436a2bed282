"""Pictures that look alike are found, and only these; the search misses no close pair of hashes."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from yolo_accum.data.check import duplicates
from yolo_accum.data.check.duplicates import MAX_BITS, first_of_same, similar_pairs
from yolo_accum.data.check.fingerprints import Fingerprints


def scene(seed: int, size_px: tuple[int, int] = (120, 90)) -> np.ndarray:
    """[H, W, 3] uint8: soft blobs, as unlike from seed to seed as two photographs."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return cv2.resize(coarse, size_px, interpolation=cv2.INTER_CUBIC)


def prints_of(images: list[np.ndarray]) -> Fingerprints:
    prints = Fingerprints.empty(len(images))
    for row, image in enumerate(images):
        prints.put_picture(row, image, image.tobytes())
    return prints


def test_copies_are_found_however_they_were_saved() -> None:
    original = scene(1)
    _, encoded = cv2.imencode(".jpg", original, [cv2.IMWRITE_JPEG_QUALITY, 40])
    saved_anew = cv2.imdecode(encoded, cv2.IMREAD_COLOR)
    smaller = cv2.resize(original, (60, 45), interpolation=cv2.INTER_AREA)
    brighter = np.clip(original.astype(np.int16) + 20, 0, 255).astype(np.uint8)
    others = [scene(seed) for seed in range(2, 40)]
    prints = prints_of([original, *others, saved_anew, smaller, brighter])

    pairs, correlations = similar_pairs(prints, np.arange(len(prints)), np.zeros(len(prints), int))

    assert pairs[:, 1].tolist() == [39, 40, 41]
    assert set(pairs[:, 0].tolist()) <= {0, 39, 40}
    assert (correlations >= duplicates.MIN_CORRELATION).all() and (pairs[:, 0] < pairs[:, 1]).all()


def test_pictures_that_show_nothing_are_not_called_alike() -> None:
    flat = [np.full((40, 40, 3), level, np.uint8) for level in (0, 128, 255)]

    pairs, _ = similar_pairs(prints_of(flat), np.arange(3), np.zeros(3, int))

    assert len(pairs) == 0


def test_only_the_rows_asked_for_are_compared() -> None:
    prints = prints_of([scene(1), scene(1), scene(2), scene(1)])

    pairs, _ = similar_pairs(prints, np.array([1, 2, 3]), np.zeros(4, int))

    assert pairs.tolist() == [[1, 3]]


def test_every_picture_comes_with_the_most_alike_of_its_split_and_of_earlier_splits() -> None:
    rng = np.random.default_rng(0)
    original = scene(1)
    noisy = [np.clip(original + rng.normal(0, level, original.shape), 0, 255).astype(np.uint8) for level in (20, 10, 3)]
    prints = prints_of([noisy[0], noisy[1], scene(2), noisy[2], original])

    pairs, correlations = similar_pairs(prints, np.arange(5), np.array([0, 0, 0, 1, 1]))

    assert pairs.tolist() == [[0, 1], [1, 3], [3, 4], [1, 4]]
    assert correlations[2] > correlations[3]


def test_files_of_the_same_content_have_one_first() -> None:
    prints = prints_of([scene(1), scene(2), scene(1), scene(3), scene(2)])

    assert first_of_same(prints).tolist() == [0, 1, 0, 3, 1]


@pytest.mark.parametrize("pairs_at_once", [1 << 22, 7])
def test_every_close_pair_of_hashes_is_found(pairs_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "_PAIRS_AT_ONCE", pairs_at_once)
    rng = np.random.default_rng(0)
    centres = rng.integers(0, 2**64, 30, dtype=np.uint64)
    hashes = []
    for centre in centres:
        for num_bits in (0, 1, 3, MAX_BITS, MAX_BITS + 1):
            turned = sum(1 << int(bit) for bit in rng.choice(64, num_bits, replace=False))
            hashes.append(int(centre) ^ turned)
    values = np.unique(np.array(hashes, np.uint64))

    found = {tuple(pair) for part in duplicates._close_hashes(values) for pair in np.sort(part, axis=1).tolist()}

    expected = {
        (i, j)
        for i in range(len(values))
        for j in range(i + 1, len(values))
        if bin(int(values[i]) ^ int(values[j])).count("1") <= MAX_BITS
    }
    assert found == expected and len(expected) > 100
