"""Findings about pictures that are there more than once, within a split and across splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.check.duplicates import first_of_same, similar_pairs
from yolo_accum.data.check.fingerprints import Fingerprints
from yolo_accum.data.findings import FindingKind, FindingLog, Mark


@dataclass(frozen=True, kw_only=True, eq=False)
class SeenPictures:
    """n decoded pictures of all splits, in the order of the splits."""

    splits: Mapping[str, DetectionIndex]
    split_numbers: np.ndarray
    """[n] place of the split among the splits."""
    rows: np.ndarray
    """[n] row of the split's index."""
    prints: Fingerprints

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, places: np.ndarray) -> SeenPictures:
        """Some of them, by place, ascending."""
        return SeenPictures(
            splits=self.splits,
            split_numbers=self.split_numbers[places],
            rows=self.rows[places],
            prints=self.prints.only(places),
        )

    def index(self, number: int) -> DetectionIndex:
        return list(self.splits.values())[self.split_numbers[number]]

    def path(self, number: int) -> str:
        return self.index(number).image_paths[int(self.rows[number])]

    def describe(self, number: int) -> str:
        """For messages: the split and the file."""
        return f"{list(self.splits)[self.split_numbers[number]]}: {self.path(number)}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Duplicates:
    """Which pictures go together."""

    same: np.ndarray
    """[p, 2] numbers of pictures with one content, the first one first."""
    similar: np.ndarray
    """[q, 2] numbers of pictures that look alike, at most two pairs a picture; see ``similar_pairs``."""
    correlations: np.ndarray
    """[q] of the small grey copies."""


def report_duplicates(seen: SeenPictures, log: FindingLog) -> Duplicates:
    """Looks for pictures with the same content and for pictures that look alike, and tells them split by split."""
    first = first_of_same(seen.prints)
    numbers = np.arange(len(seen))
    again = numbers[first != numbers]
    similar, correlations = similar_pairs(seen.prints, numbers[first == numbers], seen.split_numbers)
    duplicates = Duplicates(same=np.column_stack([first[again], again]), similar=similar, correlations=correlations)
    _report_pairs(seen, duplicates.same, None, (found.SAME_PICTURE, found.LEAKED_PICTURE), log)
    _report_pairs(seen, duplicates.similar, duplicates.correlations, (found.SIMILAR_PICTURE, found.LEAKED_SIMILAR), log)
    for number, index in enumerate(seen.splits.values()):
        differing = [
            pair
            for pair in duplicates.same
            if seen.split_numbers[pair[1]] == number and not _same_objects(seen, *pair.tolist())
        ]
        _add(seen, found.OTHER_BOXES, index, differing, ["has other objects than" for _ in differing], log)
    return duplicates


def _report_pairs(
    seen: SeenPictures,
    pairs: np.ndarray,
    correlations: np.ndarray | None,
    kinds: tuple[FindingKind, FindingKind],
    log: FindingLog,
) -> None:
    """One finding for pairs within a split and one for pairs with an earlier split; every picture counts once."""
    within, across = kinds
    strength = correlations if correlations is not None else np.ones(len(pairs))
    best_first = np.argsort(-strength, kind="stable")
    for number, index in enumerate(seen.splits.values()):
        is_mine = seen.split_numbers[pairs[:, 1]] == number
        is_across = seen.split_numbers[pairs[:, 0]] != number
        for kind, is_affected in ((within, is_mine & ~is_across), (across, is_mine & is_across)):
            chosen = best_first[is_affected[best_first]]
            _, once = np.unique(pairs[chosen, 1], return_index=True)
            chosen = chosen[np.sort(once)]
            words = ["=" if correlations is None else f"alike by {strength[place]:.2f}" for place in chosen]
            _add(seen, kind, index, list(pairs[chosen]), words, log)


def _add(
    seen: SeenPictures,
    kind: FindingKind,
    index: DetectionIndex,
    pairs: Sequence[np.ndarray],
    words: Sequence[str],
    log: FindingLog,
) -> None:
    def places(limit: int) -> list[str]:
        return [
            f"{seen.path(int(pair[1]))} {word} {seen.describe(int(pair[0]))}"
            for pair, word in zip(pairs[:limit], words[:limit], strict=True)
        ]

    marks = (Mark(picture=seen.path(int(number))) for pair in pairs for number in pair[::-1])
    log.add(kind, index.source, len(pairs), places(found.MAX_PLACES), marks=marks)


def _same_objects(seen: SeenPictures, one: int, other: int) -> bool:
    first, second = seen.index(one), seen.index(other)
    rows, others = first.rows(int(seen.rows[one])), second.rows(int(seen.rows[other]))
    return np.array_equal(_sorted_objects(first, rows), _sorted_objects(second, others))


def _sorted_objects(index: DetectionIndex, rows: slice) -> np.ndarray:
    table = np.column_stack([index.labels[rows], np.round(index.boxes_xyxy_px[rows])])
    return table[np.lexsort(table.T)]
