"""Decoded pictures that all processes of a machine share: one file, in memory or on disk, mapped by each of them.

Its layout follows from the index and the input size, so its size is known before a picture is read. A picture is valid
by its row of the table: size and time of change of the file that it was made from, and a checksum. The row is written
after the picture, so whoever dies in between leaves a row that does not hold; such a picture is made again. Processes
that make the same picture at once write the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np

from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.images import UnreadableImageError, read_working_image, working_size
from yolo_accum.data.index_cache import stamps

try:
    import fcntl
except ImportError:  # Windows: two runs that fill at once do the same work
    fcntl = None  # type: ignore[assignment]

_FORMAT = 1
"""Raise it when the pixels or their layout change."""
_ALIGNMENT = 64
_NUM_FIELDS = 3
_PICTURES_A_TASK = 16


class CacheLayout:
    """Where each picture of an index lies in the file, and how large that is.

    Args:
        index: the pictures.
        size_px: side of the network input that they are decoded for.
    """

    def __init__(self, index: DetectionIndex, size_px: int) -> None:
        self.index = index
        self.size_px = size_px
        sizes = [
            working_size(width_px, height_px, size_px)
            for width_px, height_px in zip(index.widths_px.tolist(), index.heights_px.tolist(), strict=True)
        ]
        self.sizes_px = np.array(sizes, np.int32).reshape(-1, 2)
        """[n, 2], width and height of the pictures in the file."""
        lengths = self.sizes_px.astype(np.int64).prod(axis=1) * 3
        table_bytes = 8 * _NUM_FIELDS * len(index)
        steps = -(-np.concatenate([[table_bytes], lengths]) // _ALIGNMENT) * _ALIGNMENT
        self.starts = np.cumsum(steps)
        """[n + 1] int64, where the pictures begin; the last one is the size of the file."""

    @property
    def num_bytes(self) -> int:
        return int(self.starts[-1])

    def name(self) -> str:
        """A file name that says which pictures these are, in which order, and how they were made."""
        ends, content = self.index.image_paths.arrays
        settings = [_FORMAT, self.size_px, cv2.__version__, len(self.index)]
        digest = hashlib.sha256(json.dumps(settings).encode())
        for column in (ends, content, self.sizes_px):
            digest.update(np.ascontiguousarray(column).data)
        return f"{digest.hexdigest()[:32]}.pictures"


class PictureCache:
    """The pictures of an index, decoded for one input size, in a file that other processes may have open too.

    Args:
        path: the file, as large as the layout says.
        layout: what lies where.
    """

    def __init__(self, path: Path, layout: CacheLayout) -> None:
        self.layout = layout
        self.size_px = layout.size_px
        self._path = path
        with path.open("r+b") as file:
            self._memory = np.frombuffer(mmap.mmap(file.fileno(), layout.num_bytes), np.uint8)
        num = len(layout.index)
        self._table = self._memory[: 8 * _NUM_FIELDS * num].view(np.int64).reshape(num, _NUM_FIELDS)
        self._is_checked = np.zeros(num, bool)

    def __reduce__(self) -> tuple[type[PictureCache], tuple[Path, CacheLayout]]:
        return PictureCache, (self._path, self.layout)  # a spawned worker maps the same file

    def get(self, row: int, load: Callable[[], np.ndarray]) -> np.ndarray:
        """[h, w, 3] uint8, RGB, not to be written to: the picture of a row, from ``load`` when it does not lie here."""
        if not self._is_checked[row]:
            if self._table[row, 2] != self._checksum(row) or (self._table[row, :2] != self._stamp(row)).any():
                return self._made(row, load)
            self._is_checked[row] = True
        return self._picture(row)

    def fill(self, num_threads: int, progress: Callable[[int], None]) -> None:
        """Make every picture whose row does not fit its file. One that cannot be read stays out.

        Args:
            num_threads: that decode.
            progress: called with the number of pictures done.
        """
        found = stamps(list(self.layout.index.image_paths))
        stale = np.flatnonzero((self._table[:, :2] != found).any(axis=1))
        num_valid = len(found) - len(stale)
        progress(num_valid)
        starts = range(0, len(stale), _PICTURES_A_TASK)
        with ThreadPoolExecutor(max_workers=num_threads) as pool:
            tasks = pool.map(lambda start: self._make(stale[start : start + _PICTURES_A_TASK]), starts)
            try:
                for done, _ in enumerate(tasks, start=1):
                    progress(min(num_valid + done * _PICTURES_A_TASK, len(found)))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _make(self, rows: np.ndarray) -> None:
        for row in rows.tolist():
            try:
                self._made(row, lambda row=row: _read(self.layout, row))  # type: ignore[misc]
            except UnreadableImageError:
                continue

    def _made(self, row: int, load: Callable[[], np.ndarray]) -> np.ndarray:
        self._table[row] = 0
        stamp = self._stamp(row)
        picture = self._picture(row, is_written=True)
        picture[...] = load()
        self._table[row] = (*stamp, self._checksum(row))
        self._is_checked[row] = True
        return self._picture(row)

    def _stamp(self, row: int) -> np.ndarray:
        return stamps([self.layout.index.image_paths[row]])[0]

    def _picture(self, row: int, is_written: bool = False) -> np.ndarray:
        width_px, height_px = self.layout.sizes_px[row].tolist()
        start = int(self.layout.starts[row])
        picture = self._memory[start : start + width_px * height_px * 3].reshape(height_px, width_px, 3)
        picture.setflags(write=is_written)
        return picture

    def _checksum(self, row: int) -> int:
        """Of all bytes of a picture, never 0: a tenth of a millisecond. It is to tell damage, not malice."""
        words = self._memory[int(self.layout.starts[row]) : int(self.layout.starts[row + 1])].view(np.int64)
        return int(words.sum()) ^ int(np.bitwise_xor.reduce(words)) or 1


def _read(layout: CacheLayout, row: int) -> np.ndarray:
    index = layout.index
    return read_working_image(
        index.image_paths[row], int(index.widths_px[row]), int(index.heights_px[row]), layout.size_px
    )


def make_file(path: Path, num_bytes: int) -> None:
    """Give a file its size, all of it at once: what runs full later would end processes without a word.

    Raises:
        OSError: there is no room.
    """
    with path.open("a+b") as file:
        if os.fstat(file.fileno()).st_size == num_bytes:
            return
        os.ftruncate(file.fileno(), 0)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, num_bytes)
        else:
            os.ftruncate(file.fileno(), num_bytes)


@contextmanager
def only_one(path: Path, wait: Callable[[], None]) -> Iterator[None]:
    """Let one process of the machine at a time in; the lock goes with its process, however that ends.

    Args:
        path: of the lock.
        wait: called when another one is in.
    """
    with path.open("a") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                wait()
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def allocated_bytes(path: Path) -> int:
    """What a file takes on its disk; 0 when there is none."""
    try:
        status = path.stat()
    except OSError:
        return 0
    return int(getattr(status, "st_blocks", 0)) * 512 or status.st_size
