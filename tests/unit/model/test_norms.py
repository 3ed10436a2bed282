from __future__ import annotations

import pytest
import torch
from torch import nn

from yolo_accum.model.batch_norm import BatchNorm, CudaSyncBatchNorm, FrozenBatchNorm, SyncBatchNorm
from yolo_accum.model.build import build_model
from yolo_accum.model.norms import GroupNorm, group_count, norm_factory
from yolo_accum.model.window_norm import CrossMiniBatchNorm, WindowRenorm


def alone(_: torch.Tensor) -> None:
    """The sum over one replica."""


def test_norms_go_by_name() -> None:
    kinds = {name: type(norm_factory(name)(8)) for name in ("bn", "syncbn", "cmbn", "wrn", "gn", "frozen")}
    assert kinds == {
        "bn": BatchNorm,
        "syncbn": BatchNorm,  # of one replica
        "cmbn": CrossMiniBatchNorm,
        "wrn": WindowRenorm,
        "gn": GroupNorm,
        "frozen": FrozenBatchNorm,
    }
    assert type(norm_factory("syncbn", sum_over_replicas=alone)(8)) is SyncBatchNorm
    assert type(norm_factory("syncbn", sum_over_replicas=alone, device_type="cuda")(8)) is CudaSyncBatchNorm
    assert not norm_factory("frozen", freeze_affine=True)(8).weight.requires_grad
    with pytest.raises(ValueError, match="norm ln: one of bn, syncbn, cmbn, wrn, gn, frozen is needed"):
        norm_factory("ln")


@pytest.mark.parametrize(("channels", "groups"), [(16, 16), (24, 24), (40, 20), (64, 32), (96, 32), (37, 1), (1, 1)])
def test_groups_are_the_largest_divisor_up_to_32(channels: int, groups: int) -> None:
    assert group_count(channels) == groups


def test_gn_is_torchs_group_norm_and_takes_single_values() -> None:
    ours, reference = GroupNorm(96), nn.GroupNorm(32, 96)
    x = torch.randn(2, 96, 3, 3)
    assert torch.equal(ours(x), reference(x))
    single = GroupNorm(24)(torch.randn(1, 24, 1, 1))
    assert torch.allclose(single, torch.zeros_like(single), atol=1e-3)


@pytest.mark.parametrize("name", ["bn", "cmbn", "wrn", "gn", "frozen"])
def test_a_detector_trains_on_one_image_at_32_px(name: str) -> None:
    """Its coarsest map has one cell."""
    model = build_model("yolox_nano", 2, norm_factory(name)).train()
    output = model(torch.rand(1, 3, 32, 32))
    output.class_logits.sum().backward()
    assert output.class_logits.isfinite().all()


@pytest.mark.parametrize("name", ["syncbn", "cmbn", "wrn", "frozen"])
def test_weights_are_exchangeable_and_evaluate_alike(name: str) -> None:
    plain = build_model("yolox_nano", 2).eval()
    other = build_model("yolox_nano", 2, norm_factory(name, sum_over_replicas=alone)).eval()
    other.load_state_dict(plain.state_dict())
    images = torch.rand(2, 3, 64, 64)
    assert torch.equal(other(images).class_logits, plain(images).class_logits)
