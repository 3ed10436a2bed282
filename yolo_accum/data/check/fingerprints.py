"""What is remembered of every picture to find it again: a few hundred bytes; the only module that imports imagehash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import cv2
import imagehash
import numpy as np
from PIL import Image

THUMB_PX = 16
"""Side of the small grey copy of a picture, whatever its shape."""
_HASHED_PX = 32
"""Side that the perceptual hash works on: 8 x 8 frequencies times 4."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fingerprints:
    """Of n pictures, in columns."""

    digests: np.ndarray
    """[n] 16 bytes: equal for files of the same content."""
    hashes: np.ndarray
    """[n] uint64, a perceptual hash: few bits differ between pictures that look alike."""
    thumbs: np.ndarray
    """[n, THUMB_PX, THUMB_PX] uint8, grey."""

    def __len__(self) -> int:
        return len(self.hashes)

    @staticmethod
    def empty(num_pictures: int) -> Fingerprints:
        """Room for so many."""
        return Fingerprints(
            digests=np.zeros(num_pictures, "V16"),
            hashes=np.zeros(num_pictures, np.uint64),
            thumbs=np.zeros((num_pictures, THUMB_PX, THUMB_PX), np.uint8),
        )

    def only(self, rows: np.ndarray) -> Fingerprints:
        """Those of some pictures."""
        return Fingerprints(digests=self.digests[rows], hashes=self.hashes[rows], thumbs=self.thumbs[rows])

    def put(self, place: int, other: Fingerprints) -> None:
        """Write those of others into the rows from ``place`` on."""
        rows = slice(place, place + len(other))
        self.digests[rows], self.hashes[rows], self.thumbs[rows] = other.digests, other.hashes, other.thumbs

    def put_picture(self, row: int, image: np.ndarray, content: bytes) -> None:
        """Write that of a picture.

        Args:
            image: [H, W, 3] uint8, RGB.
            content: of its file.
        Source of the hash: the perceptual hash of ImageHash (cosine transform, 64 bits against their median).
        """
        self.digests[row] = np.frombuffer(hashlib.blake2b(content, digest_size=16).digest(), "V16")[0]
        grey = cv2.cvtColor(
            cv2.resize(image, (_HASHED_PX, _HASHED_PX), interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY
        )
        bits = imagehash.phash(Image.fromarray(grey)).hash
        self.hashes[row] = np.packbits(bits.ravel()).view(np.uint64)[0]
        self.thumbs[row] = cv2.resize(grey, (THUMB_PX, THUMB_PX), interpolation=cv2.INTER_AREA)
