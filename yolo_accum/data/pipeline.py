"""Augmentations of the user's own: from a YAML file of albumentations, or from Python code."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.config.named_object import is_named_object, named_object
from yolo_accum.config.yaml_file import read_yaml
from yolo_accum.data.augment import BoxPipeline, BrokenTransformError, box_fault, transforms_from, transforms_of
from yolo_accum.data.mosaic import Scene
from yolo_accum.errors import UserError

OPTION = "--augmentations"
TOLERANCE_PX = 0.01
"""By so much a box may stand over the picture's edge."""


class UserAugmentations:
    """What ``--augmentations`` names, applied to finished training pictures; made again in every loader process.

    Args:
        place: FILE.yaml, ``module:NAME`` or ``path/to/file.py:NAME``.
        num_classes: labels are below this.
        min_visible: a box is kept when at least this share of its area is left inside the picture.
        min_box_px: a box is kept when both sides are at least this long, or as long as before.
    Raises:
        UserError: the file cannot be read, holds what is no transform, or the code does not make one.
    """

    def __init__(self, place: str, *, num_classes: int, min_visible: float, min_box_px: float) -> None:
        self.place = place
        self._num_classes = num_classes
        self._min_visible = min_visible
        self._min_box_px = min_box_px
        self._apply = self._opened(place)

    def __reduce__(self) -> tuple[Callable[..., UserAugmentations], tuple[Any, ...]]:
        # Their code and the watched transforms do not go through a pickle; a spawned process reads them anew.
        return _again, (self.place, self._num_classes, self._min_visible, self._min_box_px)

    def __call__(self, scene: Scene, rng: np.random.Generator) -> Scene:
        """The picture with its boxes after all transforms.

        Args:
            scene: square, its boxes within it.
            rng: decides everything.
        Raises:
            BrokenTransformError: a transform fails, changes size or type of the picture, or breaks boxes or labels.
        """
        return self._apply(scene, rng)

    def _opened(self, place: str) -> Callable[[Scene, np.random.Generator], Scene]:
        if Path(place).suffix.lower() in (".yaml", ".yml"):
            return self._with_boxes(*_from_yaml(Path(place)))
        if not is_named_object(place):
            raise UserError(
                f"{OPTION} {place}: a YAML file of albumentations, module:NAME or path/to/file.py:NAME is needed"
            )
        found = named_object(place, OPTION)
        if callable(found) and transforms_of(found) is None and not _parameters(found, place):
            try:
                found = found()
            except Exception as error:
                raise UserError(
                    f"{OPTION} {place}, called without arguments, failed ({type(error).__name__}: {error})"
                ) from error
        transforms = transforms_of(found)
        if transforms is not None:
            return self._with_boxes(*transforms)
        if not callable(found) or len(_parameters(found, place)) != 4:
            raise UserError(
                f"{OPTION} {place} is neither a transform of albumentations, nor a function without arguments that "
                "makes one, nor a function (image, boxes_xyxy_px, labels, rng) that returns image, boxes and labels"
            )
        return self._with_function(found, place.rpartition(":")[2])

    def _with_boxes(
        self, transforms: list[Any], limits: dict[str, float], probability: float
    ) -> Callable[[Scene, np.random.Generator], Scene]:
        pipeline = BoxPipeline(transforms, min_visible=self._min_visible, limits=limits, probability=probability)
        names = " > ".join(type(item).__name__ for item in transforms)

        def apply(scene: Scene, rng: np.random.Generator) -> Scene:
            image, boxes, numbers = pipeline(scene.image, scene.boxes_xyxy_px, rng)
            _check_image(image, scene.image, names)
            if fault := box_fault(boxes):
                raise BrokenTransformError(f"{names} left {fault}")
            before = scene.boxes_xyxy_px[numbers]
            min_sides = np.minimum(before[:, 2:] - before[:, :2], self._min_box_px) - 1e-3
            keep = (boxes[:, 2:] - boxes[:, :2] >= min_sides).all(axis=1)
            return _scene(image, boxes[keep], scene.labels[numbers][keep])

        return apply

    def _with_function(self, function: Callable[..., Any], name: str) -> Callable[[Scene, np.random.Generator], Scene]:
        def apply(scene: Scene, rng: np.random.Generator) -> Scene:
            try:
                result = function(scene.image.copy(), scene.boxes_xyxy_px.copy(), scene.labels.copy(), rng)
            except Exception as error:
                raise BrokenTransformError(f"{name} failed ({type(error).__name__}: {error})") from error
            if not isinstance(result, tuple) or len(result) != 3:
                raise BrokenTransformError(f"{name} returned no tuple of image, boxes and labels")
            image, boxes, labels = result
            _check_image(image, scene.image, name)
            boxes, labels = self._checked(boxes, labels, scene.image.shape[0], name)
            keep = (boxes[:, 2:] - boxes[:, :2] > 0).all(axis=1)
            return _scene(image, boxes[keep], labels[keep])

        return apply

    def _checked(self, boxes: object, labels: object, size_px: int, name: str) -> tuple[np.ndarray, np.ndarray]:
        """[N, 4] and [N] of what a function returned, if they can be trained on."""
        try:
            boxes, labels = np.asarray(boxes, dtype=np.float64), np.asarray(labels)
        except (TypeError, ValueError) as error:
            raise BrokenTransformError(f"{name} returned boxes that are no numbers ({error})") from error
        if not boxes.size:
            boxes = boxes.reshape(0, 4)
        if boxes.ndim != 2 or boxes.shape[1] != 4:
            raise BrokenTransformError(f"{name} returned boxes of the shape {boxes.shape}; [N, 4] is needed")
        if labels.shape != (len(boxes),):
            raise BrokenTransformError(
                f"{name} returned {len(boxes)} boxes, but labels of the shape {labels.shape}; one label a box is needed"
            )
        if fault := box_fault(boxes):
            raise BrokenTransformError(f"{name} returned {fault}")
        outside = (boxes < -TOLERANCE_PX).any(axis=1) | (boxes > size_px + TOLERANCE_PX).any(axis=1)
        if outside.any():
            values = ", ".join(f"{value:.6g}" for value in boxes[outside][0].tolist())
            raise BrokenTransformError(
                f"{name} returned a box ({int(outside.sum())} of {len(boxes)}) that leaves the picture of {size_px} x "
                f"{size_px} px: ({values}); clip or drop such boxes"
            )
        if len(labels) and not (
            np.issubdtype(labels.dtype, np.integer) and labels.min() >= 0 and labels.max() < self._num_classes
        ):
            raise BrokenTransformError(
                f"{name} returned labels {sorted(set(labels.tolist()))[:5]}; whole numbers from 0 to "
                f"{self._num_classes - 1} are needed"
            )
        return boxes.clip(0, size_px), labels


def _again(place: str, num_classes: int, min_visible: float, min_box_px: float) -> UserAugmentations:
    return UserAugmentations(place, num_classes=num_classes, min_visible=min_visible, min_box_px=min_box_px)


def _from_yaml(path: Path) -> tuple[list[Any], dict[str, float], float]:
    where = f"{OPTION} {path}"
    content = read_yaml(path, where)
    try:
        return transforms_from(content)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def _parameters(function: Any, place: str) -> list[str]:
    """Those that have to be given."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{OPTION} {place}: its arguments cannot be told ({error}); a plain function is needed"
        ) from error
    return [
        item.name
        for item in parameters
        if item.default is item.empty and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
    ]


def _check_image(image: object, before: np.ndarray, name: str) -> None:
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
        kind = f"values of type {image.dtype}" if isinstance(image, np.ndarray) else f"a {type(image).__name__}"
        raise BrokenTransformError(
            f"{name} made {kind} of the picture; an array of uint8 is needed (Normalize, ToFloat and ToTensorV2 have "
            "no place here: the network scales its input itself)"
        )
    if image.shape != before.shape:
        raise BrokenTransformError(
            f"{name} changed the picture from {_size(before)} to {_size(image)}; the size of the network input has to "
            "stay"
        )


def _size(image: np.ndarray) -> str:
    if image.ndim != 3 or image.shape[2] != 3:
        return f"the shape {image.shape}"
    return f"{image.shape[1]} x {image.shape[0]} px"


def _scene(image: np.ndarray, boxes: np.ndarray, labels: np.ndarray) -> Scene:
    rounded = boxes.astype(np.float32)
    keep = (rounded[:, 2:] > rounded[:, :2]).all(axis=1)
    return Scene(np.ascontiguousarray(image), rounded[keep], labels[keep].astype(np.int64))
