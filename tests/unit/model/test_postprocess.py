from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torchvision.ops import nms

from yolo_accum.contracts import DenseOutput, Detections, Letterbox
from yolo_accum.model.postprocess import detect, to_picture

PLAIN = Letterbox(scale=1.0, pad_left_px=0, pad_top_px=0, width_px=320, height_px=320)


def logit(probability: Tensor) -> Tensor:
    return torch.logit(probability)


def output_of(boxes: Tensor, class_scores: Tensor, objectness: Tensor | None = None) -> DenseOutput:
    """One image with the given boxes [A, 4], class probabilities [A, c] and objectness [A]."""
    num_places = len(boxes)
    return DenseOutput(
        box_raw=torch.zeros(1, num_places, 4),
        boxes_xyxy_px=boxes.unsqueeze(0),
        objectness_logits=None if objectness is None else logit(objectness).unsqueeze(0),
        class_logits=logit(class_scores).unsqueeze(0),
        grid_xy=torch.full((num_places, 2), 9.0),
        stride_px=torch.full((num_places,), 32.0),
    )


def detect_one(output: DenseOutput, letterbox: Letterbox = PLAIN, **options: float) -> Detections:
    settings = {"conf": 0.01, "iou": 0.65, "max_det": 100} | options
    (found,) = detect(output, [letterbox], [7], **settings)  # type: ignore[arg-type]
    assert found.image_index == 7
    assert (found.boxes_xyxy_px.dtype, found.scores.dtype, found.labels.dtype) == ("float32", "float32", "int64")
    return found


def test_the_score_is_objectness_times_the_best_class() -> None:
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [100.0, 100.0, 150.0, 160.0], [50.0, 50.0, 60.0, 60.0]])
    output = output_of(boxes, torch.tensor([[0.5, 0.4], [0.2, 0.9], [0.9, 0.1]]), torch.tensor([0.5, 0.8, 0.1]))
    found = detect_one(output, conf=0.2)
    assert found.scores.tolist() == pytest.approx([0.72, 0.25])
    assert found.labels.tolist() == [1, 0]
    assert found.boxes_xyxy_px.tolist() == [[100, 100, 150, 160], [0, 0, 10, 10]]


def test_models_without_objectness() -> None:
    found = detect_one(output_of(torch.tensor([[0.0, 0.0, 10.0, 10.0]]), torch.tensor([[0.3, 0.6]])))
    assert found.scores.tolist() == pytest.approx([0.6])


def test_suppression_is_by_class() -> None:
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 9.0], [0.0, 0.0, 10.0, 8.0], [0.0, 0.0, 10.0, 6.0]])
    scores = torch.tensor([[0.9, 0.01], [0.8, 0.01], [0.01, 0.7], [0.6, 0.01]])
    found = detect_one(output_of(boxes, scores))
    assert found.scores.tolist() == pytest.approx([0.9, 0.7, 0.6])  # the last has an IoU of 0.6 with the first


def test_boxes_go_back_to_the_picture_and_are_clipped() -> None:
    letterbox = Letterbox(scale=0.5, pad_left_px=10, pad_top_px=20, width_px=200, height_px=100)
    boxes = torch.tensor([[20.0, 30.0, 40.0, 50.0], [0.0, 0.0, 999.0, 999.0]])
    assert to_picture(boxes, letterbox).tolist() == [[20, 20, 60, 60], [0, 0, 200, 100]]


def test_a_box_in_the_padding_is_left_out() -> None:
    letterbox = Letterbox(scale=1.0, pad_left_px=0, pad_top_px=0, width_px=320, height_px=100)
    boxes = torch.tensor([[0.0, 200.0, 50.0, 250.0], [0.0, 90.0, 50.0, 150.0]])
    found = detect_one(output_of(boxes, torch.tensor([[0.9], [0.8]])), letterbox)
    assert found.boxes_xyxy_px.tolist() == [[0, 90, 50, 100]]


def test_no_detection_gives_empty_arrays() -> None:
    found = detect_one(output_of(torch.tensor([[0.0, 0.0, 10.0, 10.0]]), torch.tensor([[0.3]])), conf=0.5)
    assert (found.boxes_xyxy_px.shape, found.scores.shape, found.labels.shape) == ((0, 4), (0,), (0,))


def test_images_keep_their_order() -> None:
    one = output_of(torch.tensor([[0.0, 0.0, 10.0, 10.0]]), torch.tensor([[0.9]]))
    two = DenseOutput(
        box_raw=one.box_raw.expand(2, -1, -1),
        boxes_xyxy_px=torch.cat((one.boxes_xyxy_px, one.boxes_xyxy_px + 5)),
        objectness_logits=None,
        class_logits=torch.cat((one.class_logits, one.class_logits - 1)),
        grid_xy=one.grid_xy,
        stride_px=one.stride_px,
    )
    found = detect(two, [PLAIN, PLAIN], torch.tensor([4, 2]), conf=0.01, iou=0.65, max_det=10)
    assert [(item.image_index, item.boxes_xyxy_px[0, 0].item()) for item in found] == [(4, 0.0), (2, 5.0)]


@pytest.mark.parametrize("max_det", [3, 100, 1200, 5000])
def test_doing_the_best_candidates_first_changes_nothing(max_det: int) -> None:
    generator = torch.Generator().manual_seed(0)
    # 3000 boxes, the best 1500 of them all around one spot: few of the first thousand survive
    corner = torch.rand(3000, 2, generator=generator) * 280
    corner[:1500] = 100 + torch.rand(1500, 2, generator=generator) * 4
    boxes = torch.cat((corner, corner + 20 + torch.rand(3000, 2, generator=generator) * 10), dim=1)
    scores = torch.linspace(0.9, 0.1, 3000)
    expected = nms(boxes, scores, 0.5)[:max_det]
    found = detect_one(output_of(boxes, scores.unsqueeze(1)), iou=0.5, max_det=max_det)
    assert torch.equal(torch.from_numpy(found.scores), logit(scores).sigmoid()[expected])


def test_a_stray_huge_box_does_not_disturb_the_others() -> None:
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 4.0], [-1e12, -1e12, 1e12, 1e12]])
    classes = torch.full((3, 80), 0.001)
    classes[:2, 79], classes[2, 3] = torch.tensor([0.9, 0.8]), 0.7
    found = detect_one(output_of(boxes, classes))
    assert found.boxes_xyxy_px.tolist() == [[0, 0, 10, 10], [0, 0, 10, 4], [0, 0, 320, 320]]
