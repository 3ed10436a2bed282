"""Sizes from headers agree with what OpenCV decodes."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from yolo_accum.data.images import UnreadableImageError, read_image
from yolo_accum.data.picture_size import PictureSize, read_picture_size, read_picture_sizes

WIDTH_PX, HEIGHT_PX = 60, 40


def _encoded(suffix: str, *options: int) -> bytes:
    image = np.random.default_rng(0).integers(0, 255, (HEIGHT_PX, WIDTH_PX, 3), np.uint8)
    return cv2.imencode(suffix, image, options)[1].tobytes()


def _exif(orientation: int, order: str = "<") -> bytes:
    """A TIFF block with an unrelated tag before the orientation."""
    entries = struct.pack(f"{order}HHIHH", 0x0100, 3, 1, 6, 0) + struct.pack(
        f"{order}HHIHH", 0x0112, 3, 1, orientation, 0
    )
    return (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}IH", 8, 2) + entries + bytes(4)


def _jpeg_with(exif: bytes, before: bytes = b"") -> bytes:
    jpeg, body = _encoded(".jpg"), b"Exif\0\0" + exif
    return jpeg[:2] + before + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + jpeg[2:]


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _size(folder: Path, data: bytes) -> PictureSize:
    """The size from the header, once it is known to be what decoding gives."""
    path = folder / "picture"
    path.write_bytes(data)
    size = read_picture_size(path)
    decoded = read_image(path)
    assert size[:2] == (decoded.shape[1], decoded.shape[0])
    return size


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".webp", ".tif", ".ppm"])
def test_formats(tmp_path: Path, suffix: str) -> None:
    assert _size(tmp_path, _encoded(suffix))[:3] == (WIDTH_PX, HEIGHT_PX, 1)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize("shape", [(40, 60), (40, 60, 3)])
def test_bits_of_a_channel(tmp_path: Path, suffix: str, shape: tuple[int, ...]) -> None:
    for kind, bits in ((np.uint8, 8), (np.uint16, 16)):
        size = _size(tmp_path, cv2.imencode(suffix, np.zeros(shape, kind))[1].tobytes())
        assert size == (60, 40, 1, bits)


def test_progressive_jpeg(tmp_path: Path) -> None:
    assert _size(tmp_path, _encoded(".jpg", cv2.IMWRITE_JPEG_PROGRESSIVE, 1))[:3] == (WIDTH_PX, HEIGHT_PX, 1)


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("order", ["<", ">"])
def test_exif_turns(tmp_path: Path, orientation: int, order: str) -> None:
    size = _size(tmp_path, _jpeg_with(_exif(orientation, order)))
    is_turned = orientation in (5, 6, 7, 8)
    assert size[:2] == ((HEIGHT_PX, WIDTH_PX) if is_turned else (WIDTH_PX, HEIGHT_PX))
    assert size.is_turned == is_turned


@pytest.mark.parametrize("before", [b"IDAT", b"IEND"])
def test_exif_turns_in_png(tmp_path: Path, before: bytes) -> None:
    png = _encoded(".png")
    place = png.index(before) - 4
    assert _size(tmp_path, png[:place] + _chunk(b"eXIf", _exif(6)) + png[place:])[:3] == (HEIGHT_PX, WIDTH_PX, 6)


def test_a_size_far_behind_large_metadata_is_found(tmp_path: Path) -> None:
    comments = (b"\xff\xfe" + struct.pack(">H", 65535) + bytes(65533)) * 3
    assert _size(tmp_path, _jpeg_with(_exif(8), comments))[:3] == (HEIGHT_PX, WIDTH_PX, 8)


def test_bytes_after_the_end_do_no_harm(tmp_path: Path) -> None:
    assert _size(tmp_path, _encoded(".jpg") + bytes(100))[:3] == (WIDTH_PX, HEIGHT_PX, 1)
    assert _size(tmp_path, _encoded(".png") + bytes(100))[:3] == (WIDTH_PX, HEIGHT_PX, 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>not found</html>",
        _encoded(".jpg")[:-200],
        _encoded(".png")[:-20],
        b"\xff\xd8",
        b"\xff\xd8\xff\xd9",
        b"\x89PNG\r\n\x1a\n",
    ],
    ids=["empty", "page", "cut jpeg", "cut png", "start of jpeg", "no frame", "start of png"],
)
def test_files_that_are_no_whole_picture_are_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "odd.jpg"
    path.write_bytes(data)
    with pytest.raises(UnreadableImageError, match=r"odd\.jpg"):
        read_picture_size(path)


def test_a_size_beyond_what_opencv_decodes_is_refused_from_the_header(tmp_path: Path) -> None:
    path = tmp_path / "huge.png"
    header = struct.pack(">IIBBBBB", 40000, 40000, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", b"") + _chunk(b"IEND", b""))
    with pytest.raises(UnreadableImageError, match=r"huge\.png claims to have 40000 x 40000 px"):
        read_picture_size(path)


def test_many_are_read_in_order_with_errors_in_their_places(tmp_path: Path) -> None:
    paths = []
    for number in range(200):
        path = tmp_path / f"{number}.png"
        if number % 50:
            path.write_bytes(cv2.imencode(".png", np.zeros((7, number, 3), np.uint8))[1].tobytes())
        paths.append(str(path))
    for number, size in enumerate(read_picture_sizes(paths)):
        if number % 50:
            assert size[:3] == (number, 7, 1)
        else:
            assert isinstance(size, UnreadableImageError) and f"{number}.png" in str(size)


@pytest.mark.real
def test_real_pictures(real_data: Path) -> None:
    pictures = sorted((real_data / "data").glob("*/images/*.jpg"))[::10]
    assert len(pictures) > 30
    for picture in pictures:
        height_px, width_px = read_image(picture).shape[:2]
        assert read_picture_size(picture)[:2] == (width_px, height_px)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(UnreadableImageError, match=r"pipe\.png cannot be read: it is no regular file"):
        read_picture_size(tmp_path / "pipe.png")
