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
_COMPARED_AT_ONCE = 1 << 12


def first_of_same(prints: Fingerprints) -> np.ndarray:
    """[n] int64: for every picture the first one whose file has the same content (itself where there is no other)."""
    _, first, inverse = np.unique(prints.digests, return_index=True, return_inverse=True)
    return first[inverse]


def similar_pairs(prints: Fingerprints, rows: np.ndarray, split_numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pictures that look alike, for example neighbouring frames of a film or a picture saved anew.

    Every picture comes with the one most like it among the earlier ones of its split, and among those of earlier
    splits: a film of a thousand frames has half a million pairs, and nobody reads these.

    Args:
        prints: of n pictures.
        rows: [m] which of them to compare, ascending; leave repeated ones out.
        split_numbers: [n] the split of each, ascending.
    Returns:
        [p, 2] rows of ``prints``, the earlier one first, by the later one; and [p] the correlation of each pair.
    """
    thumbs = prints.thumbs[rows].reshape(len(rows), THUMB_PX**2).astype(np.float32)
    thumbs -= thumbs.mean(axis=1, keepdims=True)
    strength = np.linalg.norm(thumbs, axis=1)
    is_textured = strength >= FLAT_LEVELS * THUMB_PX
    rows, thumbs = rows[is_textured], thumbs[is_textured] / strength[is_textured, None]
    splits = split_numbers[rows]
    best = np.full((2, len(rows)), MIN_CORRELATION, np.float32)  # within the split, across splits
    partners = np.full((2, len(rows)), -1)
    for earlier, later in _parts(_candidates(prints.hashes[rows])):
        correlations = np.einsum("ij,ij->i", thumbs[earlier], thumbs[later])
        kind = (splits[earlier] != splits[later]).astype(np.intp)
        order = np.argsort(correlations, kind="stable")
        order = order[correlations[order] >= best[kind[order], later[order]]]
        # Where a picture comes up more than once, the last one assigned stays: the most alike.
        best[kind[order], later[order]] = correlations[order]
        partners[kind[order], later[order]] = earlier[order]
    kind, later = np.nonzero(partners >= 0)
    order = np.lexsort((kind, later))
    kind, later = kind[order], later[order]
    return np.column_stack([rows[partners[kind, later]], rows[later]]), best[kind, later]


def _parts(many: Iterator[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs in parts whose small copies fit into a cache; the earlier and the later ones."""
    for pairs in many:
        for start in range(0, len(pairs), _COMPARED_AT_ONCE):
            part = pairs[start : start + _COMPARED_AT_ONCE]
            yield part.min(axis=1), part.max(axis=1)


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
