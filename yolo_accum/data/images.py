"""Pictures from files: decoding, the working copy that augmentation uses, the letterbox that evaluation uses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path

import cv2
import numpy as np

from yolo_accum.contracts import PAD_VALUE, Letterbox
from yolo_accum.errors import UserError, printable

_JPEG_MAGIC = b"\xff\xd8\xff"
_DECODE_FLAGS = {
    reduction: flag & ~cv2.IMREAD_COLOR_BGR | cv2.IMREAD_COLOR_RGB
    for reduction, flag in (
        (1, cv2.IMREAD_COLOR),
        (2, cv2.IMREAD_REDUCED_COLOR_2),
        (4, cv2.IMREAD_REDUCED_COLOR_4),
        (8, cv2.IMREAD_REDUCED_COLOR_8),
    )
}
"""RGB straight from the decoder, which spares a pass over the pixels."""


class UnreadableImageError(UserError):
    """A picture file is missing, empty, cut short, no picture, or another one than the index knows."""


def read_image(path: str | Path) -> np.ndarray:
    """Decode a picture the way a viewer shows it; the content decides the format, not the suffix.

    An EXIF orientation is applied, grey and palette pictures become RGB, 16-bit values lose their lower byte, an
    alpha channel is dropped (the colours count as they are stored).

    Returns:
        [H, W, 3] uint8, RGB.
    Raises:
        UnreadableImageError: the file cannot be read or decoded; names it.
    """
    return _decode(path, _read_bytes(path), _DECODE_FLAGS[1])


def read_working_image(path: str | Path, width_px: int, height_px: int, size_px: int) -> np.ndarray:
    """Decode a picture for augmentation, no larger than the network input: quicker to warp, small in a cache.

    A JPEG is decoded at 1/2, 1/4 or 1/8 when that still covers the network input, which also spares most of the
    decoding time. What is left above the input's size is scaled down; nothing is ever scaled up here.

    Args:
        width_px: of the original, as the index knows it.
        height_px: likewise.
        size_px: side of the network input.
    Returns:
        [h, w, 3] uint8, RGB, longer side at most ``size_px``; original pixels times (w / width_px, h / height_px)
        are pixels of it.
    Raises:
        UnreadableImageError: as ``read_image``, or the file does not have the size that the index says.
    """
    data = _read_bytes(path)
    is_jpeg = data[:3].tobytes() == _JPEG_MAGIC
    reduction = _reduction(width_px, height_px, size_px) if is_jpeg else 1
    image = _decode(path, data, _DECODE_FLAGS[reduction])
    require_size(path, image, width_px, height_px, reduction)
    target = working_size(width_px, height_px, size_px)
    if image.shape[1::-1] == target:
        return image
    # Averaging areas avoids aliasing, but costs eight times as much as linear, which is as good up to a half.
    shrink = max(target) / max(image.shape[:2])
    return cv2.resize(image, target, interpolation=cv2.INTER_AREA if shrink < 0.5 else cv2.INTER_LINEAR)


def working_size(width_px: int, height_px: int, size_px: int) -> tuple[int, int]:
    """Width and height of what ``read_working_image`` returns."""
    reduction = _reduction(width_px, height_px, size_px)
    width_px, height_px = -(-width_px // reduction), -(-height_px // reduction)
    shrink = size_px / max(width_px, height_px)
    if shrink >= 1:
        return width_px, height_px
    return max(1, round(width_px * shrink)), max(1, round(height_px * shrink))


def _reduction(width_px: int, height_px: int, size_px: int) -> int:
    """The smallest size at which a JPEG decoder still covers the network input, as a divisor."""
    return next((f for f in (8, 4, 2) if max(width_px, height_px) >= f * size_px), 1)


def require_size(path: str | Path, image: np.ndarray, width_px: int, height_px: int, reduction: int = 1) -> None:
    """Refuse a picture that is not as large as its boxes suppose.

    Args:
        image: [h, w, 3], decoded at 1/``reduction`` of the original.
        width_px: of the original, as the index knows it.
        height_px: likewise.
    Raises:
        UnreadableImageError: names the file and both sizes.
    """
    found_height_px, found_width_px = image.shape[0] * reduction, image.shape[1] * reduction
    # A reduced decoder rounds a side up, so the original is known to within the reduction.
    if not (0 <= found_width_px - width_px < reduction and 0 <= found_height_px - height_px < reduction):
        raise UnreadableImageError(
            f"picture {printable(str(path))} is {found_width_px} x {found_height_px} px, "
            f"but the data set says {width_px} x {height_px} px; was it changed?"
        )


def letterbox_size(width_px: int, height_px: int, size_px: int) -> tuple[int, int]:
    """Width and height of a picture that is scaled to fit a square.

    Source: the preprocessing of YOLOX (Ge et al. 2021, arXiv:2107.08430), whose rounding is kept because published
        weights were measured with it.
    """
    scale = min(size_px / height_px, size_px / width_px)
    return max(1, int(width_px * scale)), max(1, int(height_px * scale))


def letterbox(image: np.ndarray, size_px: int, shape_px: tuple[int, int] | None = None) -> tuple[np.ndarray, Letterbox]:
    """Scale a picture to fit a square and lay it at the top left, the rest grey.

    Args:
        image: [H, W, 3] uint8.
        size_px: side of the square.
        shape_px: height and width of the result, where it is only the square's top left part; holds the scaled picture.
    Returns:
        [size_px, size_px, 3] uint8, or of that shape, and how the original lies in it.
    """
    height_px, width_px = image.shape[:2]
    scaled_width_px, scaled_height_px = letterbox_size(width_px, height_px, size_px)
    canvas = np.full((*(shape_px or (size_px, size_px)), 3), PAD_VALUE, dtype=np.uint8)
    canvas[:scaled_height_px, :scaled_width_px] = cv2.resize(
        image, (scaled_width_px, scaled_height_px), interpolation=cv2.INTER_LINEAR
    )
    scale = min(size_px / height_px, size_px / width_px)
    return canvas, Letterbox(scale=scale, pad_left_px=0, pad_top_px=0, width_px=width_px, height_px=height_px)


def to_channels_first(image: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """[H, W, 3] uint8 -> [3, H, W] uint8 (OpenCV's split takes a sixth of numpy's transpose and copy).

    Args:
        image: the picture.
        out: takes the result; new memory, contiguous, by default.
    """
    planes = np.empty((3, *image.shape[:2]), dtype=np.uint8) if out is None else out
    cv2.split(image, list(planes))
    return planes


def to_channels_last(planes: np.ndarray) -> np.ndarray:
    """[3, H, W] uint8 -> [H, W, 3] uint8, contiguous."""
    return cv2.merge(list(planes))


class ImageCache:
    """Decoded pictures of one process, the least recently used leaving first.

    Args:
        limit_mib: memory of the pictures; one larger than that is never kept.
    """

    def __init__(self, limit_mib: float) -> None:
        self.limit_mib = limit_mib
        self._images: OrderedDict[Hashable, np.ndarray] = OrderedDict()
        self._num_bytes = 0

    def __reduce__(self) -> tuple[type[ImageCache], tuple[float]]:
        return ImageCache, (self.limit_mib,)  # a spawned worker starts empty

    def __len__(self) -> int:
        return len(self._images)

    @property
    def size_mib(self) -> float:
        return self._num_bytes / 2**20

    def get(self, key: Hashable, load: Callable[[], np.ndarray]) -> np.ndarray:
        """The picture of ``key``, from ``load`` when it is not here. It is shared: nobody may write into it."""
        image = self._images.get(key)
        if image is not None:
            self._images.move_to_end(key)
            return image
        image = load()
        self._images[key] = image
        self._num_bytes += image.nbytes
        while self.size_mib > self.limit_mib:
            _, oldest = self._images.popitem(last=False)
            self._num_bytes -= oldest.nbytes
        return image


def _read_bytes(path: str | Path) -> np.ndarray:
    """[n] uint8, n at least 1. Reading here and not in OpenCV keeps file names of any script possible."""
    try:
        data = np.fromfile(path, dtype=np.uint8)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnreadableImageError(f"picture {printable(str(path))} cannot be read: {reason}") from error
    if not data.size:
        raise UnreadableImageError(f"picture {printable(str(path))} is empty (0 bytes)")
    return data


def _decode(path: str | Path, data: np.ndarray, flags: int) -> np.ndarray:
    # From memory and not from the file: imread would return the grey rest of a JPEG that was cut short.
    try:
        image = cv2.imdecode(data, flags)
    except cv2.error as error:
        raise UnreadableImageError(
            f"picture {printable(str(path))} cannot be decoded: OpenCV refuses it ({error.err}); "
            "is it damaged or larger than 2^30 pixels?"
        ) from error
    if image is None:
        raise UnreadableImageError(
            f"picture {printable(str(path))} cannot be decoded: "
            "it is damaged, cut short or in no format that OpenCV reads"
        )
    return image
