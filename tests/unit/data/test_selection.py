"""Parts of a data set: boxes stay with their pictures, ids with their classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from picture_index import random_pictures, write_picture_index

from yolo_accum.config.schema import DataConfig
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.classes import Classes
from yolo_accum.data.selection import renumbered, select, with_rows
from yolo_accum.errors import UserError


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> DetectionIndex:
    """Classes red, green, blue, yellow with the ids 1 to 4."""
    return write_picture_index(tmp_path_factory.mktemp("pictures"), random_pictures(12))


def boxes_by_picture(index: DetectionIndex) -> dict[object, list[tuple[object, ...]]]:
    """Image id -> (class name, class id, box) of each of its boxes."""
    return {
        index.image_ids[row]: [
            (index.class_names[label], index.class_ids[label], tuple(box))
            for label, box in zip(
                index.labels[index.rows(row)], index.boxes_xyxy_px[index.rows(row)].tolist(), strict=True
            )
        ]
        for row in range(len(index))
    }


@pytest.mark.parametrize("words", [("1", "4"), ("yellow", "red"), ("4", "red")])
def test_classes_by_id_or_name_keep_their_names_and_ids(index: DetectionIndex, words: tuple[str, ...]) -> None:
    train, val = select(index, index, DataConfig(classes=words))
    before = boxes_by_picture(index)
    for part in (train, val):
        assert part is not None
        assert part.class_names == ("red", "yellow") and part.class_ids == (1, 4)
        assert boxes_by_picture(part) == {
            image: [box for box in boxes if box[0] in ("red", "yellow")] for image, boxes in before.items()
        }
        assert len(part.is_crowd) == len(part.areas_px) == part.num_boxes < index.num_boxes


def test_an_unknown_class_is_refused_with_the_closest(index: DetectionIndex) -> None:
    with pytest.raises(UserError, match=r"--classes gren: .* \(did you mean green\?\); there are 1 red, 2 green"):
        select(index, None, DataConfig(classes=("gren",)))


def test_all_classes_as_one(index: DetectionIndex) -> None:
    train, val = select(index, None, DataConfig(single_cls=True))
    assert val is None
    assert train.class_names == ("object",) and train.class_ids == (0,)
    assert train.labels.tolist() == [0] * index.num_boxes and train.labels.dtype == np.int32
    alone, _ = select(index, None, DataConfig(single_cls=True, classes=("3",)))
    assert alone.class_names == ("blue",) and alone.class_ids == (3,)


def test_a_fraction_of_the_training_pictures(index: DetectionIndex) -> None:
    before = boxes_by_picture(index)
    chosen: list[set[object]] = []
    for fraction, num_images in ((0.01, 1), (0.25, 3), (0.5, 6), (1.0, 12)):
        train, val = select(index, index, DataConfig(fraction=fraction))
        assert val is index
        after = boxes_by_picture(train)
        assert len(after) == num_images and after.items() <= before.items()
        assert list(train.image_paths) == [index.image_paths[int(image)] for image in after]  # type: ignore[call-overload]
        chosen.append(set(after))
    assert chosen[0] < chosen[1] < chosen[2] < chosen[3]


def test_pictures_without_boxes_at_either_end(tmp_path: Path) -> None:
    index = write_picture_index(tmp_path, [((8, 8), []), ((8, 8), [(1, (0, 0, 4, 4))]), ((8, 8), [])])
    assert with_rows(index, np.array([0, 2])).box_starts.tolist() == [0, 0, 0]
    assert with_rows(index, np.array([1])).labels.tolist() == [1]


def test_labels_by_the_classes_of_weights(index: DetectionIndex) -> None:
    part = renumbered(index, Classes(names=("yellow", "red", "green", "blue"), ids=(0, 1, 2, 3)))
    assert part.class_names == ("yellow", "red", "green", "blue") and part.class_ids == (4, 1, 2, 3)
    assert boxes_by_picture(part) == boxes_by_picture(index)
    with pytest.raises(UserError, match="do not know the class yellow"):
        renumbered(index, Classes(names=("red", "green", "blue"), ids=(0, 1, 2)))
