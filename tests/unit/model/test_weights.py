from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from yolo_accum.engine.checkpoint import save_checkpoint
from yolo_accum.errors import UserError
from yolo_accum.model.build import build_model
from yolo_accum.model.coco_names import COCO_NAMES
from yolo_accum.model.norms import norm_factory
from yolo_accum.model.weights import FORMAT, STEM, Weights, fold_stem, infer_size, load_weights, read_weights
from yolo_accum.model.yolox import YOLOX, prior_bias


def nano(num_classes: int, seed: int = 1) -> YOLOX:
    torch.manual_seed(seed)
    return build_model("yolox_nano", num_classes)


def own_weights(num_classes: int, class_names: tuple[str, ...] | None) -> Weights:
    return Weights(path=Path("own.pt"), state=nano(num_classes).state_dict(), class_names=class_names)


@pytest.fixture(scope="module")
def official() -> dict[str, Tensor]:
    """A state dict with 80 classes as the official code would write it."""
    return nano(80).state_dict()


# the BGR 0..255 convention


def test_folded_stem_gives_for_rgb_in_0_to_1_what_the_official_one_gives_for_bgr_in_0_to_255() -> None:
    model = nano(80).eval()
    image_bgr = torch.randint(0, 256, (1, 3, 64, 64)).float()
    expected = model.backbone.backbone.stem(image_bgr)
    stem = model.backbone.backbone.stem.conv.conv
    stem.weight.data = fold_stem(stem.weight.data)
    assert torch.allclose(model.backbone.backbone.stem(image_bgr.flip(1) / 255), expected, rtol=1e-4, atol=1e-2)


def test_folding_by_hand() -> None:
    weight = torch.arange(12.0).view(1, 12, 1, 1)  # patches (0 1 2) (3 4 5) (6 7 8) (9 10 11)
    expected = [2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9]
    assert (fold_stem(weight).flatten() / 255).tolist() == expected


def test_public_files_are_folded_and_our_own_are_not(tmp_path: Path, official: dict[str, Tensor]) -> None:
    torch.save(official, tmp_path / "public.pth")
    save_checkpoint({"model": official, "live": {}, "class_names": ["a"] * 80}, tmp_path / "own.pt")
    save_file(official, tmp_path / "public.safetensors", metadata={"format": "pt"})
    own_metadata = {"format": FORMAT, "class_names": json.dumps(list("ab" * 40))}
    save_file(official, tmp_path / "own.safetensors", metadata=own_metadata)
    stems = {file.name: read_weights(file).state[STEM] for file in sorted(tmp_path.iterdir())}
    assert torch.equal(stems["public.pth"], fold_stem(official[STEM]))
    assert torch.equal(stems["public.safetensors"], fold_stem(official[STEM]))
    assert torch.equal(stems["own.pt"], official[STEM])
    assert torch.equal(stems["own.safetensors"], official[STEM])
    assert read_weights(tmp_path / "own.safetensors").class_names == tuple("ab" * 40)


# what files may look like


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"model": state, "start_epoch": 3, "best_ap": np.float64(0.5), "curr_ap": np.float32(0.5)},
        lambda state: {"state_dict": {f"model.model.{name}": tensor for name, tensor in state.items()}},
        lambda state: {"ema": {"module": state}, "model": {}},
        lambda state: {"ema": state, "model": {"never": torch.zeros(1)}},
        lambda state: {"ema_state_dict": {f"module.{name}": tensor for name, tensor in state.items()}},
        lambda state: {"model": {f"module._orig_mod.{name}": tensor for name, tensor in state.items()}},
        lambda state: {"model": {name: tensor.half() for name, tensor in state.items()}},
    ],
    ids=["plain", "model", "lightning", "ema.module", "ema", "ema_state_dict", "two prefixes", "half"],
)
def test_usual_wrappings(tmp_path: Path, official: dict[str, Tensor], wrap: Any) -> None:
    torch.save(wrap(official), tmp_path / "w.pth")
    weights = read_weights(tmp_path / "w.pth")
    assert set(weights.state) == set(official)
    assert weights.state["head.stems.0.conv.weight"].dtype == torch.float32
    assert torch.allclose(weights.state["head.stems.0.conv.weight"], official["head.stems.0.conv.weight"], atol=1e-3)
    assert weights.class_names == COCO_NAMES


def test_names_of_other_class_counts_are_unknown(tmp_path: Path) -> None:
    torch.save(nano(3).state_dict(), tmp_path / "w.pt")
    weights = read_weights(str(tmp_path / "w.pt"))
    assert (weights.num_classes, weights.class_names) == (3, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"model": torch.nn.Linear(1, 1)}, r"pickled Python objects \(torch.nn.modules.linear.Linear\)"),
        ({"args": argparse.Namespace(a=1)}, r"pickled Python objects \(argparse.Namespace\)"),
        ({"model": {}}, "no weights in it"),
        ([1, 2], "holds a list"),
        ({"0.conv.weight": torch.zeros(1)}, "layer-numbered YOLO.*0.conv.weight.*yolox_nano"),
        ({"transformer.decoder.w": torch.zeros(1)}, "DETR"),
        ({"strange": torch.zeros(1)}, "an unknown family"),
    ],
)
def test_unusable_content_is_named(tmp_path: Path, content: object, message: str) -> None:
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(UserError, match=rf"w\.pt.*{message}"):
        read_weights(tmp_path / "w.pt")


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_file_that_is_cut_off_is_named(tmp_path: Path, official: dict[str, Tensor], name: str, share: float) -> None:
    file = tmp_path / name
    save_file(official, file) if file.suffix == ".safetensors" else torch.save(official, file)
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(UserError, match=f"{name} is damaged"):
        read_weights(file)


def test_text_and_script_archives_are_no_weights(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(UserError, match=r"text\.pt is damaged or holds no weights"):
        read_weights(tmp_path / "text.pt")


def test_weights_that_are_not_finite_are_refused(tmp_path: Path, official: dict[str, Tensor]) -> None:
    torch.save(official | {"head.stems.1.bn.bias": torch.full((64,), torch.nan)}, tmp_path / "w.pt")
    with pytest.raises(UserError, match=r"w\.pt: head\.stems\.1\.bn\.bias"):
        read_weights(tmp_path / "w.pt")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {STEM: torch.zeros(16, 3, 3, 3)},
            r"stem\.conv\.conv\.weight has the shape \(16, 3, 3, 3\).* 12 input channels",
        ),
        ({"head.cls_preds.0.weight": torch.tensor(1.0)}, r"cls_preds\.0\.weight has the shape \(\)"),
        ({"head.cls_preds.1.weight": torch.zeros(3, 64, 1, 1)}, r"cls_preds\.1\.weight has the shape \(3, 64, 1, 1\)"),
        ({"head.cls_preds.2.bias": torch.zeros(79)}, r"cls_preds\.2\.bias has the shape \(79,\)"),
    ],
)
def test_shapes_that_cannot_be_read_are_named(
    tmp_path: Path, official: dict[str, Tensor], changes: dict[str, Tensor], message: str
) -> None:
    torch.save(official | changes, tmp_path / "public.pth")
    save_checkpoint({"model": official | changes}, tmp_path / "own.pt")
    for file in tmp_path.iterdir():
        with pytest.raises(UserError, match=rf"{file.name}: .*{message}"):
            read_weights(file)


def test_a_stem_without_sides_is_named(tmp_path: Path, official: dict[str, Tensor]) -> None:
    torch.save(official | {STEM: torch.tensor(1.0)}, tmp_path / "w.pth")
    with pytest.raises(UserError, match=r"w\.pth: .*has the shape \(\)"):
        read_weights(tmp_path / "w.pth")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"config": None}, "its config is None; a mapping of options is needed"),
        ({"config": {"imgsz": "big"}}, "its imgsz is 'big'; a multiple of 32 is needed"),
        ({"class_names": 5}, "its class_names is 5; a list of names is needed"),
        ({"class_names": [1] * 80}, r"its class_names is \[1, 1.*; a list of names is needed"),
        ({"class_ids": [[1], [2]]}, r"its class_ids is \[\[1\], \[2\]\]; a list of numbers or texts is needed"),
        ({"norm": ["bn"]}, r"its norm is \['bn'\]; one of bn, syncbn, cmbn, wrn, gn, frozen is needed"),
    ],
)
def test_what_our_own_file_says_of_its_weights_is_checked(
    tmp_path: Path, official: dict[str, Tensor], entry: dict[str, Any], message: str
) -> None:
    save_checkpoint({"model": official, **entry}, tmp_path / "own.pt")
    with pytest.raises(UserError, match=rf"own\.pt: {message}"):
        read_weights(tmp_path / "own.pt")


@pytest.mark.parametrize("class_names", ["not json", "5", "[" * 100_000])
def test_class_names_of_safetensors_are_a_json_list(
    tmp_path: Path, official: dict[str, Tensor], class_names: str
) -> None:
    save_file(official, tmp_path / "own.safetensors", metadata={"format": FORMAT, "class_names": class_names})
    with pytest.raises(UserError, match=r"own\.safetensors: its class_names .*a list of names"):
        read_weights(tmp_path / "own.safetensors")


def test_class_outputs_of_another_width_are_reported() -> None:
    weights = own_weights(3, None)
    weights.state["head.cls_preds.0.weight"] = torch.zeros(3, 5, 1, 1)
    summary = load_weights(nano(3), weights, None)
    assert summary.reinitialised == (
        ("head.cls_preds.0.weight", "(3, 5, 1, 1) in the file, (3, 64, 1, 1) in the model"),
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("https://example.org/yolox_nano.pth", "nothing is downloaded.*yolox_nano.pth.*0.1.1rc0"),
        ("missing/yolox_s.pth", "missing/yolox_s.pth: no such file.*0.1.1rc0"),
        (".", "is a folder; a file is needed"),
    ],
)
def test_a_path_without_a_file(path: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_weights(path)


def test_other_kinds_of_files(tmp_path: Path) -> None:
    (tmp_path / "w.onnx").touch()
    with pytest.raises(UserError, match=r"w\.onnx: \.pth, \.pt, \.safetensors files can be read, not \.onnx"):
        read_weights(tmp_path / "w.onnx")


# sizes


@pytest.mark.parametrize("size", ["yolox_nano", "yolox_tiny", "yolox_s", "yolox_m", "yolox_l", "yolox_x"])
def test_the_size_follows_from_the_shapes(size: str) -> None:
    with torch.device("meta"):
        state = build_model(size, 2).state_dict()
    assert infer_size(Weights(path=Path("w.pt"), state=state, class_names=None)) == size


def test_a_size_outside_the_family_is_named() -> None:
    weights = own_weights(1, None)
    weights.state[STEM] = torch.zeros(20, 12, 3, 3)
    with pytest.raises(UserError, match=r"own\.pt.*20 channels"):
        infer_size(weights)


def test_weights_of_another_size_name_both() -> None:
    with torch.device("meta"):
        tiny = build_model("yolox_tiny", 1)
    with pytest.raises(UserError, match=r"own\.pt: weights of yolox_nano do not fit --model yolox_tiny"):
        load_weights(tiny, own_weights(1, None), None)


# classes


def class_rows(model: YOLOX) -> list[Tensor]:
    return [tensor for name, tensor in model.state_dict().items() if name.startswith("head.cls_preds.")]


def test_everything_is_loaded_when_the_classes_are_the_same() -> None:
    weights, model = own_weights(2, ("cat", "dog")), nano(2, seed=2)
    summary = load_weights(model, weights, ("cat", "dog"))
    assert all(torch.equal(tensor, weights.state[name]) for name, tensor in model.state_dict().items())
    assert summary.loaded == len(weights.state)
    assert summary.reinitialised == summary.unexpected == ()
    assert summary.classes_by_name == ("cat", "dog")


def test_class_outputs_go_by_name_whatever_the_order_and_spelling() -> None:
    weights, model, new = own_weights(3, ("Traffic Light", "dog", "cat")), nano(4, seed=2), nano(4, seed=2)
    summary = load_weights(model, weights, ("cat", "zebra", "traffic_light", "DOG"))
    source_rows = [tensor for name, tensor in weights.state.items() if name.startswith("head.cls_preds.")]
    for found, source, fresh in zip(class_rows(model), source_rows, class_rows(new), strict=True):
        assert torch.equal(found[[0, 2, 3]], source[[2, 0, 1]])
        assert torch.equal(found[1], fresh[1])
    assert summary.classes_by_name == ("cat", "traffic_light", "DOG")
    assert summary.reinitialised == (("class outputs of zebra", "not among the 3 classes of the file"),)


def test_new_classes_start_at_the_prior() -> None:
    model = nano(2, seed=2)
    load_weights(model, own_weights(1, ("cat",)), ("dog", "horse"))
    biases = [prediction.bias for prediction in model.head.cls_preds]
    assert all(torch.equal(bias, torch.full((2,), prior_bias())) for bias in biases)


def test_without_names_classes_go_by_position_only_where_their_numbers_agree() -> None:
    weights = own_weights(2, None)
    same, other = nano(2, seed=2), nano(3, seed=2)
    assert load_weights(same, weights, ("cat", "dog")).reinitialised == ()
    assert torch.equal(class_rows(same)[0], weights.state["head.cls_preds.0.weight"])
    summary = load_weights(other, weights, ("cat", "dog", "horse"))
    assert summary.reinitialised == (
        ("all 3 class outputs", "2 classes without known names in the file, 3 in the model"),
    )
    assert summary.loaded == len(weights.state) - 6
    assert torch.equal(class_rows(other)[0], class_rows(nano(3, seed=2))[0])


def test_group_norm_keeps_the_affine_and_drops_the_statistics() -> None:
    model = build_model("yolox_nano", 1, lambda num_channels: torch.nn.GroupNorm(4, num_channels))
    summary = load_weights(model, own_weights(1, ("cat",)), ("cat",))
    assert summary.reinitialised == ()
    assert summary.loaded == len(model.state_dict())
    assert (summary.unexpected, summary.dropped_statistics) == ((), 104)
    assert "running statistics of 104 norms dropped" in str(summary)


def test_group_norm_weights_in_a_model_with_batch_norm_lack_the_statistics() -> None:
    torch.manual_seed(1)
    state = build_model("yolox_nano", 1, norm_factory("gn")).state_dict()
    model = nano(1, seed=2)
    summary = load_weights(model, Weights(path=Path("own.pt"), state=state, class_names=None), None)
    assert summary.reinitialised == (("running statistics of 104 norms", "not in the file"),)
    assert torch.equal(model.state_dict()["head.stems.0.bn.weight"], state["head.stems.0.bn.weight"])


@pytest.mark.parametrize("norm", ["bn", "gn"])
def test_our_files_say_with_which_norm_they_were_trained(tmp_path: Path, norm: str) -> None:
    state = build_model("yolox_nano", 1, norm_factory(norm)).state_dict()
    save_checkpoint({"model": state, "class_names": ["a"], "norm": norm}, tmp_path / "own.pt")
    metadata = {"format": FORMAT, "class_names": json.dumps(["a"]), "norm": norm}
    save_file(state, tmp_path / "own.safetensors", metadata=metadata)
    assert [read_weights(tmp_path / name).norm for name in ("own.pt", "own.safetensors")] == [norm, norm]


def test_missing_and_misshapen_tensors_are_reported_with_the_reason() -> None:
    weights = own_weights(1, ("cat",))
    del weights.state["head.stems.0.bn.bias"]
    weights.state["head.stems.1.bn.bias"] = torch.zeros(3)
    summary = load_weights(nano(1, seed=2), weights, ("cat",))
    assert summary.reinitialised == (
        ("head.stems.0.bn.bias", "not in the file"),
        ("head.stems.1.bn.bias", "(3,) in the file, (64,) in the model"),
    )


def test_the_summary_reads_as_text() -> None:
    weights = own_weights(2, ("cat", "dog"))
    weights.state["extra"] = torch.zeros(1)
    text = str(load_weights(nano(2, seed=2), weights, ("cat", "horse")))
    assert text.splitlines() == [
        f"weights own.pt (yolox_nano): {len(weights.state) - 1} tensors loaded",
        "  class outputs taken over by name: cat",
        "  re-initialised: class outputs of horse (not among the 2 classes of the file)",
        "  unexpected, not used: extra",
    ]


@pytest.mark.real
@pytest.mark.parametrize("name", ["yolox_nano_coco_calibrated.pth", "yolox_nano_coco_calibrated.safetensors"])
def test_real_coco_weights_load_completely(real_data: Path, name: str) -> None:
    weights = read_weights(real_data / "weights" / name)
    assert infer_size(weights) == "yolox_nano"
    summary = load_weights(nano(80), weights, COCO_NAMES)
    assert (summary.loaded, summary.reinitialised, summary.unexpected) == (642, (), ())
