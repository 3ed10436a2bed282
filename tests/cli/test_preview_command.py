"""`yolo-accum preview` shows the very pixels that a training gets."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from small_data import write_data

from yolo_accum.cli.main import main
from yolo_accum.cli.training.build import build_training
from yolo_accum.config.arguments import parse_train
from yolo_accum.data.description import open_data

RUN = [
    *("--imgsz", "64", "--batch", "3", "--nbs", "6", "--epochs", "4", "--warmup-epochs", "0", "--close-mosaic", "1"),
    *("--mixup", "0.5", "--degrees", "15", "--photometric", "0.3", "--seed", "7", "--workers", "0", "--device", "cpu"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def preview(capsys: pytest.CaptureFixture[str], data: Path, folder: Path, *words: str) -> dict[str, Any]:
    """The result of a preview with ``--json``."""
    assert main(["preview", "--data", str(data), *RUN, "--json", "--project", str(folder), *words]) == 0
    return json.loads(capsys.readouterr().out)


def pixels(picture: dict[str, Any]) -> np.ndarray:
    """[3, H, W] uint8 RGB of a picture that was written."""
    return cv2.imread(picture["file"])[..., ::-1].transpose(2, 0, 1)


@pytest.mark.parametrize("epoch", [0, 3])
def test_pixels_and_boxes_are_those_of_the_training_loader(
    epoch: int, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = preview(capsys, data, tmp_path, "--epoch", str(epoch))

    config = parse_train(["--data", str(data), *RUN]).config
    training = build_training(config, open_data(config.data).train)
    batches = itertools.dropwhile(lambda batch: batch.epoch < epoch, training.batches())
    shown = iter(result["pictures"])
    for batch in itertools.islice(batches, 2):
        for place in range(batch.num_images):
            picture = next(shown)
            own = batch.sample_of_box == place
            np.testing.assert_array_equal(pixels(picture), batch.images[place].numpy())
            boxes = np.array([box["xyxy_px"] for box in picture["boxes"]]).reshape(-1, 4)
            np.testing.assert_allclose(boxes, batch.boxes_xyxy_px[own].numpy(), atol=1e-3)
            assert picture["image"] == training.index.image_paths[int(batch.image_indices[place])]
    assert next(shown, None) is None


def test_one_picture_is_made_again_from_what_was_written(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = preview(capsys, data, tmp_path, "--epoch", "1")
    wanted = first["pictures"][4]

    again = preview(capsys, data, tmp_path, "--epoch", str(wanted["epoch"]), "--position", str(wanted["position"]))

    [picture] = again["pictures"]
    assert {**picture, "file": ""} == {**wanted, "file": ""} and picture["seed"] == 7
    np.testing.assert_array_equal(pixels(picture), pixels(wanted))
    assert first["run"] != again["run"]


def test_sheets_and_json_are_written(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = preview(capsys, data, tmp_path, "--batches", "7")

    assert len(result["files"]["sheets"]) == -(-len(result["pictures"]) // 16) >= 1
    assert all(Path(sheet).read_bytes()[:4] == b"\x89PNG" for sheet in result["files"]["sheets"])
    assert json.loads(Path(result["files"]["preview"]).read_text()) == result
    assert [item["position"] for item in result["pictures"]] == list(range(len(result["pictures"])))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--epoch", "4"], "--epoch 4: the run has 4 epochs, 0 to 3"),
        (["--position", "999"], "--position 999: an epoch has"),
        (["--batch", "auto"], "--batch auto is chosen by a training"),
        (["--batches", "0"], "--batches 0:"),
    ],
)
def test_what_the_run_does_not_have_is_refused(
    words: list[str], sentence: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preview", "--data", str(data), *RUN, *words, "--project", str(tmp_path / "runs")]) == 2

    assert sentence in capsys.readouterr().err and not (tmp_path / "runs").exists()


def test_what_the_tail_drops_is_not_shown(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 11 pictures in micro-batches of 5, 5 and 1, two of them a window: the last one stays open.
    words = ["--batch", "5", "--nbs", "10", "--tail", "drop", "--project", str(tmp_path)]

    assert main(["preview", "--data", str(data), *RUN, *words, "--position", "10"]) == 2
    assert "position 10 of epoch 0 is not trained on: --tail drop drops it" in capsys.readouterr().err
    assert main(["preview", "--data", str(data), *RUN, *words, "--position", "9"]) == 0
