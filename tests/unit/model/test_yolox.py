from __future__ import annotations

from math import exp
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from yolo_accum.model.build import build_model
from yolo_accum.model.weights import load_weights, read_weights
from yolo_accum.model.yolox import YOLOX, decode_boxes

NUM_PARAMETERS = {
    "yolox_nano": 0.91,
    "yolox_tiny": 5.06,
    "yolox_s": 8.97,
    "yolox_m": 25.3,
    "yolox_l": 54.2,
    "yolox_x": 99.1,
}
"""Millions with 80 classes, as published with the official code."""


@pytest.fixture(scope="module")
def nano() -> YOLOX:
    torch.manual_seed(0)
    return build_model("yolox_nano", 3)


@pytest.mark.parametrize("size", NUM_PARAMETERS)
def test_parameter_counts_are_the_published_ones(size: str) -> None:
    with torch.device("meta"):
        model = build_model(size, 80)
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    assert millions == pytest.approx(NUM_PARAMETERS[size], rel=0.003)


def test_places_run_from_fine_to_coarse_and_row_by_row(nano: YOLOX) -> None:
    output = nano(torch.rand(2, 3, 64, 96))
    assert output.box_raw.shape == output.boxes_xyxy_px.shape == (2, 96 + 24 + 6, 4)
    assert output.objectness_logits is not None
    assert output.objectness_logits.shape == (2, 126)
    assert output.class_logits.shape == (2, 126, 3)
    assert output.stride_px.tolist() == [8] * 96 + [16] * 24 + [32] * 6
    assert output.grid_xy[:13].tolist() == [[column, 0] for column in range(12)] + [[0, 1]]
    assert output.grid_xy[-1].tolist() == [2, 1]


def test_boxes_are_decoded_by_hand() -> None:
    raw = torch.tensor([[[0.5, -0.25, 0.0, 1.0]]])
    boxes = decode_boxes(raw, torch.tensor([[3.0, 2.0]]), torch.tensor([16.0]))
    centre_x, centre_y, height = 3.5 * 16, 1.75 * 16, exp(1.0) * 16
    expected = [centre_x - 8, centre_y - height / 2, centre_x + 8, centre_y + height / 2]
    assert boxes.flatten().tolist() == pytest.approx(expected, rel=1e-6)


def test_a_new_head_says_one_percent_everywhere(nano: YOLOX) -> None:
    for predictions in (nano.head.obj_preds, nano.head.cls_preds):
        for prediction in predictions:
            assert isinstance(prediction, nn.Conv2d)
            assert prediction.bias is not None
            assert torch.allclose(prediction.bias.sigmoid(), torch.tensor(0.01))


def test_weights_are_a_function_of_the_seed() -> None:
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(build_model("yolox_nano", 2).state_dict()["head.stems.0.conv.weight"])
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_the_norm_is_the_builders_choice() -> None:
    model = build_model("yolox_nano", 2, lambda num_channels: nn.GroupNorm(4, num_channels))
    kinds = {type(module) for module in model.modules()}
    assert nn.GroupNorm in kinds
    assert nn.BatchNorm2d not in kinds


def test_epsilon_of_batch_norm_is_that_of_the_public_weights(nano: YOLOX) -> None:
    assert {module.eps for module in nano.modules() if isinstance(module, nn.BatchNorm2d)} == {1e-3}


def test_sides_that_are_no_multiple_of_32_are_refused(nano: YOLOX) -> None:
    with pytest.raises(ValueError, match="100x64 px"):
        nano(torch.zeros(1, 3, 64, 100))


def test_a_model_without_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="num_classes 0"):
        build_model("yolox_nano", 0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_boxes_are_decoded_in_float32(nano: YOLOX, dtype: torch.dtype) -> None:
    with torch.autocast("cpu", dtype=dtype):
        output = nano(torch.rand(1, 3, 64, 64))
    assert output.class_logits.dtype == dtype
    assert output.boxes_xyxy_px.dtype == output.grid_xy.dtype == torch.float32


def test_channels_last_gives_the_same(nano: YOLOX) -> None:
    images = torch.rand(2, 3, 64, 64)
    nano.eval()
    plain = nano(images)
    permuted = nano.to(memory_format=torch.channels_last)(images.to(memory_format=torch.channels_last))
    nano.to(memory_format=torch.contiguous_format).train()
    assert torch.allclose(plain.boxes_xyxy_px, permuted.boxes_xyxy_px, rtol=1e-4, atol=1e-3)
    assert torch.allclose(plain.class_logits, permuted.class_logits, rtol=1e-4, atol=1e-4)


def test_the_whole_model_is_one_graph_for_the_compiler(nano: YOLOX) -> None:
    images = torch.rand(1, 3, 64, 64)
    nano.eval()
    compiled = torch.compile(nano, fullgraph=True, backend="eager")(images)
    assert torch.equal(compiled.boxes_xyxy_px, nano(images).boxes_xyxy_px)
    nano.train()


@pytest.mark.real
def test_official_weights_give_the_recorded_output(real_data: Path) -> None:
    recorded = np.load(real_data / "weights" / "yolox_nano_ref.npz")
    model = build_model("yolox_nano", 80).eval()
    load_weights(model, read_weights(real_data / "weights" / "yolox_nano_coco_calibrated.pth"), None)
    image_bgr = torch.from_numpy(recorded["image"])
    with torch.no_grad():
        output = model(image_bgr.flip(-1).permute(2, 0, 1)[None] / 255)
    anchors = torch.from_numpy(recorded["anchor_index"]).long()
    expected = torch.from_numpy(recorded["output"])
    assert output.objectness_logits is not None
    assert torch.allclose(output.box_raw[0, anchors], expected[:, :4], atol=5e-4)
    assert torch.allclose(output.objectness_logits[0].sigmoid(), torch.from_numpy(recorded["obj_all"]), atol=1e-4)
    assert torch.allclose(output.class_logits[0, anchors].sigmoid(), expected[:, 5:], atol=1e-4)
