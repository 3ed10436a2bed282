"""From the network's output to the detections of a picture."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchvision.ops import batched_nms

from yolo_accum.contracts import DenseOutput, Detections, Letterbox

_FIRST_CANDIDATES = 1000


@torch.no_grad()
def detect(
    output: DenseOutput,
    letterboxes: Sequence[Letterbox],
    image_indices: Sequence[int] | Tensor,
    *,
    conf: float,
    iou: float,
    max_det: int,
) -> list[Detections]:
    """Detections of every image, in pixels of the original pictures.

    Every place speaks for its best class only, as in the official YOLOX evaluation; boxes of one class that overlap
    a better one are suppressed, then boxes are mapped back and clipped to the picture. A box that lies in the padding
    altogether is left out.

    Args:
        output: m images.
        letterboxes: m of them, how the pictures lie in the network input.
        image_indices: m rows of the index, handed through.
        conf: lowest score.
        iou: boxes of one class that overlap by more are the same object.
        max_det: most detections of an image.
    Returns:
        m of them, the best first; empty arrays where nothing was found.
    """
    scores, labels, boxes = _best_class(output)
    candidate = scores >= conf
    detections = []
    for image, (letterbox, image_index) in enumerate(zip(letterboxes, image_indices, strict=True)):
        places = candidate[image].nonzero(as_tuple=True)[0]
        kept = places[_suppress(boxes[image, places], scores[image, places], labels[image, places], iou, max_det)]
        in_picture = to_picture(boxes[image, kept], letterbox)
        visible = (in_picture[:, 2:] > in_picture[:, :2]).all(dim=1)
        detections.append(
            Detections(
                boxes_xyxy_px=in_picture[visible].cpu().numpy(),
                scores=scores[image, kept][visible].cpu().numpy(),
                labels=labels[image, kept][visible].cpu().numpy(),
                image_index=int(image_index),
            )
        )
    return detections


def to_picture(boxes_xyxy_px: Tensor, letterbox: Letterbox) -> Tensor:
    """Boxes in pixels of the network input -> in pixels of the original picture, clipped to it.

    Args:
        boxes_xyxy_px: [k, 4].
        letterbox: how the picture lies in the input.
    Returns:
        [k, 4].
    """
    pad = boxes_xyxy_px.new_tensor((letterbox.pad_left_px, letterbox.pad_top_px) * 2)
    limit = boxes_xyxy_px.new_tensor((letterbox.width_px, letterbox.height_px) * 2)
    return ((boxes_xyxy_px - pad) / letterbox.scale).clamp(min=0).minimum(limit)


def _best_class(output: DenseOutput) -> tuple[Tensor, Tensor, Tensor]:
    """[m, A] float32 scores and int64 labels of the best classes, [m, A, 4] float32 boxes near the picture."""
    logits, labels = output.class_logits.float().max(dim=-1)
    scores = logits.sigmoid()
    if output.objectness_logits is not None:
        scores = scores * output.objectness_logits.float().sigmoid()
    # suppression moves classes apart by the largest coordinate: one stray box of 1e9 px would round all others away
    side_px = ((output.grid_xy + 1) * output.stride_px.unsqueeze(-1)).max()
    return scores, labels, output.boxes_xyxy_px.float().clamp(min=-side_px, max=2 * side_px)


def _suppress(boxes: Tensor, scores: Tensor, labels: Tensor, iou: float, max_det: int) -> Tensor:
    """Positions of the boxes that class-wise non-maximum suppression keeps, the best first, at most ``max_det``.

    Time grows with the square of the boxes, so the best ones go first: whether a box is kept depends on better boxes
    alone, so once ``max_det`` are kept the others cannot matter.
    """
    order = scores.argsort(descending=True, stable=True)
    num = max(_FIRST_CANDIDATES, max_det)
    while True:
        best = order[:num]
        kept = batched_nms(boxes[best], scores[best], labels[best], iou)
        if len(kept) >= max_det or num >= len(order):
            return best[kept[:max_det]]
        num *= 4
