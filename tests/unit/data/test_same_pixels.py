"""Pictures of every kind give the same pixels wherever they are used."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from yolo_accum.config.schema import AugmentConfig, DataConfig
from yolo_accum.contracts import SampleKey
from yolo_accum.data.dataset import EvalDataset, TrainDataset
from yolo_accum.data.description import open_data
from yolo_accum.data.images import read_image
from yolo_accum.data.picture_size import read_picture_size

WIDTH_PX, HEIGHT_PX = 64, 48
OFF = AugmentConfig(
    mosaic=0, mixup=0, scale=0, translate=0, fliplr=0, hsv_h=0, hsv_s=0, hsv_v=0, close_mosaic=0, photometric=0
)


def scene() -> np.ndarray:
    """[48, 64, 3] RGB: a gradient with a red block, which no codec gets far wrong."""
    x, y = np.meshgrid(np.linspace(40, 200, WIDTH_PX), np.linspace(40, 200, HEIGHT_PX))
    image = np.stack([x, y, 240 - x], axis=-1).astype(np.uint8)
    image[10:30, 8:40] = (210, 30, 40)
    return image


def write(folder: Path, kind: str) -> Path:
    """The scene as a file of one kind."""
    picture = Image.fromarray(scene())
    path = folder / f"{kind.replace('_', ' ')} é.{kind.partition('_')[0]}"
    if kind == "png_grey":
        picture.convert("L").save(path)
    elif kind == "png_16bit":
        cv2.imencode(".png", scene()[..., ::-1].astype(np.uint16) * 257)[1].tofile(path)
    elif kind == "png_palette":
        picture.quantize(64).save(path)
    elif kind == "png_alpha":
        picture.putalpha(Image.linear_gradient("L").resize(picture.size))
        picture.save(path)
    elif kind == "jpg_cmyk":
        picture.convert("CMYK").save(path, quality=97)
    elif kind == "jpg_turned":
        exif = Image.Exif()
        exif[0x0112] = 6
        picture.transpose(Image.Transpose.ROTATE_90).save(path, quality=97, exif=exif)  # shown upright again
    elif kind == "jpg_really_png":
        picture.save(path, format="PNG")
    elif kind == "webp":
        picture.save(path, lossless=True)
    else:
        picture.save(path)
    return path


KINDS = (
    "jpg png bmp webp tif png_grey png_16bit png_palette png_alpha jpg_cmyk jpg_turned jpg_really_png".split()  # noqa: SIM905
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_the_same_everywhere(tmp_path: Path, kind: str) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "labels").mkdir()
    path = write(tmp_path / "images", kind)
    (tmp_path / "labels" / path.name).with_suffix(".txt").write_text("0 0.375 0.416667 0.5 0.416667\n")
    (tmp_path / "data.yaml").write_text("train: images\nval: images\nnames: [block]\n")

    index = open_data(DataConfig(data=str(tmp_path / "data.yaml"))).train
    shown = read_image(path)
    evaluated = EvalDataset(index, WIDTH_PX)[0]
    trained = TrainDataset(index, OFF, seed=0, num_epochs=2)[SampleKey(0, 0, WIDTH_PX)]

    assert read_picture_size(path)[:2] == (WIDTH_PX, HEIGHT_PX) == shown.shape[1::-1]
    expected = (
        scene() if kind != "png_grey" else cv2.cvtColor(cv2.cvtColor(scene(), cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    )
    assert np.abs(shown.astype(int) - expected).mean() < 8  # CMYK and palettes change colours a little
    for sample in (evaluated, trained):
        assert sample.problems == ()
        assert np.array_equal(sample.image[:, :HEIGHT_PX].transpose(1, 2, 0), shown)
        assert sample.boxes_xyxy_px.round(2).tolist() == [[8, 10, 40, 30]]


@pytest.mark.parametrize(("width_px", "height_px"), [(1, 1), (30_000, 500), (500, 30_000)])
def test_the_smallest_and_the_longest(tmp_path: Path, width_px: int, height_px: int) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "labels").mkdir()
    path = tmp_path / "images" / "a.png"
    Image.new("RGB", (width_px, height_px), (200, 30, 30)).save(path)
    (tmp_path / "labels" / "a.txt").write_text("0 0.5 0.5 1 1\n")
    (tmp_path / "data.yaml").write_text("train: images\nnames: [block]\n")

    index = open_data(DataConfig(data=str(tmp_path / "data.yaml"))).train

    assert index.boxes_xyxy_px.tolist() == [[0, 0, width_px, height_px]]
    for sample in (EvalDataset(index, 64)[0], TrainDataset(index, OFF, seed=0, num_epochs=2)[SampleKey(0, 0, 64)]):
        assert sample.image.shape == (3, 64, 64) and sample.problems == ()
        assert np.abs(sample.image[:, 0, 0].astype(int) - (200, 30, 30)).max() <= 2
