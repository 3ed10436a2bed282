"""Weights from files: public checkpoints, safetensors, our own checkpoints; and how they fill a model.

Official YOLOX weights want BGR in 0..255. Every model of this project takes RGB in 0..1, so the difference is folded
into the stem while reading; gradients of all layers then have comparable sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import torch
from torch import Tensor

from yolo_accum.errors import UserError
from yolo_accum.model.coco_names import COCO_NAMES
from yolo_accum.model.sizes import BLOCKS, model_sizes
from yolo_accum.model.weight_files import Description, read_description, read_file
from yolo_accum.model.yolox import YOLOX

FORMAT = "yolo-accum"
"""Value of the key ``format`` in our own checkpoints, and of the metadata ``format`` of our safetensors files. Such a
file holds the (averaged) weights under ``model``, RGB 0..1, ``class_names`` (JSON text in safetensors) and ``norm``; a
checkpoint also ``class_ids`` and its ``config``."""
STEM = "backbone.backbone.stem.conv.conv.weight"
STEM_INPUTS = 12
CLASS_OUTPUTS = "head.cls_preds."

_PLACES: tuple[tuple[str, ...], ...] = (
    ("ema", "module"),
    ("ema_state_dict",),
    ("ema",),
    ("model",),
    ("state_dict",),
    (),
)
"""Where public trainers keep their weights; averaged ones come first."""
_PREFIXES = ("module.", "_orig_mod.", "model.model.")
"""Left in names by data parallelism, torch.compile and Lightning."""
_OTHER_FAMILIES = (
    (r"^(model\.)?\d+\.(conv|cv1|cv2|m)\b", "a layer-numbered YOLO such as v5, v7, v8 or v9"),
    (r"bbox_head\.", "an MMDetection or MMYOLO model"),
    (r"(transformer|decoder|encoder)\.", "a DETR-like transformer"),
    (r"^(layer[1-4]|features|blocks)\.", "an image classifier"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights:
    """What a file holds."""

    path: Path
    state: dict[str, Tensor]
    """Tensors by official name, float32, for RGB in 0..1."""
    class_names: tuple[str, ...] | None
    """Names of the class outputs, where they are known."""
    class_ids: tuple[int | str, ...] | None = None
    """What the classes are called in the data that a checkpoint of ours was trained on."""
    norm: str = "bn"
    """What a checkpoint of ours was trained with; public weights have batch norm."""
    trained_size_px: int | None = None
    """Side of the network input in that training."""

    @property
    def num_classes(self) -> int:
        return len(self.state[f"{CLASS_OUTPUTS}0.weight"])


@dataclass(frozen=True, kw_only=True)
class WeightsSummary:
    """What became of the weights of a file."""

    source: str
    """File and model size."""
    loaded: int
    """Tensors of the model that were taken over, class outputs included where any class was."""
    reinitialised: tuple[tuple[str, str], ...]
    """What kept its new values, and why."""
    unexpected: tuple[str, ...]
    """Names in the file that the model has no use for."""
    classes_by_name: tuple[str, ...]
    """Classes of the model whose outputs were found by name."""
    dropped_statistics: int = 0
    """Norms whose running statistics the model has no use for, because its own norms keep none."""

    def lines(self) -> list[str]:
        """For people."""
        lines = [f"weights {self.source}: {self.loaded} tensors loaded"]
        if self.classes_by_name:
            lines.append(f"  class outputs taken over by name: {_some(self.classes_by_name)}")
        lines += [f"  re-initialised: {what} ({why})" for what, why in self.reinitialised]
        if self.dropped_statistics:
            lines.append(
                f"  running statistics of {self.dropped_statistics} norms dropped: the model's norms keep none; "
                "scale and shift were taken over"
            )
        if self.unexpected:
            lines.append(f"  unexpected, not used: {_some(self.unexpected)}")
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())


def read_weights(path: str | Path) -> Weights:
    """The weights in a file.

    Args:
        path: ``.pth`` or ``.pt`` (a state dict, alone or under the usual keys) or ``.safetensors``. Averaged weights
            are preferred where a checkpoint holds both.
    Raises:
        UserError: no such file, a web address, damaged, pickled objects, weights of another family, or a description
            that does not fit them.
    """
    file, content = read_file(path)
    is_own = content.get("format") == FORMAT
    found = content.get("model") if is_own else _unwrap(content)
    if not _is_state(found):
        raise UserError(f"{file}: no weights in it; a state dict is expected, alone or under ema, model or state_dict")
    state = {_bare_name(name): _float32(tensor) for name, tensor in found.items() if _is_named(name, tensor)}
    _check_family(file, state)
    _check_shapes(file, state)
    if not is_own:
        state[STEM] = fold_stem(state[STEM])
    described = read_description(file, content) if is_own else Description(class_names=COCO_NAMES)
    num_classes = len(state[f"{CLASS_OUTPUTS}0.weight"])
    return Weights(
        path=file,
        state=state,
        class_names=described.class_names if len(described.class_names) == num_classes else None,
        class_ids=described.class_ids if len(described.class_ids) == num_classes else None,
        norm=described.norm,
        trained_size_px=described.trained_size_px,
    )


def fold_stem(weight: Tensor) -> Tensor:
    """The stem for RGB in 0..1 that does what ``weight`` does for BGR in 0..255.

    Args:
        weight: [C, 12, 3, 3], input channels in four patches of three colours.
    Returns:
        [C, 12, 3, 3].
    """
    return weight.unflatten(1, (4, 3)).flip(2).flatten(1, 2) * 255


def infer_size(weights: Weights) -> str:
    """Name of the model size that the weights belong to.

    Raises:
        UserError: no size of the family has these shapes.
    """
    stem_channels = len(weights.state[STEM])
    depthwise = "backbone.backbone.dark2.0.dconv.conv.weight" in weights.state
    block = re.compile(r"backbone\.backbone\.dark3\.1\.m\.(\d+)\.")
    num_blocks = len({match[1] for name in weights.state if (match := block.match(name))})
    for size in model_sizes().values():
        if (size.stem_channels, BLOCKS * size.num_blocks, size.depthwise) == (stem_channels, num_blocks, depthwise):
            return size.name
    raise UserError(
        f"{weights.path}: YOLOX weights of an unknown size ({stem_channels} channels in the stem, {num_blocks} blocks "
        f"in the second stage); known are {', '.join(model_sizes())}"
    )


def load_weights(model: YOLOX, weights: Weights, class_names: Sequence[str] | None) -> WeightsSummary:
    """Fill a new model with weights; what has no counterpart keeps the values the model was built with.

    Class outputs go by name (ignoring case, spaces, ``_`` and ``-``) where both sides know names, by position where
    one does not and the numbers agree, and stay new otherwise.

    Args:
        model: of any number of classes, just built.
        weights: what `read_weights` gave.
        class_names: names of the model's classes, or None when nobody knows them.
    Returns:
        What was loaded and what was not.
    Raises:
        UserError: weights of another size.
    """
    size, wanted = infer_size(weights), model.size.name
    if size != wanted:
        raise UserError(
            f"{weights.path}: weights of {size} do not fit --model {wanted}; leave --model out or give both alike"
        )
    target = model.state_dict()
    source = dict(weights.state)
    pairs, matched_names, reinitialised = _match_classes(weights, class_names, model.num_classes)
    dropped = _drop_statistics(source) if not any(map(_is_statistic, target)) else 0
    without = [name for name in target if _is_statistic(name) and name not in source]
    if without:
        num_norms = sum(name.endswith(".running_mean") for name in without)
        reinitialised.append((f"running statistics of {num_norms} norms", "not in the file"))
    loaded = 0
    with torch.no_grad():
        for name, tensor in target.items():
            if name in without:
                continue
            if name not in source:
                reinitialised.append((name, "not in the file"))
                continue
            found = source.pop(name)
            if name.startswith(CLASS_OUTPUTS) and found.shape[1:] == tensor.shape[1:]:
                for row, source_row in pairs:
                    tensor[row] = found[source_row]
                loaded += bool(pairs)
            elif found.shape == tensor.shape:
                tensor.copy_(found)
                loaded += 1
            else:
                reinitialised.append((name, f"{tuple(found.shape)} in the file, {tuple(tensor.shape)} in the model"))
    return WeightsSummary(
        source=f"{weights.path} ({size})",
        loaded=loaded,
        reinitialised=tuple(reinitialised),
        unexpected=tuple(source),
        classes_by_name=matched_names,
        dropped_statistics=dropped,
    )


def _is_statistic(name: str) -> bool:
    return name.rpartition(".")[2] in ("running_mean", "running_var", "num_batches_tracked")


def _drop_statistics(state: dict[str, Tensor]) -> int:
    """Take the running statistics of all norms out; returns of how many."""
    names = [name for name in state if _is_statistic(name)]
    for name in names:
        del state[name]
    return sum(name.endswith(".running_mean") for name in names)


def _match_classes(
    weights: Weights, class_names: Sequence[str] | None, num_classes: int
) -> tuple[list[tuple[int, int]], tuple[str, ...], list[tuple[str, str]]]:
    """Rows (model, file) of the class outputs that belong together, the names that matched, and what did not."""
    if weights.class_names is None or class_names is None:
        if weights.num_classes == num_classes:
            return [(row, row) for row in range(num_classes)], (), []
        why = f"{weights.num_classes} classes without known names in the file, {num_classes} in the model"
        return [], (), [(f"all {num_classes} class outputs", why)]
    row_of = {_comparable(name): row for row, name in reversed(list(enumerate(weights.class_names)))}
    pairs = [(row, row_of[_comparable(name)]) for row, name in enumerate(class_names) if _comparable(name) in row_of]
    matched_rows = {row for row, _ in pairs}
    new = [name for row, name in enumerate(class_names) if row not in matched_rows]
    missing = (
        [(f"class outputs of {_some(new)}", f"not among the {weights.num_classes} classes of the file")] if new else []
    )
    return pairs, tuple(class_names[row] for row, _ in pairs), missing


def _unwrap(content: Mapping[str, Any]) -> Any:
    for place in _PLACES:
        inner: Any = content
        for key in place:
            inner = inner.get(key) if isinstance(inner, Mapping) else None
        if _is_state(inner):
            return inner
    return None


def _is_state(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping) and any(isinstance(item, Tensor) for item in value.values())


def _is_named(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, Tensor)


def _bare_name(name: str) -> str:
    while prefix := next((prefix for prefix in _PREFIXES if name.startswith(prefix)), ""):
        name = name.removeprefix(prefix)
    return name


def _float32(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _check_family(file: Path, state: Mapping[str, Tensor]) -> None:
    if STEM in state and f"{CLASS_OUTPUTS}0.weight" in state:
        broken = next((name for name, tensor in state.items() if not tensor.isfinite().all()), None)
        if broken is not None:
            raise UserError(
                f"{file}: {broken} holds numbers that are not finite; the training that wrote it had diverged"
            )
        return
    guesses = (family for pattern, family in _OTHER_FAMILIES if any(re.search(pattern, name) for name in state))
    family = next(guesses, "an unknown family")
    raise UserError(
        f"{file}: weights of {family} (names such as {_some(tuple(state), 3)}); YOLOX weights are needed: "
        f"{', '.join(model_sizes())}"
    )


def _check_shapes(file: Path, state: Mapping[str, Tensor]) -> None:
    stem = tuple(state[STEM].shape)
    if len(stem) != 4 or stem[1] != STEM_INPUTS:
        raise UserError(
            f"{file}: {STEM} has the shape {stem}; the stem of YOLOX has {STEM_INPUTS} input channels: four patches of "
            "three colours"
        )
    outputs = {name: tuple(tensor.shape) for name, tensor in state.items() if name.startswith(CLASS_OUTPUTS)}
    first, num_classes = f"{CLASS_OUTPUTS}0.weight", outputs[f"{CLASS_OUTPUTS}0.weight"][:1]
    for name, shape in outputs.items():
        if not shape or shape[:1] != num_classes:
            raise UserError(
                f"{file}: {name} has the shape {shape} and {first} {outputs[first]}; all class outputs need the same "
                "number of classes, which comes first"
            )


def _comparable(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).casefold()


def _some(names: Sequence[str], most: int = 8) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
