"""Pictures that are there twice, or nearly so, among 100,000: by sorting, never by comparing all with all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from yolo_accum.data.check.fingerprints import THUMB_PX, Fingerprints

MAX_BITS = 7
"""Bits of the perceptual hash in which two pictures may differ to be compared more closely."""
MIN_CORRELATION = 0.95
"""Of the small grey copies of two pictures that count as nearly the same."""
FLAT_LEVELS = 2.0
"""Standard deviation of grey levels below which a picture shows nothing that could be compared."""

_NUM_BANDS, _BAND_BITS = 4, 16
_PAIRS_AT_ONCE = 1 << 22


def first_of_same(prints: Fingerprints) -> np.ndarray:
    """[n] int64: for every picture the first one whose file has the same content (itself where there is no other)."""
    _, first, inverse = np.unique(prints.digests, return_index=True, return_inverse=True)
    return first[inverse]


def similar_pairs(prints: Fingerprints, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of pictures that look alike, for example neighbouring frames of a film or a picture saved anew.

    Args:
        prints: of n pictures.
        rows: [m] which of them to compare; leave repeated ones out.
    Returns:
        [p, 2] rows of ``prints``, the smaller one first, ascending; and [p] the correlation of each pair, 0..1.
    """
    thumbs = prints.thumbs[rows].reshape(len(rows), -1).astype(np.float32)
    thumbs -= thumbs.mean(axis=1, keepdims=True)
    strength = np.linalg.norm(thumbs, axis=1)
    is_textured = strength >= FLAT_LEVELS * THUMB_PX
    rows, thumbs = rows[is_textured], thumbs[is_textured] / strength[is_textured, None]
    kept_pairs, kept_correlations = [np.zeros((0, 2), np.int64)], [np.zeros(0, np.float32)]
    for pairs in _candidates(prints.hashes[rows]):
        correlations = np.einsum("ij,ij->i", thumbs[pairs[:, 0]], thumbs[pairs[:, 1]])
        is_alike = correlations >= MIN_CORRELATION
        kept_pairs.append(pairs[is_alike])
        kept_correlations.append(correlations[is_alike])
    pairs, places = np.unique(np.sort(rows[np.concatenate(kept_pairs)], axis=1), axis=0, return_index=True)
    return pairs, np.concatenate(kept_correlations)[places]


def _candidates(hashes: np.ndarray) -> Iterator[np.ndarray]:
    """Parts of the pairs [k, 2] of close hashes. Of equal hashes only the first is compared with the others, or a
    film of still pictures would be compared frame by frame."""
    values, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    everyone = np.arange(len(hashes))
    again = everyone[first[inverse] != everyone]
    yield np.column_stack([first[inverse[again]], again])
    for pairs in _close_hashes(values):
        yield first[pairs]


def _close_hashes(hashes: np.ndarray) -> Iterator[np.ndarray]:
    """Parts of all pairs [k, 2] of hashes that differ in at most ``MAX_BITS`` bits; a pair may come more than once.

    Seven bits that differ cannot be two or more in each of four bands of 16 bits, so one band differs in one bit at
    most. Bands are looked up in sorted order, as they are and with each bit turned.

    Source: multi-index hashing, Norouzi et al. 2012, arXiv:1307.2982.
    """
    assert (MAX_BITS // _NUM_BANDS) <= 1
    bands = hashes.view(np.uint16).reshape(len(hashes), _NUM_BANDS)
    for band in bands.T:
        order = np.argsort(band, kind="stable")
        in_order = band[order]
        for turned in (0, *(1 << bit for bit in range(_BAND_BITS))):
            for left, right in _matches(band ^ np.uint16(turned), in_order):
                other = order[right]
                is_new = left < other  # a pair is met from both sides
                left, other = left[is_new], other[is_new]
                is_close = np.bitwise_count(hashes[left] ^ hashes[other]) <= MAX_BITS
                yield np.column_stack([left[is_close], other[is_close]])


def _matches(wanted: np.ndarray, in_order: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Parts of all (i, j) with ``wanted[i] == in_order[j]``, so many at a time that the memory stays bounded."""
    low = np.searchsorted(in_order, wanted, "left")
    counts = np.searchsorted(in_order, wanted, "right") - low
    ends = np.cumsum(counts)
    start = 0
    while start < len(wanted):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _PAIRS_AT_ONCE, "right")))
        part = counts[start:stop]
        left = np.repeat(np.arange(start, stop), part)
        within = np.arange(len(left)) - np.repeat(np.cumsum(part) - part, part)
        yield left, low[left] + within
        start = stop
