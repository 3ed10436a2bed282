"""YOLOX: an anchor-free detector with a decoupled head.

Source: Ge et al. 2021, arXiv:2107.08430. Module names follow the official code (Megvii YOLOX, Apache-2.0).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from yolo_accum.contracts import DenseOutput
from yolo_accum.model.blocks import ConvNorm, CSPLayer, Focus, SPPBottleneck, spatial_conv
from yolo_accum.model.norms import NormFactory
from yolo_accum.model.sizes import ModelSize

STRIDES_PX = (8, 16, 32)
"""Cell sizes of the three levels."""
PRIOR_PROBABILITY = 0.01
"""What a new head says everywhere, so that the many background places do not swamp the first updates
(Lin et al. 2017, arXiv:1708.02002, section 4.1)."""

LevelMaps = tuple[Tensor, Tensor, Tensor]
"""One map a level, fine to coarse."""


def prior_bias() -> float:
    """The logit of `PRIOR_PROBABILITY`: bias of new objectness and class outputs."""
    return -math.log((1 - PRIOR_PROBABILITY) / PRIOR_PROBABILITY)


class CSPDarknet(nn.Module):
    """Backbone. [m, 3, H, W] to the maps of strides 8, 16 and 32."""

    def __init__(self, size: ModelSize, norm: NormFactory) -> None:
        super().__init__()
        base, num_blocks = size.stem_channels, size.num_blocks

        def stage(channels: int, num_blocks: int) -> list[nn.Module]:
            down = spatial_conv(channels, 2 * channels, norm=norm, depthwise=size.depthwise, stride=2)
            csp = CSPLayer(2 * channels, 2 * channels, num_blocks, norm=norm, depthwise=size.depthwise)
            return [down, csp]

        self.stem = Focus(base, norm=norm)
        self.dark2 = nn.Sequential(*stage(base, num_blocks))
        self.dark3 = nn.Sequential(*stage(2 * base, 3 * num_blocks))
        self.dark4 = nn.Sequential(*stage(4 * base, 3 * num_blocks))
        self.dark5 = nn.Sequential(
            spatial_conv(8 * base, 16 * base, norm=norm, depthwise=size.depthwise, stride=2),
            SPPBottleneck(16 * base, 16 * base, norm=norm),
            CSPLayer(16 * base, 16 * base, num_blocks, norm=norm, depthwise=size.depthwise, shortcut=False),
        )

    def forward(self, images: Tensor) -> LevelMaps:
        stride_8 = self.dark3(self.dark2(self.stem(images)))
        stride_16 = self.dark4(stride_8)
        return stride_8, stride_16, self.dark5(stride_16)


class PAFPN(nn.Module):
    """Backbone and neck: the coarse maps inform the fine ones, then the fine ones the coarse (Liu et al. 2018)."""

    def __init__(self, size: ModelSize, norm: NormFactory) -> None:
        super().__init__()
        fine, middle, coarse = (factor * size.stem_channels for factor in (4, 8, 16))

        def csp(in_channels: int, out_channels: int) -> CSPLayer:
            return CSPLayer(
                in_channels,
                out_channels,
                size.num_blocks,
                norm=norm,
                depthwise=size.depthwise,
                shortcut=False,
            )

        def down(channels: int) -> nn.Module:
            return spatial_conv(channels, channels, norm=norm, depthwise=size.depthwise, stride=2)

        self.backbone = CSPDarknet(size, norm)
        self.lateral_conv0 = ConvNorm(coarse, middle, 1, norm=norm)
        self.C3_p4 = csp(2 * middle, middle)
        self.reduce_conv1 = ConvNorm(middle, fine, 1, norm=norm)
        self.C3_p3 = csp(2 * fine, fine)
        self.bu_conv2 = down(fine)
        self.C3_n3 = csp(2 * fine, middle)
        self.bu_conv1 = down(middle)
        self.C3_n4 = csp(2 * middle, coarse)

    def forward(self, images: Tensor) -> LevelMaps:
        stride_8, stride_16, stride_32 = self.backbone(images)
        coarse_to_middle = self.lateral_conv0(stride_32)
        middle = self.C3_p4(torch.cat((_twice_as_large(coarse_to_middle), stride_16), dim=1))
        middle_to_fine = self.reduce_conv1(middle)
        fine_out = self.C3_p3(torch.cat((_twice_as_large(middle_to_fine), stride_8), dim=1))
        middle_out = self.C3_n3(torch.cat((self.bu_conv2(fine_out), middle_to_fine), dim=1))
        coarse_out = self.C3_n4(torch.cat((self.bu_conv1(middle_out), coarse_to_middle), dim=1))
        return fine_out, middle_out, coarse_out


class YOLOXHead(nn.Module):
    """Class scores in one branch, box and objectness in the other, at every cell of every level."""

    def __init__(self, size: ModelSize, num_classes: int, norm: NormFactory) -> None:
        super().__init__()
        hidden = 4 * size.stem_channels

        def branch() -> nn.Sequential:
            return nn.Sequential(*(spatial_conv(hidden, hidden, norm=norm, depthwise=size.depthwise) for _ in range(2)))

        def per_level(num_outputs: int) -> nn.ModuleList:
            return nn.ModuleList(nn.Conv2d(hidden, num_outputs, 1) for _ in STRIDES_PX)

        self.cls_convs = nn.ModuleList(branch() for _ in STRIDES_PX)
        self.reg_convs = nn.ModuleList(branch() for _ in STRIDES_PX)
        self.cls_preds = per_level(num_classes)
        self.reg_preds = per_level(4)
        self.obj_preds = per_level(1)
        self.stems = nn.ModuleList(ConvNorm(factor * size.stem_channels, hidden, 1, norm=norm) for factor in (4, 8, 16))
        for prediction in (*self.cls_preds, *self.obj_preds):
            nn.init.constant_(prediction.bias, prior_bias())

    def forward(self, maps: LevelMaps) -> DenseOutput:
        boxes, objectness, classes, grids, strides = [], [], [], [], []
        for level, side_px in enumerate(STRIDES_PX):
            x = self.stems[level](maps[level])
            class_features = self.cls_convs[level](x)
            box_features = self.reg_convs[level](x)
            classes.append(_places(self.cls_preds[level](class_features)))
            boxes.append(_places(self.reg_preds[level](box_features)))
            objectness.append(_places(self.obj_preds[level](box_features)))
            grid_xy = _grid_xy(x)
            grids.append(grid_xy)
            strides.append(grid_xy.new_full((len(grid_xy),), side_px))
        box_raw, grid_xy, stride_px = torch.cat(boxes, dim=1), torch.cat(grids), torch.cat(strides)
        return DenseOutput(
            box_raw=box_raw,
            boxes_xyxy_px=decode_boxes(box_raw, grid_xy, stride_px),
            objectness_logits=torch.cat(objectness, dim=1).squeeze(-1),
            class_logits=torch.cat(classes, dim=1),
            grid_xy=grid_xy,
            stride_px=stride_px,
        )


class YOLOX(nn.Module):
    """The detector.

    Args:
        size: depth and width.
        num_classes: c.
        norm: makes the norm layers.
    """

    def __init__(self, size: ModelSize, num_classes: int, norm: NormFactory) -> None:
        super().__init__()
        self.size = size
        self.num_classes = num_classes
        self.backbone = PAFPN(size, norm)
        self.head = YOLOXHead(size, num_classes, norm)

    def forward(self, images: Tensor) -> DenseOutput:
        """What the detector says about every cell.

        Args:
            images: [m, 3, H, W] float, RGB in 0..1, sides multiples of 32 px.
        Returns:
            A = HW/64 + HW/256 + HW/1024 places, the finest level first, each level row by row.
        Raises:
            ValueError: the sides are no multiples of 32.
        """
        height_px, width_px = images.shape[-2:]
        if height_px % STRIDES_PX[-1] or width_px % STRIDES_PX[-1]:
            raise ValueError(f"images of {width_px}x{height_px} px: sides must be multiples of {STRIDES_PX[-1]} px")
        return self.head(self.backbone(images))


def part_of(parameter: str) -> str:
    """The part of the detector that a parameter belongs to: stem, dark2 to dark5, neck, or the head at a stride.

    Args:
        parameter: its name.
    """
    first, second, third, *_ = parameter.split(".")
    if first == "head":
        return f"head stride {STRIDES_PX[int(third)]}"
    return third if second == "backbone" else "neck"


def decode_boxes(box_raw: Tensor, grid_xy: Tensor, stride_px: Tensor) -> Tensor:
    """Boxes in pixels from the head's raw values: centre = (offset + cell) * stride, side = exp(value) * stride.

    Args:
        box_raw: [m, A, 4] centre offset in cells, logarithm of width and height in cells.
        grid_xy: [A, 2] column and row.
        stride_px: [A].
    Returns:
        [m, A, 4] xyxy, pixels of the network input; float32 even under autocast, float64 for float64.
    """
    raw = box_raw if box_raw.dtype == torch.float64 else box_raw.float()
    stride = stride_px.unsqueeze(-1)
    centre = (raw[..., :2] + grid_xy) * stride
    half_side = raw[..., 2:].exp() * (stride / 2)
    return torch.cat((centre - half_side, centre + half_side), dim=-1)


def _places(level_map: Tensor) -> Tensor:
    """[m, c, H, W] to [m, HW, c]; no copy where the map is channels_last."""
    return level_map.permute(0, 2, 3, 1).flatten(1, 2)


def _grid_xy(level_map: Tensor) -> Tensor:
    """[HW, 2] column and row of the cells, row by row; float32 at least (bfloat16 counts to 256 only)."""
    height, width = level_map.shape[-2:]
    dtype = torch.float64 if level_map.dtype == torch.float64 else torch.float32
    rows = torch.arange(height, device=level_map.device, dtype=dtype)
    columns = torch.arange(width, device=level_map.device, dtype=dtype)
    return torch.stack(torch.meshgrid(columns, rows, indexing="xy"), dim=-1).flatten(0, 1)


def _twice_as_large(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="nearest")
