"""Pictures from files of every kind that people have, and of the kinds that they have by accident."""

from __future__ import annotations

import pickle
import struct
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from yolo_accum.contracts import PAD_VALUE
from yolo_accum.data.images import (
    ImageCache,
    UnreadableImageError,
    letterbox,
    read_image,
    read_working_image,
    require_size,
    to_channels_first,
)
from yolo_accum.errors import UserError

RED_LEFT = np.zeros((20, 30, 3), dtype=np.uint8)
RED_LEFT[:, :10] = (200, 0, 0)
RED_LEFT[:5] = (0, 0, 90)


def write(path: Path, pixels: np.ndarray, parameters: tuple[int, ...] = ()) -> Path:
    """Encode pixels (RGB, RGBA or grey) by the suffix."""
    code = {2: None, 3: cv2.COLOR_RGB2BGR, 4: cv2.COLOR_RGBA2BGRA}[pixels.shape[2] if pixels.ndim == 3 else 2]
    _, encoded = cv2.imencode(path.suffix, pixels if code is None else cv2.cvtColor(pixels, code), parameters)
    path.write_bytes(encoded.tobytes())
    return path


def smooth_picture(width_px: int, height_px: int) -> np.ndarray:
    """A colour gradient, which JPEG keeps nearly as it is."""
    x, y = np.meshgrid(np.linspace(0, 255, width_px), np.linspace(0, 255, height_px))
    return np.stack([x, y, 255 - x], axis=-1).astype(np.uint8)


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".ppm"])
def test_lossless_formats_give_rgb(tmp_path: Path, suffix: str) -> None:
    assert np.array_equal(read_image(write(tmp_path / f"a{suffix}", RED_LEFT)), RED_LEFT)


def test_jpeg_gives_rgb(tmp_path: Path) -> None:
    picture = smooth_picture(64, 48)
    assert abs(read_image(write(tmp_path / "a.jpg", picture)).astype(int) - picture).max() < 16


def test_grey_is_repeated(tmp_path: Path) -> None:
    grey = np.arange(120, dtype=np.uint8).reshape(10, 12)
    assert np.array_equal(read_image(write(tmp_path / "a.png", grey)), np.dstack([grey] * 3))


def test_alpha_is_dropped(tmp_path: Path) -> None:
    alpha = np.full(RED_LEFT.shape[:2], 255, dtype=np.uint8)
    alpha[:, :15] = 0
    assert np.array_equal(read_image(write(tmp_path / "a.png", np.dstack([RED_LEFT, alpha]))), RED_LEFT)


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_sixteen_bit_loses_the_lower_byte(tmp_path: Path, suffix: str) -> None:
    values = np.array([[0, 255, 256, 8000, 60000, 65535]] * 4, dtype=np.uint16)
    image = read_image(write(tmp_path / f"a{suffix}", values))
    assert image.dtype == np.uint8
    # 8000 / 256 = 31.25, 60000 / 256 = 234.4; a codec may divide by 257 and round instead.
    assert abs(image[0, :, 0].astype(int) - [0, 0, 1, 31, 234, 255]).max() <= 1


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def test_palette_becomes_rgb(tmp_path: Path) -> None:
    rows = b"".join(b"\0" + bytes([0, 1, 1]) for _ in range(2))
    parts = [
        png_chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 8, 3, 0, 0, 0)),
        png_chunk(b"PLTE", bytes([10, 20, 30, 200, 100, 50])),
        png_chunk(b"IDAT", zlib.compress(rows)),
        png_chunk(b"IEND", b""),
    ]
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    assert read_image(tmp_path / "a.png").tolist() == [[[10, 20, 30], [200, 100, 50], [200, 100, 50]]] * 2


def add_exif_orientation(jpeg: bytes, orientation: int) -> bytes:
    """A JPEG with an orientation tag right after its start marker."""
    entry = struct.pack("<HHIHH", 0x0112, 3, 1, orientation, 0)
    tiff = b"II*\0" + struct.pack("<IH", 8, 1) + entry + struct.pack("<I", 0)
    body = b"Exif\0\0" + tiff
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + jpeg[2:]


@pytest.mark.parametrize(("orientation", "quarter_turns_left"), [(1, 0), (3, 2), (6, 3), (8, 1)])
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int, quarter_turns_left: int) -> None:
    stored = write(tmp_path / "a.jpg", smooth_picture(64, 48))
    turned = tmp_path / "turned.jpg"
    turned.write_bytes(add_exif_orientation(stored.read_bytes(), orientation))
    expected = np.rot90(read_image(stored), quarter_turns_left)
    assert np.array_equal(read_image(turned), expected)
    height_px, width_px = expected.shape[:2]
    half = read_working_image(turned, width_px, height_px, 32)
    assert max(half.shape[:2]) == 32
    assert abs(half.astype(int) - cv2.resize(np.ascontiguousarray(expected), half.shape[1::-1])).max() < 20


def test_content_decides_the_format(tmp_path: Path) -> None:
    png = write(tmp_path / "a.png", RED_LEFT)
    (tmp_path / "b.jpg").write_bytes(png.read_bytes())
    assert np.array_equal(read_image(tmp_path / "b.jpg"), RED_LEFT)


@pytest.mark.parametrize("name", ["изображение 画像 é.png", "a b%20c#.png"])
def test_any_file_name_works(tmp_path: Path, name: str) -> None:
    assert np.array_equal(read_image(write(tmp_path / name, RED_LEFT)), RED_LEFT)


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
@pytest.mark.parametrize("share", [0.05, 0.6, 0.95])
@pytest.mark.parametrize("reader", [read_image, lambda path: read_working_image(path, 200, 160, 50)])
def test_a_file_that_is_cut_short_is_refused_and_left_alone(tmp_path: Path, suffix, share, reader) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (160, 200, 3), dtype=np.uint8)
    path = write(tmp_path / f"cut{suffix}", noise)
    data = path.read_bytes()[: int(path.stat().st_size * share)]
    path.write_bytes(data)
    with pytest.raises(UnreadableImageError, match=f"cut{suffix}"):
        reader(path)
    assert path.read_bytes() == data


def test_other_unreadable_files_are_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "page.jpg").write_text("<!DOCTYPE html><html></html>")
    (tmp_path / "empty.png").touch()
    (tmp_path / "folder.png").mkdir()
    for name, reason in {
        "page.jpg": "no format",
        "empty.png": "0 bytes",
        "folder.png": "directory",
        "absent.png": "No such file",
        "nul\0.png": "null",
    }.items():
        with pytest.raises(UserError, match=reason) as caught:
            read_image(tmp_path / name)
        assert name in str(caught.value)


def test_a_header_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 40000, 40000, 8, 2, 0, 0, 0))
    data = png_chunk(b"IDAT", zlib.compress(b"\0" * 100)) + png_chunk(b"IEND", b"")
    (tmp_path / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + data)
    with pytest.raises(UnreadableImageError, match=r"bomb\.png.*larger than"):
        read_image(tmp_path / "bomb.png")


def test_a_name_that_is_no_text_can_be_printed(tmp_path: Path) -> None:
    with pytest.raises(UnreadableImageError) as caught:
        read_image(tmp_path / "bad\udcff.png")
    assert str(caught.value).encode()


@pytest.mark.parametrize(
    ("size_px", "expected_wh"),
    [(400, (301, 203)), (301, (301, 203)), (200, (200, 135)), (150, (150, 101)), (60, (60, 40)), (32, (32, 22))],
)
@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_a_working_image_is_never_larger_than_the_input(tmp_path: Path, suffix, size_px, expected_wh) -> None:
    """301 x 203: odd sides, which a JPEG decoder that halves rounds up. 203 * 200 / 301 = 134.9 and so on."""
    picture = smooth_picture(301, 203)
    image = read_working_image(write(tmp_path / f"a{suffix}", picture), 301, 203, size_px)
    assert abs(np.subtract(image.shape[1::-1], expected_wh)).max() <= 1
    assert max(image.shape) <= size_px
    exact = cv2.resize(picture, image.shape[1::-1], interpolation=cv2.INTER_AREA)
    # Half a pixel at the far edge is a level of 255 / 64 on the shortest side; the rest is JPEG.
    assert abs(image.astype(int) - exact).mean() < 6


def test_a_very_long_picture_keeps_a_pixel(tmp_path: Path) -> None:
    path = write(tmp_path / "a.png", np.zeros((1, 900, 3), dtype=np.uint8))
    assert read_working_image(path, 900, 1, 64).shape == (1, 64, 3)


@pytest.mark.parametrize("said", [(300, 203), (203, 301), (303, 203), (301, 206)])
@pytest.mark.parametrize("size_px", [400, 140, 30])
def test_another_size_than_the_index_says_is_refused(tmp_path: Path, said: tuple[int, int], size_px: int) -> None:
    path = write(tmp_path / "a.png", smooth_picture(301, 203))
    with pytest.raises(UnreadableImageError, match=rf"a\.png is 301 x 203 px.*{said[0]} x {said[1]} px"):
        read_working_image(path, *said, size_px)


def test_require_size_knows_a_reduced_picture_within_its_rounding() -> None:
    half = np.zeros((102, 151, 3), dtype=np.uint8)
    for width_px, height_px in [(301, 203), (302, 204)]:
        require_size("a.jpg", half, width_px, height_px, reduction=2)
    for width_px, height_px in [(303, 203), (300, 203), (301, 202)]:
        with pytest.raises(UnreadableImageError):
            require_size("a.jpg", half, width_px, height_px, reduction=2)


def test_letterbox_lies_at_the_top_left() -> None:
    """96 x 50 into 64: scale 2/3, 50 * 2/3 = 33.3 is cut to 33 rows."""
    canvas, geometry = letterbox(np.full((50, 96, 3), 7, dtype=np.uint8), 64)
    assert canvas.shape == (64, 64, 3)
    assert (canvas[:33] == 7).all()
    assert (canvas[33:] == PAD_VALUE).all()
    assert geometry.scale == pytest.approx(2 / 3)
    assert (geometry.pad_left_px, geometry.pad_top_px) == (0, 0)
    assert (geometry.width_px, geometry.height_px) == (96, 50)


def test_letterbox_leaves_a_picture_that_fits_and_enlarges_a_small_one() -> None:
    canvas, geometry = letterbox(RED_LEFT, 30)
    assert geometry.scale == 1
    assert np.array_equal(canvas[:20], RED_LEFT)
    assert letterbox(RED_LEFT, 60)[1].scale == 2


def test_letterbox_of_a_hair_keeps_a_row() -> None:
    canvas, _ = letterbox(np.zeros((1, 1000, 3), dtype=np.uint8), 64)
    assert (canvas[0] == 0).all()
    assert (canvas[1:] == PAD_VALUE).all()


def test_channels_first() -> None:
    planes = to_channels_first(RED_LEFT)
    assert planes.flags.c_contiguous
    assert np.array_equal(planes, RED_LEFT.transpose(2, 0, 1))


def test_the_cache_keeps_what_was_used_last_within_its_limit() -> None:
    loads: list[str] = []

    def get(cache: ImageCache, name: str) -> np.ndarray:
        def load() -> np.ndarray:
            loads.append(name)
            return np.zeros((512, 512), dtype=np.uint8)  # a quarter of a MiB

        return cache.get(name, load)

    cache = ImageCache(0.75)
    for name in "abcadae":
        get(cache, name)
    # d pushes b out (a was used later), e pushes c out.
    assert "".join(loads) == "abcde"
    assert len(cache) == 3
    assert cache.size_mib == 0.75
    get(cache, "c")
    assert loads[-1] == "c"


def test_a_picture_above_the_limit_is_not_kept() -> None:
    cache = ImageCache(0.1)
    assert cache.get("a", lambda: np.zeros((512, 512), dtype=np.uint8)).shape == (512, 512)
    assert len(cache) == 0
    assert cache.size_mib == 0


def test_a_pickled_cache_starts_empty() -> None:
    cache = ImageCache(5)
    cache.get("a", lambda: np.zeros(8, dtype=np.uint8))
    copy = pickle.loads(pickle.dumps(cache))
    assert len(copy) == 0
    assert copy.limit_mib == 5


@pytest.mark.real
def test_letterbox_is_the_public_one_bit_for_bit(real_data: Path) -> None:
    """The network inputs that public YOLOX values were computed with, and the pictures they were made from."""
    reference = np.load(real_data / "weights/yolox_nano_ref.npz")
    cases = [("cocoval/images/000000000139.jpg", reference["image"])]
    batch = np.load(real_data / "weights/ref/yolox_loss.npz")["images_bgr_uint8"]
    for image_id, planes in zip((9, 25, 30, 34), batch, strict=True):
        cases.append((f"coco128/images/{image_id:012d}.jpg", planes.transpose(1, 2, 0)))
    for name, bgr in cases:
        canvas, _ = letterbox(read_image(real_data / "data" / name), 416)
        assert np.array_equal(canvas, bgr[..., ::-1])
