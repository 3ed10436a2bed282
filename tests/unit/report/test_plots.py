"""Every picture can be drawn of every run, without a warning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from run_of_records import epoch_record, update_record
from small_index import make_detections, make_index, perfect_detections

from yolo_accum.contracts import Batch
from yolo_accum.errors import UserError
from yolo_accum.report.plots import plot_batches, plot_labels, plot_results, plot_val_predictions
from yolo_accum.report.records import CsvRecords

pytestmark = pytest.mark.filterwarnings("error")


def check_picture(path: Path) -> np.ndarray:
    """Pixels of a picture that is no blank page; nothing else was left in its folder under a name of its own."""
    image = cv2.imread(str(path))
    assert image is not None and image.std() > 1
    assert not list(path.parent.glob("*.part"))
    return image


@pytest.mark.parametrize(("updates", "epochs", "metrics"), [(60, 15, True), (1, 1, True), (6, 1, False)])
def test_results(tmp_path: Path, updates: int, epochs: int, metrics: bool) -> None:
    records = CsvRecords(tmp_path)
    for number in range(1, updates + 1):
        records.on_update(update_record(number))
    for number in range(epochs):
        record = epoch_record(number)
        records.on_epoch(record if metrics else replace(record, metrics={}))
    path = plot_results(tmp_path)
    assert path == tmp_path / "results.png"
    check_picture(path)


def test_results_before_the_first_update(tmp_path: Path) -> None:
    check_picture(plot_results(tmp_path))


def test_results_of_updates_that_were_all_refused(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("box", "obj", "cls"), float("nan"))
    record = replace(update_record(1), losses=nothing, grad_norm=float("inf"), applied=False)
    CsvRecords(tmp_path).on_update(record)
    check_picture(plot_results(tmp_path))


def test_labels_of_many_classes(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    corners = draw.uniform(0, 400, (60, 9, 2))
    boxes = np.concatenate([corners, corners + draw.gamma(2, 20, (60, 9, 2)) + 1], axis=2)
    objects = [[(int(draw.integers(79)), tuple(box)) for box in image] for image in boxes]
    names = ["$\\frac{", "名" * 40, *(f"class {label}" for label in range(78))]
    index = make_index([*objects, []], num_classes=80, class_names=names)
    check_picture(plot_labels(index, tmp_path / "labels.png", 320))


@pytest.mark.parametrize("objects", [[[], []], [[(0, (5.0, 5.0, 6.0, 6.0))]]])
def test_labels_of_next_to_nothing(tmp_path: Path, objects: list) -> None:
    check_picture(plot_labels(make_index(objects), tmp_path / "labels.png", 640))


def batch_of(num_images: int, boxes: list[list[float]], image_of_box: list[int]) -> Batch:
    return Batch(
        images=torch.full((num_images, 3, 96, 96), 200, dtype=torch.uint8),
        boxes_xyxy_px=torch.tensor(boxes).reshape(-1, 4),
        labels=torch.zeros(len(boxes), dtype=torch.int64),
        sample_of_box=torch.tensor(image_of_box, dtype=torch.int64),
        image_indices=torch.arange(num_images),
    )


def test_first_batches(tmp_path: Path) -> None:
    batches = [batch_of(2, [[10, 10, 90, 90], [20, 40, 60, 80]], [1, 1]), batch_of(17, [], [])]
    image = check_picture(plot_batches(batches, ["thing"], tmp_path / "train_batch.png"))
    assert image.shape[1] == pytest.approx(4 * 4 * 120, abs=2), "16 pictures in 4 columns"


def test_predictions_beside_the_truth(tmp_path: Path) -> None:
    index = make_index([[(0, (50, 50, 200, 200))]] * 9 + [[]], crowd=[[False]] * 8 + [[True], []])
    asked: list[str] = []

    def read(path: str) -> np.ndarray:
        asked.append(path)
        if path == "/pictures/8.jpg":
            raise UserError(f"{path}: cannot be read")
        return np.full((480, 640, 3), 90, dtype=np.uint8)

    found = [*perfect_detections(index)[:4], make_detections(5, [(1, 0.2, (0, 0, 9, 9))])]
    check_picture(plot_val_predictions(index, found, tmp_path / "val.png", read))
    assert asked[0] == "/pictures/0.jpg" and asked[-1] == "/pictures/8.jpg" and len(set(asked)) == 8


def test_predictions_of_pictures_without_objects(tmp_path: Path) -> None:
    def read(path: str) -> np.ndarray:
        return np.zeros((480, 640, 3), dtype=np.uint8)

    check_picture(plot_val_predictions(make_index([[]]), [], tmp_path / "val.png", read))


def test_a_picture_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"absent.labels\.png"):
        plot_labels(make_index([[]]), tmp_path / "absent" / "labels.png", 640)
