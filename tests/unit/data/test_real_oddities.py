"""What is known to be odd about the real sets is found, counted and named; see their README."""

from __future__ import annotations

from pathlib import Path

import pytest

from yolo_accum.config.schema import DataConfig
from yolo_accum.data.description import open_all, open_data, open_split
from yolo_accum.data.findings import Finding
from yolo_accum.errors import UserError

pytestmark = pytest.mark.real


def told(findings: tuple[Finding, ...]) -> dict[str, tuple[int, str]]:
    """Count and places by code."""
    return {finding.kind.code: (finding.count, "; ".join(finding.places)) for finding in findings}


@pytest.mark.parametrize(
    ("path", "code", "count", "names"),
    [
        ("bccd/train.json", "zero-size", 1, ["BloodImage_00343"]),
        ("bccd/val.json", "zero-size", 1, ["BloodImage_00338"]),
        ("aquarium/test.json", "zero-size", 2, ["IMG_2423", "IMG_2570"]),
        ("aquarium/train.json", "background", 1, []),
        ("coco128/train.json", "background", 2, ["250", "508"]),
        ("aerialcars/val.json", "clipped", 1, ["MOS74"]),
    ],
)
def test_odd_boxes_and_pictures(real_data: Path, path: str, code: str, count: int, names: list[str]) -> None:
    _, findings = open_split(DataConfig(data=str(real_data / "data" / path)))

    assert told(findings)[code][0] == count
    assert all(name in told(findings)[code][1] for name in names)


@pytest.mark.parametrize(("path", "num_crowd"), [("coco128/train_crowd.json", 6), ("cocoval/val_crowd.json", 5)])
def test_crowd_regions(real_data: Path, path: str, num_crowd: int) -> None:
    plain, _ = open_split(DataConfig(data=str(real_data / "data" / path.replace("_crowd", ""))))
    index, _ = open_split(DataConfig(data=str(real_data / "data" / path)))

    assert int(index.is_crowd.sum()) == num_crowd and index.num_boxes == plain.num_boxes + num_crowd


def test_classes_without_a_box(real_data: Path) -> None:
    data = real_data / "data"
    cars = open_data(DataConfig(data=str(data / "aerialcars" / "train.json")))
    satellites = open_data(DataConfig(data=str(data / "satveh_rf" / "valid")))

    assert told(cars.findings)["empty-class"] == (1, "cyclist")
    assert told(satellites.findings)["empty-class"] == (1, "cars") and satellites.train.class_ids == (0, 1, 2)


def test_folders_are_recognised(real_data: Path) -> None:
    data = real_data / "data"
    for folder, kind, counts in (
        ("bccd", "COCO folder", {"train": (205, 2804), "val": (87, 1137), "test": (72, 945)}),
        ("bccd_yolo", "data YAML", {"train": (205, 2804), "val": (87, 1137), "test": (72, 945)}),
        ("trees", "COCO folder", {"train": (9, 226), "val": (4, 124)}),
        ("satveh_rf", "Roboflow COCO folder", {"val": (43, 342)}),
    ):
        found = open_all(DataConfig(data=str(data / folder)))
        assert found.kind == kind
        assert {split: (len(index), index.num_boxes) for split, index in found.splits.items()} == counts
    with pytest.raises(UserError, match=r"data YAML: data\.yaml; COCO folder"):
        open_all(DataConfig(data=str(data / "aquarium")))
