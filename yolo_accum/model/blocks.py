"""Building blocks of the YOLOX family.

Attribute names are those of the official code (Megvii YOLOX, Apache-2.0), so that its checkpoints load by name.
All blocks take and give [m, channels, H, W].
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from yolo_accum.model.norms import NormFactory
from yolo_accum.model.recompute import Recomputable


class ConvNorm(Recomputable):
    """Convolution without bias, norm, SiLU. The sides shrink by ``stride``, rounded up."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        *,
        norm: NormFactory,
        stride: int = 1,
        groups: int = 1,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
        self.bn = norm(out_channels)
        self.act = nn.SiLU()  # in place it would save a copy of its input for the backward pass: 7 % slower

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.bn(self.conv(x)))


class DepthwiseConvNorm(Recomputable):
    """A convolution of each channel by itself, then a 1x1 convolution across the channels."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int, *, norm: NormFactory, stride: int = 1) -> None:
        super().__init__()
        self.dconv = ConvNorm(in_channels, in_channels, kernel, norm=norm, stride=stride, groups=in_channels)
        self.pconv = ConvNorm(in_channels, out_channels, 1, norm=norm)

    def forward(self, x: Tensor) -> Tensor:
        return self.pconv(self.dconv(x))


def spatial_conv(
    in_channels: int, out_channels: int, *, norm: NormFactory, depthwise: bool, stride: int = 1
) -> nn.Module:
    """The 3x3 convolution of the family, in its plain or its depthwise form."""
    kind = DepthwiseConvNorm if depthwise else ConvNorm
    return kind(in_channels, out_channels, 3, norm=norm, stride=stride)


class Focus(Recomputable):
    """Stem: the four pixels of every 2x2 patch become channels, then a 3x3 convolution at half the size."""

    def __init__(self, out_channels: int, *, norm: NormFactory) -> None:
        super().__init__()
        self.conv = ConvNorm(4 * 3, out_channels, 3, norm=norm)

    def forward(self, x: Tensor) -> Tensor:
        top, bottom = x[..., ::2, :], x[..., 1::2, :]
        # the order of the official weights: top left, bottom left, top right, bottom right
        patches = (top[..., ::2], bottom[..., ::2], top[..., 1::2], bottom[..., 1::2])
        return self.conv(torch.cat(patches, dim=1))


class Bottleneck(Recomputable):
    """1x1 and 3x3 convolution, added to the input where ``shortcut`` is set."""

    def __init__(self, channels: int, *, norm: NormFactory, depthwise: bool, shortcut: bool) -> None:
        super().__init__()
        self.conv1 = ConvNorm(channels, channels, 1, norm=norm)
        self.conv2 = spatial_conv(channels, channels, norm=norm, depthwise=depthwise)
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv2(self.conv1(x))
        return y + x if self.shortcut else y


class CSPLayer(Recomputable):
    """Cross stage partial stage: half of the channels go through the bottlenecks, half go past them.

    Source: Wang et al. 2019, arXiv:1911.11929; the form with three convolutions.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_blocks: int,
        *,
        norm: NormFactory,
        depthwise: bool,
        shortcut: bool = True,
    ) -> None:
        super().__init__()
        hidden = out_channels // 2
        self.conv1 = ConvNorm(in_channels, hidden, 1, norm=norm)
        self.conv2 = ConvNorm(in_channels, hidden, 1, norm=norm)
        self.conv3 = ConvNorm(2 * hidden, out_channels, 1, norm=norm)
        self.m = nn.Sequential(
            *(Bottleneck(hidden, norm=norm, depthwise=depthwise, shortcut=shortcut) for _ in range(num_blocks))
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv3(torch.cat((self.m(self.conv1(x)), self.conv2(x)), dim=1))


class SPPBottleneck(Recomputable):
    """Spatial pyramid pooling: maxima over 5x5, 9x9 and 13x13 beside the map itself.

    Source: He et al. 2014, arXiv:1406.4729.
    """

    def __init__(self, in_channels: int, out_channels: int, *, norm: NormFactory) -> None:
        super().__init__()
        hidden = in_channels // 2
        self.conv1 = ConvNorm(in_channels, hidden, 1, norm=norm)
        self.pool = nn.MaxPool2d(5, stride=1, padding=2)
        self.conv2 = ConvNorm(4 * hidden, out_channels, 1, norm=norm)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        # two 5x5 maxima in a row are the 9x9 one, three are the 13x13 one, for a fifth of the comparisons
        over_5 = self.pool(x)
        over_9 = self.pool(over_5)
        return self.conv2(torch.cat((x, over_5, over_9, self.pool(over_9)), dim=1))
