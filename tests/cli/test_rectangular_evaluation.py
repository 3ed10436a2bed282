"""`val --rect` against `val`: every picture once, in the order of the data set, at the same places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from picture_index import random_pictures, write_picture_index

from yolo_accum.cli.evaluation import SplitEvaluator
from yolo_accum.cli.main import main
from yolo_accum.config.schema import EvalConfig
from yolo_accum.model.build import build_model


def test_every_picture_is_counted_once_and_results_keep_their_order(tmp_path: Path) -> None:
    index = write_picture_index(tmp_path, random_pictures(11))
    model = build_model("yolox_nano", 4)
    told: list[str] = []
    shapes = []
    model.register_forward_pre_hook(lambda module, inputs: shapes.append(tuple(inputs[0].shape[2:])))
    evaluator = SplitEvaluator(
        index,
        size_px=160,
        batch=3,
        workers=0,
        config=EvalConfig(rect=True, conf=0.0),
        device=torch.device("cpu"),
        channels_last=False,
        warn=told.append,
    )
    evaluation = evaluator(model)
    assert [item.image_index for item in evaluation.detections] == list(range(11))
    assert evaluation.metrics.num_images == 11 and not told
    assert len(shapes) == 4 and len(set(shapes)) > 1
    assert all(side % 32 == 0 and side <= 160 for shape in shapes for side in shape)
    for item in evaluation.detections:
        size = (index.widths_px[item.image_index], index.heights_px[item.image_index])
        assert (item.boxes_xyxy_px >= 0).all() and (item.boxes_xyxy_px <= np.tile(size, 2)).all()


@pytest.mark.real
@pytest.mark.slow
def test_public_weights_find_the_same_objects_at_the_same_places(
    real_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """AP within 0.001; of the sure detections 98 % come again with an IoU of at least 0.9 and a score within 0.1."""
    data = real_data / "data" / "cocoval" / "val.json"
    weights = real_data / "weights" / "yolox_nano_coco_calibrated.pth"
    words = ["val", "--weights", weights, "--data", data, "--imgsz", "416", "--project", tmp_path, "--threads", "1"]

    def result(*more: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        capsys.readouterr()
        assert main([*map(str, words), "--no-plots", "--json", *more]) == 0
        found = json.loads(capsys.readouterr().out)
        return found, json.loads(Path(found["files"]["predictions"]).read_text())

    square, square_predictions = result()
    rect, rect_predictions = result("--rect")
    assert rect["AP"] == pytest.approx(0.332, abs=0.003) and rect["AP"] == pytest.approx(square["AP"], abs=0.001)
    assert rect["images"] == square["images"] == 128

    def order(predictions: list[dict[str, Any]]) -> list[object]:
        return list(dict.fromkeys(item["image_id"] for item in predictions))

    shared = set(order(square_predictions)) & set(order(rect_predictions))
    assert [image for image in order(square_predictions) if image in shared] == [
        image for image in order(rect_predictions) if image in shared
    ]
    sure = [item for item in square_predictions if item["score"] >= 0.5]
    assert len(sure) > 200
    assert sum(any(_same(item, other) for other in rect_predictions) for item in sure) >= 0.98 * len(sure)


def _same(one: dict[str, Any], two: dict[str, Any]) -> bool:
    if one["image_id"] != two["image_id"] or one["category_id"] != two["category_id"]:
        return False
    a, b = np.array(one["bbox"]), np.array(two["bbox"])
    inner = np.minimum(a[:2] + a[2:], b[:2] + b[2:]) - np.maximum(a[:2], b[:2])
    overlap = inner.clip(0).prod()
    iou = overlap / (a[2:].prod() + b[2:].prod() - overlap)
    return bool(iou >= 0.9 and abs(one["score"] - two["score"]) <= 0.1)
