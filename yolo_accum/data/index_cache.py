"""The index of a large data set, kept between runs: read in a moment as long as none of its files has changed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.config.paths import user_cache_folder
from yolo_accum.contracts import DetectionIndex, StringTable
from yolo_accum.data import findings as found
from yolo_accum.data.findings import Finding, FindingKind, Mark

MIN_ROWS = 50_000
"""Pictures and boxes of an index that is worth keeping; a smaller one is read within a second."""

_COLUMNS = ("widths_px", "heights_px", "box_starts", "boxes_xyxy_px", "labels", "is_crowd", "areas_px")
_KINDS = {kind.code: kind for kind in vars(found).values() if isinstance(kind, FindingKind)}
_DAMAGED = (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, zipfile.BadZipFile, zlib.error)
"""What reading a damaged file may raise."""

Stamps = np.ndarray
"""[n, 2] int64: size and time of the last change (ns) of files, -1 where there is none."""


class IndexCache:
    """Keeps the index of one description of a split, read in one way.

    A kept index is used only if the description and every picture that it lists have the size and time of change that
    they had before they were read. The file is checked as it is read; a damaged one counts as none.

    Args:
        source: the file that describes the split.
        reading: everything else that decides what the index is, as JSON values.
        folder: where it is kept; by default in the user's cache folder.
    """

    def __init__(self, source: Path, reading: Mapping[str, object], folder: Path | None = None) -> None:
        self._source = source
        self._key = {
            "code": _code_digest(),
            "source": os.fsdecode(source.absolute()),
            "as": os.fsdecode(source),  # messages name it so
            "reading": reading,
        }
        digest = hashlib.sha256(json.dumps(self._key, sort_keys=True).encode()).hexdigest()[:32]
        self._path = (folder or user_cache_folder() / "index") / f"{digest}.npz"
        self._source_stamp = stamps([os.fsdecode(source)])

    def load(self) -> tuple[DetectionIndex, tuple[Finding, ...]] | None:
        """The index and what was found; None when nothing is kept, or not of these very files."""
        if not self._path.is_file():
            return None
        try:
            with np.load(self._path, allow_pickle=False) as kept:
                return self._opened(kept)
        except _DAMAGED:
            return None

    def _opened(self, kept: Mapping[str, np.ndarray]) -> tuple[DetectionIndex, tuple[Finding, ...]] | None:
        if not np.array_equal(kept["source_stamp"], self._source_stamp):
            return None
        files = StringTable.of_arrays(kept["file_ends"], kept["file_bytes"])
        if not np.array_equal(kept["stamps"], stamps(list(files))):
            return None
        about = json.loads(kept["about"].tobytes())
        ids = about["image_ids"] if about["image_ids"] is not None else kept["image_ids"].tolist()
        index = DetectionIndex(
            source=self._source,
            image_paths=StringTable.of_arrays(kept["path_ends"], kept["path_bytes"]),
            image_ids=tuple(ids),
            class_names=tuple(about["class_names"]),
            class_ids=tuple(about["class_ids"]),
            **{name: kept[name] for name in _COLUMNS},
        )
        return index, tuple(_finding(item, self._source) for item in about["findings"])

    def store(self, index: DetectionIndex, findings: Sequence[Finding], files: Sequence[str], before: Stamps) -> None:
        """Keep an index, if it is large and has no errors.

        Args:
            index: as it was read.
            findings: what was found.
            files: the pictures that it depends on, also those that could not be used.
            before: their ``stamps`` from before they were read.
        """
        if len(index) + index.num_boxes < MIN_ROWS or any(item.kind.severity == "error" for item in findings):
            return
        are_numbers = set(map(type, index.image_ids)) == {int}
        about = {
            "image_ids": None if are_numbers else index.image_ids,
            "class_names": index.class_names,
            "class_ids": index.class_ids,
            "findings": [_plain(item) for item in findings],
        }
        file_ends, file_bytes = StringTable(files).arrays
        path_ends, path_bytes = index.image_paths.arrays
        arrays = {
            "source_stamp": self._source_stamp,
            "stamps": before,
            "file_ends": file_ends,
            "file_bytes": file_bytes,
            "path_ends": path_ends,
            "path_bytes": path_bytes,
            "about": np.frombuffer(json.dumps(about).encode(), np.uint8),
            "image_ids": np.array(index.image_ids if are_numbers else (), np.int64),
            **{name: getattr(index, name) for name in _COLUMNS},
        }
        # Under its name only when it is complete: a killed run leaves nothing half done, two at once do no harm. No
        # room, or no right to write, is no reason to end a run.
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _remove_old_parts(self._path.parent)
            handle, part = tempfile.mkstemp(suffix=".part", dir=self._path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    np.savez(file, **arrays)
                Path(part).replace(self._path)
            finally:
                Path(part).unlink(missing_ok=True)


@functools.cache
def _code_digest() -> str:
    """Of the code that reads data sets: another version of it may find other things."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def stamps(paths: Sequence[str]) -> Stamps:
    """Sizes and times of change of files, by which a changed one is told."""

    def stamp(path: str) -> tuple[int, int]:
        try:
            status = os.stat(path)  # noqa: PTH116 - 100,000 of them: a third of Path's time
        except (OSError, ValueError):
            return -1, -1
        return status.st_size, status.st_mtime_ns

    return np.array([stamp(path) for path in paths], np.int64).reshape(-1, 2)


def _remove_old_parts(folder: Path) -> None:
    """What killed runs have left, once nobody can be writing it any more."""
    now_s = os.stat(folder).st_mtime  # noqa: PTH116
    for part in folder.glob("*.part"):
        if now_s - part.stat().st_mtime > 3600:
            part.unlink(missing_ok=True)


def _plain(finding: Finding) -> dict[str, Any]:
    marks = [dataclasses.astuple(mark) for mark in finding.marks]
    return {
        "code": finding.kind.code,
        "source": str(finding.source),
        "count": finding.count,
        "places": finding.places,
        "note": finding.note,
        "marks": marks,
    }


def _finding(item: Mapping[str, Any], source: Path) -> Finding:
    marks = tuple(
        Mark(picture=picture, box_xyxy_px=tuple(box) if box is not None else None, label=label)
        for picture, box, label in item["marks"]
    )
    return Finding(
        kind=_KINDS[item["code"]],
        source=source if item["source"] == str(source) else Path(item["source"]),
        count=item["count"],
        places=tuple(item["places"]),
        note=item["note"],
        marks=marks,
    )
