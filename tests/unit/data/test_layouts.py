"""Data sets as tools export them: recognised, and read the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_exports import EXPORTS, NAMES, OBJECTS, WITH_TWO_SPLITS, cvat_xml, label_studio_yolo, voc_xml
from small_sets import write_picture

from yolo_accum.config.schema import DataConfig
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.description import open_all, open_data, open_split
from yolo_accum.errors import UserError


def objects_of(index: DetectionIndex) -> dict[str, list[tuple[str, float, float, float, float]]]:
    """Class name and box by file name, without what a tool puts before it."""
    found = {}
    for image, path in enumerate(index.image_paths):
        rows = index.rows(image)
        boxes = index.boxes_xyxy_px[rows].round(2).tolist()
        labels = [index.class_names[label] for label in index.labels[rows]]
        name = Path(path).name.removeprefix("0a1b2c3d-")
        found[name] = [(label, *box) for label, box in zip(labels, boxes, strict=True)]
    return found


@pytest.mark.parametrize("name", EXPORTS)
def test_every_export_is_recognised_and_holds_the_same(tmp_path: Path, name: str) -> None:
    path = EXPORTS[name](tmp_path / "set")

    data = open_all(DataConfig(data=str(path)))

    assert set(data.splits) == ({"train", "val"} if name in WITH_TWO_SPLITS else {"train"})
    for index in data.splits.values():
        assert index.class_names == NAMES
        assert objects_of(index) == OBJECTS
    assert all(finding.kind.severity != "error" for finding in data.findings)


@pytest.mark.parametrize("name", sorted(WITH_TWO_SPLITS))
def test_a_folder_with_splits_can_be_trained_on(tmp_path: Path, name: str) -> None:
    splits = open_data(DataConfig(data=str(EXPORTS[name](tmp_path / "set"))))

    assert splits.val is not None and objects_of(splits.val) == objects_of(splits.train) == OBJECTS


def test_a_single_split_goes_with_val_data_of_another_format(tmp_path: Path) -> None:
    train, val = EXPORTS["cvat_xml"](tmp_path / "a"), EXPORTS["label_studio_json"](tmp_path / "b")

    splits = open_data(DataConfig(data=str(train), val_data=str(val)))

    assert splits.val is not None and objects_of(splits.val) == OBJECTS
    assert splits.val.image_ids == (7, 8) and splits.train.image_ids == (0, 1)
    index, _ = open_split(DataConfig(data=str(train), val_data=str(val)))
    assert index.image_ids == (7, 8)


def test_a_folder_that_is_two_things_is_refused_with_both_named(tmp_path: Path) -> None:
    label_studio_yolo(tmp_path)
    cvat_xml(tmp_path)

    with pytest.raises(UserError, match=r"2 ways \(CVAT for images: annotations.xml; YOLO folder: .*name one of these"):
        open_all(DataConfig(data=str(tmp_path)))


def test_a_folder_that_is_nothing_is_refused(tmp_path: Path) -> None:
    write_picture(tmp_path / "a.png")

    with pytest.raises(UserError, match=r"no data set was recognised .* Roboflow, CVAT and Label Studio"):
        open_all(DataConfig(data=str(tmp_path)))


def test_a_link_that_leads_back_up_is_followed_once(tmp_path: Path) -> None:
    folder = EXPORTS["cvat_ultralytics"](tmp_path / "set")
    (folder / "data.yaml").write_text("names: [cat, dog]\ntrain: images/train\n")
    (folder / "images" / "train" / "again").symlink_to(folder / "images")

    assert objects_of(open_all(DataConfig(data=str(folder))).splits["train"]) == OBJECTS


def test_a_link_to_the_pictures_keeps_the_labels_beside_it(tmp_path: Path) -> None:
    folder = EXPORTS["cvat_ultralytics"](tmp_path / "set")
    (folder / "images").rename(tmp_path / "elsewhere")
    (folder / "images").symlink_to(tmp_path / "elsewhere")

    assert objects_of(open_all(DataConfig(data=str(folder / "data.yaml"))).splits["train"]) == OBJECTS


def test_a_test_split_that_is_not_there_is_told_and_stops_nothing(tmp_path: Path) -> None:
    data = open_all(DataConfig(data=str(EXPORTS["roboflow_yolo"](tmp_path))))

    assert [finding.places for finding in data.findings if finding.kind.code == "missing-test"] == [("../test/images",)]


# --- Pascal VOC ----------------------------------------


def voc_folder(folder: Path, xml: str) -> str:
    write_picture(folder / "a.png")
    (folder / "a.xml").write_text(xml, encoding="utf-8")
    return str(folder)


def test_voc_pictures_without_annotation_are_background(tmp_path: Path) -> None:
    folder = EXPORTS["label_studio_voc"](tmp_path)
    write_picture(folder / "images" / "c.png")

    data = open_all(DataConfig(data=str(folder)))

    assert objects_of(data.splits["train"]) == {**OBJECTS, "c.png": []}
    assert "missing-label" in [finding.kind.code for finding in data.findings]


def test_voc_classes_are_those_of_all_splits(tmp_path: Path) -> None:
    folder = EXPORTS["roboflow_voc"](tmp_path)
    (folder / "valid" / "b.xml").write_text(voc_xml("b.png", [("bird", 1, 1, 4, 5)]))

    splits = open_data(DataConfig(data=str(folder)))

    assert splits.train.class_names == ("bird", "cat", "dog") and splits.val is not None
    assert objects_of(splits.val)["b.png"] == [("bird", 1, 1, 4, 5)]


@pytest.mark.parametrize(
    ("xml", "told"),
    [
        ('<!DOCTYPE a [<!ENTITY x "y">]><annotation>&x;</annotation>', "a.xml declares the entity 'x'"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "/etc/passwd">]><annotation/>', "a.xml declares the entity 'x'"),
        ("<annotation><object>", "a.xml is not XML: "),
        ('<?xml version="1.0" encoding="klingon"?><annotation/>', "a.xml cannot be read as XML: unknown encoding"),
        ('<?xml version="1.0" encoding="shift_jis"?><annotation/>', "a.xml cannot be read as XML: multi-byte"),
        ("<annotation><object><name>cat</name></object></annotation>", "a.xml object 1: no bndbox"),
        (voc_xml("a.png", [("cat", "left", 1, 2, 3)]), "object 1: left, 1, 2, 3"),  # type: ignore[list-item]
        (voc_xml("a.png", [("", 1, 1, 2, 3)]), "objects without a class: 1"),
        (voc_xml("a.png", [("cat", float("nan"), 1, 2, 3)]), "no finite number: 1"),
    ],
)
def test_voc_faults_are_refused_with_file_and_object(tmp_path: Path, xml: str, told: str) -> None:
    with pytest.raises(UserError) as caught:
        open_all(DataConfig(data=voc_folder(tmp_path, xml)))

    assert told in str(caught.value)


def test_a_voc_file_without_its_picture_is_refused(tmp_path: Path) -> None:
    folder = EXPORTS["roboflow_voc"](tmp_path)
    (folder / "train" / "a.png").unlink()

    with pytest.raises(UserError, match=r"pictures that are not there: 1 \(a \(of .*a\.xml"):
        open_all(DataConfig(data=str(folder)))


@pytest.mark.parametrize(
    ("pictures", "used"),
    [(("x.png", "y.png"), "x.png"), (("x.png",), "x.png"), (("y.png",), "y.png")],
)
def test_a_voc_file_that_names_another_picture_is_told(tmp_path: Path, pictures: tuple[str, ...], used: str) -> None:
    for name in pictures:
        write_picture(tmp_path / name)
    (tmp_path / "x.xml").write_text(voc_xml("y.png", OBJECTS["a.png"]))

    data = open_all(DataConfig(data=str(tmp_path)))

    assert objects_of(data.splits["train"])[used] == OBJECTS["a.png"]
    told = {finding.kind.code: finding for finding in data.findings}["other-filename"]
    assert told.kind.severity == "warning" and told.count == 1
    assert told.places == (f"{tmp_path.name}/x.xml: y.png is written, {tmp_path.name}/{used} is used",)


@pytest.mark.parametrize("filename", ["a.png", "a.JPG", "a", "", "C:\\pictures\\a.png"])
def test_a_voc_file_that_names_its_own_picture_in_any_way_is_no_finding(tmp_path: Path, filename: str) -> None:
    data = open_all(DataConfig(data=voc_folder(tmp_path, voc_xml(filename, OBJECTS["a.png"]))))

    assert data.findings == ()


# --- CVAT ----------------------------------------


def cvat_shapes(folder: Path, shapes: str) -> DataConfig:
    path = cvat_xml(folder) / "annotations.xml"
    start = path.read_text().split("<image")[0]
    path.write_text(f'{start}<image id="4" name="a.png" width="96" height="72">{shapes}</image></annotations>')
    return DataConfig(data=str(path))


def test_cvat_shapes_count_as_their_enclosing_boxes(tmp_path: Path) -> None:
    config = cvat_shapes(
        tmp_path,
        '<polygon label="cat" points="10.0,20.0;40.0,30.0;20.0,60.0"/>'
        '<ellipse label="dog" cx="60" cy="30" rx="10" ry="5"/>'
        '<mask label="dog" rle="1" left="5" top="6" width="7" height="8"/>'
        '<box label="cat" xtl="30" ytl="40" xbr="50" ybr="44" rotation="90.0"/>'
        '<points label="cat" points="1,1"/><tag label="cat"/>',
    )

    data = open_all(config)

    assert objects_of(data.splits["train"]) == {
        "a.png": [
            ("cat", 10, 20, 40, 60),
            ("dog", 50, 25, 70, 35),
            ("dog", 5, 6, 12, 14),
            ("cat", 38, 32, 42, 52),  # 20 x 4 about (40, 42), upright
        ]
    }
    counts = {finding.kind.code: finding.count for finding in data.findings}
    assert counts["box-from-mask"] == 3 and counts["other-shape"] == 1


def test_a_cvat_file_in_an_unknown_encoding_is_refused_by_name(tmp_path: Path) -> None:
    path = cvat_xml(tmp_path) / "annotations.xml"
    path.write_text('<?xml version="1.0" encoding="klingon"?><annotations/>')

    with pytest.raises(UserError, match=r"annotations\.xml cannot be read as XML: unknown encoding"):
        open_all(DataConfig(data=str(path)))


def test_cvat_labels_that_are_not_declared_are_refused(tmp_path: Path) -> None:
    config = cvat_shapes(tmp_path, '<box label="bird" xtl="1" ytl="1" xbr="5" ybr="5"/>')

    with pytest.raises(UserError, match=r"not declared: 1 \(a\.png shape 1: 'bird'\)"):
        open_all(config)


def test_cvat_subsets_are_splits(tmp_path: Path) -> None:
    path = cvat_xml(tmp_path) / "annotations.xml"
    text = path.read_text().replace('id="0"', 'id="0" subset="Train"').replace('id="1"', 'id="1" subset="Validation"')
    path.write_text(text)

    data = open_all(DataConfig(data=str(path)))

    assert {split: list(objects_of(index)) for split, index in data.splits.items()} == {
        "train": ["a.png"],
        "val": ["b.png"],
    }


def test_cvat_videos_and_single_voc_files_are_refused(tmp_path: Path) -> None:
    config = cvat_shapes(tmp_path, "</image><track id='0' label='cat'></track><image>")
    with pytest.raises(UserError, match="tracks of a video"):
        open_all(config)
    path = tmp_path / "one.xml"
    path.write_text(voc_xml("a.png", []))
    with pytest.raises(UserError, match="give the folder of the data set"):
        open_all(DataConfig(data=str(path)))


# --- names of pictures ----------------------------------------


@pytest.mark.parametrize("written", ["C:\\photos\\a.png", "https://host/p/a.png?x=1", "/mnt/other/a%2Epng", "x/a.png"])
def test_names_written_for_another_machine_are_found_and_told(tmp_path: Path, written: str) -> None:
    path = EXPORTS["coco_file"](tmp_path)
    path.write_text(path.read_text().replace('"a.png"', f'"{written}"'.replace("\\", "\\\\")))

    data = open_all(DataConfig(data=str(path)))

    assert objects_of(data.splits["train"]) == OBJECTS
    [finding] = [finding for finding in data.findings if finding.kind.code == "respelled-picture"]
    assert finding.places == (f"{written} -> {tmp_path / 'images' / 'a.png'}",)


def test_a_name_that_two_pictures_share_is_not_guessed(tmp_path: Path) -> None:
    path = EXPORTS["coco_file"](tmp_path)
    text = path.read_text().replace('"a.png"', '"left/a.png"').replace('"b.png"', '"right/a.png"')
    path.write_text(text)

    with pytest.raises(UserError, match=r"not there: 2 \(left/a\.png; right/a\.png\)"):
        open_all(DataConfig(data=str(path)))


def test_a_file_of_the_very_name_comes_first(tmp_path: Path) -> None:
    path = EXPORTS["coco_file"](tmp_path)
    shutil.copyfile(tmp_path / "images" / "a.png", tmp_path / "images" / "a%20b.png")
    shutil.copyfile(tmp_path / "images" / "a.png", tmp_path / "images" / "a b.png")
    path.write_text(path.read_text().replace('"a.png"', '"a%20b.png"'))

    data = open_all(DataConfig(data=str(path)))

    assert list(objects_of(data.splits["train"])) == ["a%20b.png", "b.png"]
