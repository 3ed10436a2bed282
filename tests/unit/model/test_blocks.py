from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from yolo_accum.model.blocks import DepthwiseConvNorm, Focus, SPPBottleneck, spatial_conv
from yolo_accum.model.norms import batch_norm


def test_focus_stacks_top_left_bottom_left_top_right_bottom_right() -> None:
    focus = Focus(12, norm=nn.Identity)
    focus.conv.act = nn.Identity()
    with torch.no_grad():
        focus.conv.conv.weight.zero_()
        focus.conv.conv.weight[torch.arange(12), torch.arange(12), 1, 1] = 1.0  # hands every channel through
    image = torch.arange(3 * 2 * 2, dtype=torch.float32).view(1, 3, 2, 2)  # red 0..3, green 4..7, blue 8..11
    assert focus(image).flatten().tolist() == [0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11]


def test_pyramid_pooling_equals_maxima_over_5_9_and_13() -> None:
    block = SPPBottleneck(4, 6, norm=batch_norm).eval()
    image = torch.randn(2, 4, 15, 17)
    hidden = block.conv1(image)
    pooled = [F.max_pool2d(hidden, side, stride=1, padding=side // 2) for side in (5, 9, 13)]
    assert torch.equal(block(image), block.conv2(torch.cat((hidden, *pooled), dim=1)))


def test_depthwise_form_has_one_filter_a_channel() -> None:
    block = spatial_conv(8, 16, norm=batch_norm, depthwise=True, stride=2)
    assert isinstance(block, DepthwiseConvNorm)
    assert block.dconv.conv.weight.shape == (8, 1, 3, 3)
    assert block(torch.zeros(1, 8, 10, 12)).shape == (1, 16, 5, 6)
