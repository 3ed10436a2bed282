"""Photometric extras and pipelines of the user's own from albumentations; the only module that imports it."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from yolo_accum.config.options import closest
from yolo_accum.errors import UserError

# Its import would otherwise ask a server for newer versions.
os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")

import albumentations
from albumentations.core.composition import BaseCompose
from albumentations.core.transforms_interface import BasicTransform


class Photometric:
    """Blur, noise, grey, local contrast and JPEG artefacts, each with the same probability, in this order.

    The library's own composition would draw from a state that outlives the call. Here every transform is seeded
    from the sample's generator before it is applied (13 us), so a sample depends on nothing that came before it.

    Args:
        probability: of each of the five, 0..1.
    """

    def __init__(self, probability: float) -> None:
        self._probability = probability
        self._transforms = (
            albumentations.GaussianBlur(blur_limit=(3, 7), p=1),
            albumentations.GaussNoise(std_range=(0.01, 0.06), p=1),
            albumentations.ToGray(p=1),
            albumentations.CLAHE(clip_limit=(1, 3), p=1),
            albumentations.ImageCompression(quality_range=(40, 90), p=1),
        )

    def __call__(self, image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Vary a picture.

        Args:
            image: [H, W, 3] uint8, RGB; not written to.
            rng: decides everything; ten draws.
        Returns:
            [H, W, 3] uint8; the picture itself when no transform comes up.
        """
        chances = rng.random(len(self._transforms))
        seeds = rng.integers(2**32, size=len(self._transforms))
        for transform, chance, seed in zip(self._transforms, chances, seeds, strict=True):
            if chance < self._probability:
                transform.set_random_seed(int(seed))
                image = transform(image=image)["image"]
        return image


class BrokenTransformError(UserError):
    """A transform failed, or left boxes or a picture that cannot be trained on; the message names the transform."""


class BoxPipeline:
    """Transforms of albumentations on pictures with boxes, every draw decided by the generator that is passed in.

    The library gives all transforms of a composition one seed, so that those with the same probability would come up
    together; here each gets its own. Where the library drops boxes that are no numbers or turned inside out, here the
    transform that made them so is named.

    Args:
        transforms: of albumentations, in order.
        min_visible: a box is kept when at least this share of its area is left inside the picture.
        limits: ``min_area``, ``min_width`` and so on of the library's own ``BboxParams``, kept to as well.
        probability: of the whole.
    """

    def __init__(
        self,
        transforms: Sequence[Any],
        *,
        min_visible: float,
        limits: Mapping[str, float] | None = None,
        probability: float = 1.0,
    ) -> None:
        limits = {"min_visibility": 0.0, **(limits or {})}
        limits["min_visibility"] = max(limits["min_visibility"], min_visible)
        self._composition = albumentations.Compose(
            list(transforms),
            bbox_params=albumentations.BboxParams(
                format="pascal_voc", label_fields=["numbers"], clip=True, **{**limits, "check_each_transform": True}
            ),
            p=probability,
        )
        self._nodes = list(_walk(self._composition))
        for node in self._nodes:
            if isinstance(node, BasicTransform):
                _watch(node)

    def __call__(
        self, image: np.ndarray, boxes_xyxy_px: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Transform a picture.

        Args:
            image: [H, W, 3] uint8, RGB.
            boxes_xyxy_px: [N, 4], within the picture.
            rng: decides everything; one draw for each transform.
        Returns:
            the picture, [M, 4] float64 boxes within it, and [M] int64, which of the N each of them was.
        Raises:
            BrokenTransformError: a transform failed, or left something that cannot be trained on.
        """
        seeds = rng.integers(2**32, size=len(self._nodes))
        for node, seed in zip(self._nodes, seeds, strict=True):
            node.set_random_seed(int(seed))
        try:
            result = self._composition(image=image, bboxes=boxes_xyxy_px, numbers=np.arange(len(boxes_xyxy_px)))
        except BrokenTransformError:
            raise
        except Exception as error:  # what a composition raises between its transforms
            raise BrokenTransformError(f"the composition failed ({_one_line(error)})") from error
        boxes = np.asarray(result["bboxes"], dtype=np.float64).reshape(-1, 4)
        return result["image"], boxes, np.asarray(result["numbers"], dtype=np.int64)


def transforms_of(value: object) -> tuple[list[Any], dict[str, float], float] | None:
    """Transforms, limits of boxes and probability of an object of albumentations; None for anything else."""
    if isinstance(value, albumentations.Compose):
        boxes = value.processors.get("bboxes")
        return list(value.transforms), _limits(vars(boxes.params)) if boxes is not None else {}, value.p
    if isinstance(value, BasicTransform | BaseCompose):
        return [value], {}, 1.0
    return None


def transforms_from(content: object) -> tuple[list[Any], dict[str, float], float]:
    """The same from what ``albumentations.to_dict`` returns, or from the list of its transforms.

    Only transforms of albumentations are made, by name and with plain values: no code of the file is run.

    Raises:
        UserError: what is no transform, or an argument that it does not take; says where, and what would be right.
    """
    if isinstance(content, dict) and "transform" in content:
        content = content["transform"]
    if isinstance(content, list):
        content = {"__class_fullname__": "Compose", "transforms": content}
    if not isinstance(content, dict) or "__class_fullname__" not in content:
        raise UserError(
            "the form of albumentations.to_dict is needed: 'transform:' with a '__class_fullname__' of Compose and "
            "its 'transforms', or a list of these"
        )
    if _plain_name(content["__class_fullname__"]) != "Compose":
        return [_made(content, "transform")], {}, 1.0
    nodes = content.get("transforms")
    if not isinstance(nodes, list) or not nodes:
        raise UserError("transforms: a list of at least one transform is needed")
    transforms = [_made(node, f"transform {number}") for number, node in enumerate(nodes, start=1)]
    probability = content.get("p", 1.0)
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
        raise UserError(f"p: {probability!r}: a probability from 0 to 1 is needed")
    unknown = sorted(set(content) - {"__class_fullname__", *inspect.signature(albumentations.Compose).parameters})
    if unknown:
        raise UserError(f"Compose takes no argument {unknown[0]}")
    boxes = content.get("bbox_params") or {}
    if not isinstance(boxes, dict):
        raise UserError("bbox_params: a mapping is needed")
    return transforms, _limits(boxes), float(probability)


def _limits(boxes: Mapping[str, Any]) -> dict[str, float]:
    """What is kept of the library's own parameters of boxes; format and label fields are this program's business."""
    names = ("min_area", "min_visibility", "min_width", "min_height", "max_accept_ratio")
    return {name: boxes[name] for name in names if boxes.get(name) is not None}


def _made(node: object, where: str) -> Any:
    """One transform from its mapping, with all that it holds."""
    if not isinstance(node, dict) or not isinstance(node.get("__class_fullname__"), str):
        raise UserError(f"{where}: a mapping with '__class_fullname__' is needed")
    name = _plain_name(node["__class_fullname__"])
    known = _known_transforms()
    if name not in known:
        raise UserError(
            f"{where}: albumentations {albumentations.__version__} has no transform {name}{closest(name, known)}"
        )
    kind = known[name]
    arguments = {key: value for key, value in node.items() if key != "__class_fullname__"}
    parameters = [key for key in inspect.signature(kind).parameters if key not in ("args", "kwargs", "always_apply")]
    for key in arguments:
        if key not in parameters and key != "transforms":
            raise UserError(
                f"{where}: {name} has no argument {key}{closest(key, parameters)}; it takes {', '.join(parameters)}"
            )
    if "transforms" in arguments:
        inner = arguments["transforms"]
        if not isinstance(inner, list) or not inner or not issubclass(kind, BaseCompose):
            raise UserError(f"{where}: {name}: transforms: a list belongs to a composition such as OneOf")
        arguments["transforms"] = [
            _made(item, f"{where}, {name} {number}") for number, item in enumerate(inner, start=1)
        ]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the library warns of values that it then does not use
            return kind(**arguments)
    except Exception as error:
        raise UserError(f"{where}: {name} cannot be made ({_one_line(error)})") from error


def _known_transforms() -> dict[str, type]:
    """All transforms and compositions of albumentations that take plain values, by name."""
    found = {
        name: value
        for name, value in vars(albumentations).items()
        if inspect.isclass(value) and issubclass(value, BasicTransform | BaseCompose) and not inspect.isabstract(value)
    }
    for name in ("Lambda", "BaseCompose", "BasicTransform", "DualTransform", "ImageOnlyTransform"):
        found.pop(name, None)
    return found


def _plain_name(full_name: object) -> str:
    name = str(full_name)
    return name.rpartition(".")[2] if name.startswith("albumentations.") else name


def _walk(node: Any) -> Iterator[Any]:
    """A composition and all that it holds, parents first."""
    yield node
    if isinstance(node, BaseCompose):
        for child in node.transforms:
            yield from _walk(child)


def _watch(transform: Any) -> None:
    """Let a transform name itself when it fails or leaves what cannot be trained on."""
    name = type(transform).__name__
    apply, draw = transform.apply_with_params, transform.get_params_dependent_on_data

    def watched_draw(*args: Any, **kwargs: Any) -> Any:
        try:
            return draw(*args, **kwargs)
        except Exception as error:
            raise BrokenTransformError(f"{name} failed ({_one_line(error)})") from error

    def watched(*args: Any, **kwargs: Any) -> Any:
        try:
            result = apply(*args, **kwargs)
        except Exception as error:
            raise BrokenTransformError(f"{name} failed ({_one_line(error)})") from error
        boxes = np.asarray(result.get("bboxes", ()), dtype=np.float64)
        if boxes.size:
            if boxes.ndim != 2 or boxes.shape[1] < 5:
                raise BrokenTransformError(f"{name} left boxes of the shape {boxes.shape} without their labels")
            if fault := box_fault(boxes[:, :4]):
                raise BrokenTransformError(f"{name} left {fault}")
        return result

    transform.apply_with_params, transform.get_params_dependent_on_data = watched, watched_draw


def box_fault(boxes: np.ndarray) -> str | None:
    """What is wrong with [N, 4] boxes; None for boxes of finite numbers that are not turned inside out."""
    finite = np.all(np.isfinite(boxes), axis=1)
    if not finite.all():
        return f"{_counted(np.logical_not(finite))} that is no finite number: {_spelled(boxes[~finite][0])}"
    turned = np.any(boxes[:, 2:] < boxes[:, :2], axis=1)
    if turned.any():
        return f"{_counted(turned)} that ends before it begins: {_spelled(boxes[turned][0])}"
    return None


def _counted(affected: np.ndarray) -> str:
    return f"a box ({int(affected.sum())} of {len(affected)})"


def _spelled(box: np.ndarray) -> str:
    return "(" + ", ".join(f"{value:.6g}" for value in box.tolist()) + ")"


def _one_line(error: BaseException) -> str:
    """The library's messages, without the links of its checks."""
    lines = [line.strip() for line in str(error).splitlines() if "For further information" not in line]
    return f"{type(error).__name__}: {' '.join(lines)}"[:400]
