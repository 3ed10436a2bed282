"""Augmentations of the user's own: what they may do, and how what they must not do is told."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import albumentations
import numpy as np
import pytest
import yaml

from yolo_accum.data.augment import BrokenTransformError
from yolo_accum.data.mosaic import Scene
from yolo_accum.data.order import keyed_rng
from yolo_accum.data.pipeline import UserAugmentations
from yolo_accum.errors import UserError

SIZE_PX = 64
IMAGE = np.random.default_rng(0).integers(0, 256, (SIZE_PX, SIZE_PX, 3), dtype=np.uint8)
BOXES = np.array([[4, 4, 20, 24], [40, 30, 60, 60], [0, 0, 64, 64], [10, 50, 11, 51]], dtype=np.float32)
LABELS = np.array([2, 0, 1, 2], dtype=np.int64)


def opened(place: str | Path, *, min_visible: float = 0.1) -> UserAugmentations:
    return UserAugmentations(str(place), num_classes=3, min_visible=min_visible, min_box_px=2)


def applied(augmentations: UserAugmentations, position: int = 0, boxes: np.ndarray = BOXES) -> Scene:
    scene = Scene(IMAGE.copy(), boxes, LABELS[: len(boxes)])
    return augmentations(scene, keyed_rng(0, 0, position, 9))


def yaml_file(folder: Path, transform: Any) -> Path:
    """What ``albumentations.to_dict`` makes of it, or any other content."""
    content = transform if isinstance(transform, dict | list | str) else albumentations.to_dict(transform)
    path = folder / "mine.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
    return path


def python_file(folder: Path, code: str) -> str:
    path = folder / "mine.py"
    path.write_text(f"import albumentations as A\nimport numpy as np\n{code}\n", encoding="utf-8")
    return f"{path}:make"


def test_the_form_that_albumentations_writes_is_read(tmp_path: Path) -> None:
    """A flip of everything: boxes and labels follow by hand."""
    path = yaml_file(tmp_path, albumentations.Compose([albumentations.HorizontalFlip(p=1)]))
    result = applied(opened(path))
    assert np.array_equal(result.image, IMAGE[:, ::-1])
    np.testing.assert_allclose(
        result.boxes_xyxy_px, [[44, 4, 60, 24], [4, 30, 24, 60], [0, 0, 64, 64], [53, 50, 54, 51]], atol=1e-4
    )
    assert result.labels.tolist() == [2, 0, 1, 2]
    assert result.boxes_xyxy_px.dtype == np.float32 and result.labels.dtype == np.int64


@pytest.mark.parametrize("form", ["dict", "list", "one"])
def test_shorter_forms(tmp_path: Path, form: str) -> None:
    node = {"__class_fullname__": "VerticalFlip", "p": 1.0}
    content: Any = {"dict": {"__class_fullname__": "Compose", "transforms": [node]}, "list": [node], "one": node}[form]
    assert np.array_equal(applied(opened(yaml_file(tmp_path, content))).image, IMAGE[::-1])


MANY = albumentations.Compose(
    [
        albumentations.HorizontalFlip(p=0.5),
        albumentations.VerticalFlip(p=0.5),
        albumentations.Affine(rotate=(-20, 20), translate_percent=(-0.3, 0.3), p=0.8),
        albumentations.OneOf([albumentations.GaussianBlur(p=1), albumentations.RandomBrightnessContrast(p=1)], p=0.5),
        albumentations.CoarseDropout(p=0.5),
    ],
    bbox_params=albumentations.BboxParams(format="yolo", label_fields=["class_labels"]),
)


def test_every_draw_is_decided_by_the_generator(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, MANY)
    one, two = opened(path), opened(path)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - the state that must not matter
    first = [applied(one, position) for position in range(12)]
    spawned = pickle.loads(pickle.dumps(two))
    again = [applied(spawned, position) for position in reversed(range(12))][::-1]
    for before, after in zip(first, again, strict=True):
        assert np.array_equal(before.image, after.image)
        assert np.array_equal(before.boxes_xyxy_px, after.boxes_xyxy_px)
        assert np.array_equal(before.labels, after.labels)
        assert (before.boxes_xyxy_px[:, 2:] > before.boxes_xyxy_px[:, :2]).all()
    assert len({scene.image.tobytes() for scene in first}) > 8


def test_transforms_come_up_independently_of_one_another(tmp_path: Path) -> None:
    """The library seeds all of a composition alike: both flips would always come up together."""
    flips = albumentations.Compose([albumentations.HorizontalFlip(p=0.5), albumentations.VerticalFlip(p=0.5)])
    pipeline = opened(yaml_file(tmp_path, flips))
    results = {applied(pipeline, position).image.tobytes() for position in range(40)}
    views = (IMAGE, IMAGE[::-1], IMAGE[:, ::-1], IMAGE[::-1, ::-1])
    assert results == {np.ascontiguousarray(image).tobytes() for image in views}


def test_boxes_that_leave_the_picture_are_clipped_and_dropped_by_the_visible_share(tmp_path: Path) -> None:
    """Shifted right by 24 px: the first stays whole, the second has 0 of 20 columns left, the third 40 of 64."""
    shift = albumentations.Affine(translate_px={"x": (24, 24), "y": (0, 0)}, p=1)
    path = yaml_file(tmp_path, albumentations.Compose([shift]))
    result = applied(opened(path, min_visible=0.6))
    np.testing.assert_allclose(result.boxes_xyxy_px, [[28, 4, 44, 24], [24, 0, 64, 64], [34, 50, 35, 51]], atol=1e-3)
    assert result.labels.tolist() == [2, 1, 2]  # a box of 1 px was that small before
    assert applied(opened(path, min_visible=0.7)).labels.tolist() == [2, 2]


def test_own_limits_of_the_pipeline_are_kept_to(tmp_path: Path) -> None:
    limits = albumentations.BboxParams(format="coco", label_fields=["x"], min_area=300)
    path = yaml_file(tmp_path, albumentations.Compose([albumentations.HorizontalFlip(p=1)], bbox_params=limits))
    assert applied(opened(path)).labels.tolist() == [2, 0, 1]


def test_a_picture_without_boxes(tmp_path: Path) -> None:
    result = applied(opened(yaml_file(tmp_path, MANY)), boxes=BOXES[:0])
    assert result.boxes_xyxy_px.shape == (0, 4) and result.labels.shape == (0,)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1", "not a YAML file"),
        ("!!python/object/apply:os.system ['true']", "not a YAML file of plain values"),
        ("", "the form of albumentations.to_dict is needed"),
        ("transforms: []", "the form of albumentations.to_dict is needed"),
        ([], "a list of at least one transform is needed"),
        (["HorizontalFlip"], "transform 1: a mapping with '__class_fullname__' is needed"),
        ([{"__class_fullname__": "HorizontlFlip"}], r"no transform HorizontlFlip \(did you mean HorizontalFlip\?\)"),
        ([{"__class_fullname__": "os.system"}], "no transform os.system"),
        ([{"__class_fullname__": "Lambda"}], "no transform Lambda"),
        (
            [{"__class_fullname__": "Affine", "rotat": 3}],
            r"transform 1: Affine has no argument rotat \(did you mean rotate\?\)",
        ),
        ([{"__class_fullname__": "Affine", "rotate": "x"}], "transform 1: Affine cannot be made"),
        ([{"__class_fullname__": "HorizontalFlip", "p": 3}], "HorizontalFlip cannot be made"),
        (
            [{"__class_fullname__": "OneOf", "transforms": [{"__class_fullname__": "Blurr"}]}],
            r"transform 1, OneOf 1: .* no transform Blurr \(did you mean Blur\?\)",
        ),
        ([{"__class_fullname__": "Blur", "transforms": []}], "Blur: transforms: a list belongs to a composition"),
        ({"__class_fullname__": "Compose", "p": 2, "transforms": [{"__class_fullname__": "Blur"}]}, "p: 2"),
        ({"__class_fullname__": "Compose", "q": 2, "transforms": [{"__class_fullname__": "Blur"}]}, "no argument q"),
    ],
)
def test_what_a_yaml_file_may_not_hold_is_told_in_one_sentence(tmp_path: Path, content: Any, message: str) -> None:
    path = yaml_file(tmp_path, content)
    with pytest.raises(UserError, match=message) as caught:
        opened(path)
    assert str(caught.value).startswith(f"--augmentations {path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere.yaml", "No such file"),
        ("nowhere.py:make", "there is no such file"),
        ("yolo_accum.nowhere:make", "cannot be imported"),
        ("yolo_accum.errors:UserEror", r"has no UserEror \(did you mean UserError\?\)"),
        ("yolo_accum.errors:__doc__", "is neither a transform of albumentations"),
        ("mine.txt", "a YAML file of albumentations, module:NAME or path/to/file.py:NAME is needed"),
    ],
)
def test_what_is_not_there(place: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        opened(place)


@pytest.mark.parametrize(
    "code",
    [
        "make = A.HorizontalFlip(p=1)",
        "make = A.Compose([A.HorizontalFlip(p=1)])",
        "def make():\n    return [A.HorizontalFlip(p=1)][0]",
        "def make(image, boxes, labels, rng):\n"
        "    boxes[:, [0, 2]] = image.shape[1] - boxes[:, [2, 0]]\n    return image[:, ::-1], boxes, labels",
    ],
)
def test_python_objects_and_functions(tmp_path: Path, code: str) -> None:
    augmentations = opened(python_file(tmp_path, code))
    result = applied(pickle.loads(pickle.dumps(augmentations)))
    assert np.array_equal(result.image, IMAGE[:, ::-1])
    np.testing.assert_allclose(result.boxes_xyxy_px[0], [44, 4, 60, 24], atol=1e-4)
    assert result.labels.tolist() == [2, 0, 1, 2]


def test_code_that_fails_on_import_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be imported \(ZeroDivisionError"):
        opened(python_file(tmp_path, "1 / 0"))
    with pytest.raises(UserError, match=r"called without arguments, failed \(KeyError"):
        opened(python_file(tmp_path, "def make():\n    return {}['x']"))


FUNCTION = "def make(image, boxes, labels, rng):\n    return "


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("image, boxes * np.nan, labels", "make returned a box .* no finite number"),
        ("image, boxes[:, [2, 1, 0, 3]], labels", "make returned a box .* ends before it begins"),
        ("image, boxes + 30, labels", r"make returned a box \(3 of 4\) that leaves the picture of 64 x 64 px"),
        ("image, boxes[:2], labels", r"2 boxes, but labels of the shape \(4,\)"),
        ("image, boxes[:, :3], labels", r"boxes of the shape \(4, 3\)"),
        ("image, boxes, labels + 1", "whole numbers from 0 to 2 are needed"),
        ("image, boxes, labels * 0.5", "whole numbers from 0 to 2 are needed"),
        ("image[:60], boxes * 0.5, labels", "changed the picture from 64 x 64 px to 64 x 60 px"),
        ("image / 255, boxes, labels", "values of type float64 of the picture; an array of uint8"),
        ("None, boxes, labels", "a NoneType of the picture"),
        ("image", "returned no tuple of image, boxes and labels"),
        ("1 / 0", r"make failed \(ZeroDivisionError"),
        ("image, 'boxes', labels", "boxes that are no numbers"),
    ],
)
def test_what_a_function_breaks_is_named(tmp_path: Path, returned: str, message: str) -> None:
    augmentations = opened(python_file(tmp_path, FUNCTION + returned))
    with pytest.raises(BrokenTransformError, match=message):
        applied(augmentations)


CLASS = """
class Bad(A.DualTransform):
    def apply(self, image, **parameters):
        return IMAGE
    def apply_to_bboxes(self, boxes, **parameters):
        return BOXES
make = A.Compose([A.HorizontalFlip(p=1), A.OneOf([Bad(p=1)], p=1)])
"""


@pytest.mark.parametrize(
    ("image", "boxes", "message"),
    [
        ("image", "boxes * np.nan", "Bad left a box .* no finite number"),
        ("image", "boxes[:, [2, 1, 0, 3, 4]]", "Bad left a box .* ends before it begins"),
        ("image", "boxes[:, :4]", "Bad left boxes of the shape .* without their labels"),
        ("1 / 0", "boxes", r"Bad failed \(ZeroDivisionError"),
        ("image[:50]", "boxes", "changed the picture from 64 x 64 px to 64 x 50 px"),
        ("image.astype(np.float32)", "boxes", "values of type float32"),
    ],
)
def test_a_transform_that_breaks_boxes_is_named(tmp_path: Path, image: str, boxes: str, message: str) -> None:
    """Albumentations itself drops boxes that are no numbers or turned inside out without a word."""
    place = python_file(tmp_path, CLASS.replace("IMAGE", image).replace("BOXES", boxes))
    with pytest.raises(BrokenTransformError, match=message):
        applied(opened(place))
