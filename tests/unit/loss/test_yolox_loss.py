from __future__ import annotations

import json
from collections.abc import Callable
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from yolo_accum.config.schema import LossConfig
from yolo_accum.contracts import Batch, DenseOutput
from yolo_accum.loss.yolox import YoloxCriterion, encode_boxes
from yolo_accum.model.build import build_model
from yolo_accum.model.weights import STEM, load_weights, read_weights
from yolo_accum.model.yolox import decode_boxes

MakeOutput = Callable[..., DenseOutput]
MakeBatch = Callable[..., Batch]


@pytest.fixture
def one_object() -> tuple[DenseOutput, Batch]:
    """One class, one cell of 32 px, one object: every term can be written down."""
    box_raw = torch.tensor([[[0.5, 0.5, 0.0, 0.0]]], requires_grad=True)
    grid_xy, stride_px = torch.zeros(1, 2), torch.tensor([32.0])
    output = DenseOutput(
        box_raw=box_raw,
        boxes_xyxy_px=decode_boxes(box_raw, grid_xy, stride_px),  # 0 0 32 32
        objectness_logits=torch.tensor([[0.0]], requires_grad=True),
        class_logits=torch.tensor([[[log(3.0)]]], requires_grad=True),  # probability 3/4
        grid_xy=grid_xy,
        stride_px=stride_px,
    )
    batch = Batch(
        images=torch.zeros(1, 3, 32, 32, dtype=torch.uint8),
        boxes_xyxy_px=torch.tensor([[0.0, 0.0, 32.0, 16.0]]),  # IoU 1/2
        labels=torch.tensor([0]),
        sample_of_box=torch.tensor([0]),
        image_indices=torch.tensor([0]),
        epoch=5,
    )
    return output, batch


def test_terms_by_hand(one_object: tuple[DenseOutput, Batch]) -> None:
    sums = YoloxCriterion(LossConfig(box_gain=5.0, obj_gain=2.0, cls_gain=3.0, l1_gain=4.0), 1, 5)(*one_object)
    assert sums.terms["box"].item() == pytest.approx(5 * (1 - 0.25))
    assert sums.terms["obj"].item() == pytest.approx(2 * log(2))
    assert sums.terms["cls"].item() == pytest.approx(3 * -(0.5 * log(0.75) + 0.5 * log(0.25)))
    # raw values wanted: centre (0.5, 0.25) of the cell, sides 1 and 1/2 of it
    assert sums.terms["l1"].item() == pytest.approx(4 * (0.25 + log(2)), rel=1e-5)
    assert sums.denominator.item() == 1.0
    assert not sums.denominator.requires_grad


def test_l1_begins_with_its_epoch(one_object: tuple[DenseOutput, Batch]) -> None:
    early = YoloxCriterion(LossConfig(), 1, 6)
    assert early.term_names == ("box", "obj", "cls", "l1")
    sums = early(*one_object)
    assert tuple(sums.terms) == early.term_names
    assert sums.terms["l1"].item() == 0.0
    assert sums.terms["l1"].requires_grad
    assert YoloxCriterion(LossConfig(), 1, None).term_names == ("box", "obj", "cls")
    assert YoloxCriterion(LossConfig(l1_gain=0), 1, 0).term_names == ("box", "obj", "cls")


def test_class_targets_are_not_differentiated(one_object: tuple[DenseOutput, Batch]) -> None:
    output, batch = one_object
    YoloxCriterion(LossConfig(), 1, None)(output, batch).terms["cls"].backward()
    assert output.box_raw.grad is None or not output.box_raw.grad.any()


def test_without_objects_objectness_is_trained_and_all_outputs_take_part(
    make_output: MakeOutput, make_batch: MakeBatch
) -> None:
    output = make_output(2, 64, 3)
    sums = YoloxCriterion(LossConfig(), 3, 0)(output, make_batch([0, 0], 64, 3))
    assert sums.denominator.item() == 0.0
    assert {name: term.item() for name, term in sums.terms.items() if name != "obj"} == {"box": 0, "cls": 0, "l1": 0}
    assert all(term.requires_grad for term in sums.terms.values())
    sums.total().backward()
    assert output.objectness_logits is not None
    assert output.objectness_logits.grad is not None
    assert output.objectness_logits.grad.gt(0).all()
    for leaf in (output.box_raw, output.class_logits):
        assert leaf.grad is not None
        assert not leaf.grad.any()


def test_a_float64_output_is_kept(make_output: MakeOutput, make_batch: MakeBatch) -> None:
    sums = YoloxCriterion(LossConfig(), 3, 0)(make_output(2, 64, 3, dtype=torch.float64), make_batch([4, 2], 64, 3))
    assert {term.dtype for term in sums.terms.values()} == {torch.float64}
    assert sums.denominator.dtype == torch.float64


def test_gradients_agree_with_finite_differences(make_output: MakeOutput, make_batch: MakeBatch) -> None:
    output, batch = make_output(1, 32, 2, dtype=torch.float64), make_batch([2], 32, 2)
    criterion = YoloxCriterion(LossConfig(), 2, 0)

    def total(box_raw: Tensor, objectness: Tensor, classes: Tensor) -> Tensor:
        return criterion(
            DenseOutput(
                box_raw=box_raw,
                boxes_xyxy_px=decode_boxes(box_raw, output.grid_xy, output.stride_px),
                objectness_logits=objectness,
                class_logits=classes,
                grid_xy=output.grid_xy,
                stride_px=output.stride_px,
            ),
            batch,
        ).terms["box"]

    assert output.objectness_logits is not None
    leaves = (output.box_raw, output.objectness_logits, output.class_logits)
    assert torch.autograd.gradcheck(total, leaves, atol=1e-6)


def test_encoding_is_the_inverse_of_decoding() -> None:
    raw = torch.randn(20, 4, dtype=torch.float64)
    grid_xy = torch.randint(0, 10, (20, 2)).double()
    stride_px = torch.tensor([8.0, 16.0], dtype=torch.float64).repeat(10)
    boxes = decode_boxes(raw.unsqueeze(0), grid_xy, stride_px)[0]
    assert torch.allclose(encode_boxes(boxes, grid_xy, stride_px), raw, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_forward_and_backward_under_autocast(make_batch: MakeBatch, dtype: torch.dtype) -> None:
    model = build_model("yolox_nano", 3)
    batch = make_batch([5, 0, 9], 64, 3)
    with torch.autocast("cpu", dtype=dtype):
        sums = YoloxCriterion(LossConfig(), 3, 0)(model(torch.rand(3, 3, 64, 64)), batch)
    assert {term.dtype for term in sums.terms.values()} == {torch.float32}
    sums.total().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.real
@pytest.mark.parametrize(("case", "epoch"), [("without_l1", 0), ("with_l1", 1)])
def test_agrees_with_the_public_implementation(real_data: Path, case: str, epoch: int) -> None:
    recorded = np.load(real_data / "weights" / "ref" / "yolox_loss.npz")
    expected = json.loads((real_data / "weights" / "ref" / "yolox_loss.json").read_text())[case]
    targets = torch.from_numpy(recorded["targets_cls_cxcywh_px"])
    sample_of_box, column = targets.any(dim=-1).nonzero(as_tuple=True)
    label, centre, side = targets[sample_of_box, column].split((1, 2, 2), dim=-1)
    images = torch.from_numpy(recorded["images_bgr_uint8"]).flip(1)
    batch = Batch(
        images=images,
        boxes_xyxy_px=torch.cat((centre - side / 2, centre + side / 2), dim=-1),
        labels=label.flatten().long(),
        sample_of_box=sample_of_box,
        image_indices=torch.arange(len(images)),
        epoch=epoch,
    )
    model = build_model("yolox_nano", 80).eval()
    load_weights(model, read_weights(real_data / "weights" / "yolox_nano_coco_calibrated.pth"), None)

    sums = YoloxCriterion(LossConfig(), 80, 1)(model(images.float() / 255), batch)
    loss = sums.total() / sums.denominator
    loss.backward()

    assert len(sample_of_box) == expected["num_gt"]
    assert sums.denominator.item() == round(expected["num_fg"] * expected["num_gt"])
    names = {"box": "iou_loss", "obj": "conf_loss", "cls": "cls_loss", "l1": "l1_loss"}
    for name, official in names.items():
        assert (sums.terms[name] / sums.denominator).item() == pytest.approx(expected[official], rel=1e-4)
    assert loss.item() == pytest.approx(expected["total_loss"], rel=1e-4)
    norms = {name: parameter.grad.norm().item() for name, parameter in model.named_parameters()}
    norms[STEM] *= 255  # our stem's weights are 255 times the official ones
    for name, norm in expected["param_grad_norms"].items():
        assert norms[name] == pytest.approx(norm, rel=1e-3)
    assert sum(norm**2 for norm in norms.values()) ** 0.5 == pytest.approx(expected["grad_norm"], rel=1e-3)
