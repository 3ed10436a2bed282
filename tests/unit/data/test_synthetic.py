"""The embedded data set: what it holds, that it is the same every time, that damage is noticed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pytest

from yolo_accum.data.synthetic import CATEGORY_IDS, ensure_shapes
from yolo_accum.data.synthetic_scene import CLASS_NAMES, MAX_OBJECTS, draw_scene
from yolo_accum.errors import UserError


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_shapes(tmp_path_factory.mktemp("embedded") / "shapes").parent


def _load(shapes: Path, split: str) -> dict:
    return json.loads((shapes / f"{split}.json").read_text())


def test_has_the_promised_splits_sizes_and_classes(shapes: Path) -> None:
    for split, num_images in (("train", 400), ("val", 100)):
        description = _load(shapes, split)
        assert len(description["images"]) == num_images
        assert all(256 <= image[side] <= 320 for image in description["images"] for side in ("width", "height"))
        assert [(c["id"], c["name"]) for c in description["categories"]] == list(
            zip(CATEGORY_IDS, CLASS_NAMES, strict=True)
        )
    assert np.diff(CATEGORY_IDS).max() > 1, "the category ids have gaps"


def test_objects_are_heavy_tailed_in_number_and_range_from_tiny_to_large(shapes: Path) -> None:
    description = _load(shapes, "train")
    per_image = Counter({image["id"]: 0 for image in description["images"]})
    per_image.update(annotation["image_id"] for annotation in description["annotations"])
    counts = np.array(list(per_image.values()))
    assert counts.min() == 0 and counts.max() == MAX_OBJECTS
    assert np.median(counts) <= 5 < 12 < np.percentile(counts, 95)
    assert 0.01 < np.mean(counts == 0) < 0.1

    sizes = np.array([annotation["bbox"][2:] for annotation in description["annotations"]])
    longest = sizes.max(1)
    assert 0.02 < np.mean(longest < 16) < 0.1
    assert longest.max() > 100

    per_class = Counter(annotation["category_id"] for annotation in description["annotations"])
    assert set(per_class) == set(CATEGORY_IDS) and min(per_class.values()) > 200


def test_boxes_lie_in_the_picture_and_the_pictures_have_the_written_size(shapes: Path) -> None:
    description = _load(shapes, "val")
    sizes = {image["id"]: (image["width"], image["height"]) for image in description["images"]}
    for annotation in description["annotations"]:
        x, y, w, h = annotation["bbox"]
        width, height = sizes[annotation["image_id"]]
        assert x >= 0 and y >= 0 and w > 0 and h > 0 and x + w <= width and y + h <= height
        assert 0 < annotation["area"] <= w * h
    for image in description["images"][:10]:
        picture = cv2.imread(str(shapes / "images" / image["file_name"]))
        assert picture.shape == (image["height"], image["width"], 3)


def test_a_picture_depends_on_its_place_alone(shapes: Path) -> None:
    scene = draw_scene(np.random.default_rng([20240, 1, 42]))
    encoded = cv2.imencode(".jpg", scene.image, [cv2.IMWRITE_JPEG_QUALITY, 92])[1].tobytes()
    assert (shapes / "images" / "val_0042.jpg").read_bytes() == encoded


def test_areas_count_every_visible_pixel_once() -> None:
    for seed in range(20):
        scene = draw_scene(np.random.default_rng(seed))
        in_a_box = np.zeros(scene.image.shape[:2], bool)
        for x, y, w, h in scene.boxes_xywh_px.tolist():
            in_a_box[y : y + h, x : x + w] = True
        assert scene.areas_px.sum() <= in_a_box.sum()
        assert len(scene.labels) == len(scene.boxes_xywh_px) == len(scene.areas_px)


def test_is_drawn_once_and_again_after_damage(shapes: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    ensure_shapes(shapes, lambda done, total: calls.append((done, total)))
    assert calls == [], "nothing is drawn when the set is whole"

    before = {path.relative_to(shapes): path.read_bytes() for path in shapes.rglob("*") if path.is_file()}
    damaged = shapes / "images" / "train_0007.jpg"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert ensure_shapes(shapes, lambda done, total: calls.append((done, total))) == shapes / "data.yaml"
    assert calls == [(done, 500) for done in range(1, 501)]
    after = {path.relative_to(shapes): path.read_bytes() for path in shapes.rglob("*") if path.is_file()}
    assert after == before
    assert [path.name for path in shapes.parent.iterdir()] == ["shapes"], "no scratch folder is left"


def test_an_interrupted_drawing_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_shapes(tmp_path / "shapes", interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "holiday.txt").write_text("keep me")
    with pytest.raises(UserError, match="holds something else"):
        ensure_shapes(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.txt"]
