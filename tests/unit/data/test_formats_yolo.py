"""YOLO layout: pictures, label files and their rows, what is repaired and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from small_sets import write_picture, write_yolo

from yolo_accum.config.schema import DataConfig
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.description import open_split
from yolo_accum.errors import UserError

BOX = "0 0.25 0.5 0.5 0.25"
"""x 0 to 48, y 27 to 45 of a picture of 96 x 72."""


def _read(path: Path, split: str = "train") -> tuple[DetectionIndex, dict[str, int], str]:
    index, findings = open_split(DataConfig(data=str(path)), split)
    return index, {finding.kind.code: finding.count for finding in findings}, "\n".join(map(str, findings))


def _read_rows(folder: Path, text: str) -> tuple[DetectionIndex, dict[str, int], str]:
    return _read(write_yolo(folder, {"train": {"a.png": text}}))


def _refused(folder: Path, text: str, *pieces: str) -> None:
    with pytest.raises(UserError) as caught:
        _read_rows(folder, text)
    for piece in pieces:
        assert piece in str(caught.value)


def test_reads_rows_by_file_and_line(tmp_path: Path) -> None:
    path = write_yolo(
        tmp_path, {"train": {"b.png": f"{BOX}\n1 0.5 0.5 1 1\n", "a.png": "1 0.5 0.5 0.5 0.5", "c.png": None}}
    )
    index, findings, text = _read(path)
    assert [os.path.relpath(picture, tmp_path) for picture in index.image_paths] == [
        f"images/train/{name}.png" for name in "abc"
    ]
    assert index.image_ids == ("a", "b", "c")
    assert index.box_starts.tolist() == [0, 1, 3, 3]
    assert index.labels.tolist() == [1, 0, 1]
    assert index.boxes_xyxy_px.tolist() == [[24, 18, 72, 54], [0, 27, 48, 45], [0, 0, 96, 72]]
    assert index.areas_px.tolist() == [48 * 36, 48 * 18, 96 * 72]
    assert index.class_names == ("cat", "dog") and index.class_ids == (0, 1)
    assert findings == {"missing-label": 1, "background": 1} and "images/train/c.png" in text


def test_boxes_drawn_on_whole_pixels_come_back_whole(tmp_path: Path) -> None:
    index, _, _ = _read_rows(tmp_path, "0 0.177083 0.256944 0.197917 0.236111\n")  # 17/96, 18.5/72, 19/96, 17/72
    assert index.boxes_xyxy_px.tolist() == [[7.5, 10, 26.5, 27]]


def test_blank_lines_tabs_crlf_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = write_yolo(tmp_path, {"train": {"a.png": BOX}})
    (tmp_path / "labels" / "train" / "a.txt").write_bytes(
        b"\xef\xbb\xbf0  0.25\t0.5 0.5 0.25\r\n\r\n 1.0 0.5 0.5 1 1 \r\n\r\n\r\n"
    )
    index, findings, _ = _read(path)
    assert findings == {}
    assert index.labels.tolist() == [0, 1]


def test_outlines_give_their_enclosing_box_and_boxes_in_the_same_file_stay_boxes(tmp_path: Path) -> None:
    index, findings, text = _read_rows(tmp_path, f"{BOX}\n1 0.25 0.25 0.75 0.25 0.5 0.75\n")
    assert findings == {"polygon-row": 1} and "labels/train/a.txt line 2" in text
    assert index.boxes_xyxy_px.tolist() == [[0, 27, 48, 45], [24, 18, 72, 54]]


@pytest.mark.parametrize(
    ("row", "code", "kept"),
    [
        ("1 0.5 0.5 1.0005 1", "clipped", [0, 0, 96, 72]),
        ("1 0.5 0.5 1.000001 1", None, [0, 0, 96, 72]),
        ("1 1.0 0.5 0.5 0.5", "clipped", [72, 18, 96, 54]),
        ("1 1.2 0.5 0.3 0.5", "outside", None),
        ("1 0.5 0.5 0 0.5", "zero-size", None),
    ],
)
def test_odd_boxes(tmp_path: Path, row: str, code: str | None, kept: list[float] | None) -> None:
    index, findings, text = _read_rows(tmp_path, f"{BOX}\n\n{row}\n")
    assert findings == ({code: 1} if code else {})
    assert code is None or "labels/train/a.txt line 3" in text
    assert index.boxes_xyxy_px.tolist() == [[0, 27, 48, 45]] + ([kept] if kept else [])


def test_repeated_rows_are_used_once(tmp_path: Path) -> None:
    index, findings, _ = _read_rows(tmp_path, f"{BOX}\n{BOX}\n")
    assert findings == {"duplicate-box": 1} and index.num_boxes == 1


def test_refuses_rows_that_cannot_be_meant(tmp_path: Path) -> None:
    _refused(tmp_path, f"{BOX}\n2 0.5 0.5 0.1 0.1", "labels/train/a.txt line 2", "2 0.5", "the classes are 0 to 1")
    _refused(tmp_path, "-1 0.5 0.5 0.1 0.1", "labels/train/a.txt line 1", "the classes are 0 to 1")
    _refused(tmp_path, "0 21.5 16.5 23 17", "labels/train/a.txt line 1", "fractions")
    _refused(tmp_path, "0,0.5,0.5,0.1,0.1", "labels/train/a.txt line 1", "1 columns", "separated by spaces")
    _refused(tmp_path, "0.5 0.5 0.1 0.1", "labels/train/a.txt line 1", "4 columns")
    _refused(tmp_path, "0 0.5 0.5 0.1 0.1 0.9", "labels/train/a.txt line 1", "6 columns")
    _refused(tmp_path, "cat 0.5 0.5 0.1 0.1", "labels/train/a.txt line 1", "class number")
    _refused(tmp_path, "0.5 0.5 0.5 0.1 0.1", "labels/train/a.txt line 1", "class number")
    _refused(tmp_path, "0 0.1 0.1 0.2 x 0.3 0.3", "labels/train/a.txt line 1", "7 columns")
    _refused(tmp_path, "0 nan 0.5 0.1 0.1", "labels/train/a.txt line 1", "finite")


def test_extensions_in_any_case_and_subfolders(tmp_path: Path) -> None:
    path = write_yolo(tmp_path, {"train": {"x/a.JPG": BOX, "x/b.Jpeg": BOX, "c.PNG": BOX, "y/a.bmp": BOX}})
    (tmp_path / "images" / "train" / "._c.PNG").write_bytes(b"resource fork")
    (tmp_path / "images" / "train" / "notes.md").write_text("no picture")
    index, findings, _ = _read(path)
    assert findings == {}
    assert index.image_ids == ("c", "x/a", "b", "y/a"), "equal names are told apart by their folder"
    assert index.num_boxes == 4


def test_pictures_that_differ_in_the_suffix_alone_have_ids_of_their_own(tmp_path: Path) -> None:
    index, _, _ = _read(write_yolo(tmp_path, {"train": {"a.png": BOX, "a.jpg": BOX}}))
    assert index.image_ids == ("a.jpg", "a.png")


@pytest.mark.parametrize(
    ("pictures", "labels"),
    [
        ("Images/train", "Labels/train"),
        ("IMAGES/train", "labels/train"),
        ("train/images", "train/labels"),
        ("images/a/images/train", "images/a/labels/train"),
        ("train", "train"),
        ("images/train", "images/train"),
    ],
)
def test_label_folders(tmp_path: Path, pictures: str, labels: str) -> None:
    write_picture(tmp_path / pictures / "a.png")
    (tmp_path / labels).mkdir(parents=True, exist_ok=True)
    (tmp_path / labels / "a.txt").write_text(BOX)
    (tmp_path / "data.yaml").write_text(f"train: {pictures}\nnames: [cat]\n")
    index, findings, _ = _read(tmp_path / "data.yaml")
    assert findings == {} and index.num_boxes == 1


def test_label_files_without_a_picture_are_told(tmp_path: Path) -> None:
    path = write_yolo(tmp_path, {"train": {"a.png": BOX}})
    for name in ("ghost.txt", "classes.txt"):
        (tmp_path / "labels" / "train" / name).write_text(BOX)
    _, findings, text = _read(path)
    assert findings == {"label-without-picture": 1} and "labels/train/ghost.txt" in text


def test_list_files_keep_their_order_and_are_relative_to_themselves(tmp_path: Path) -> None:
    write_yolo(tmp_path / "set", {"all": {"a.png": BOX, "b.png": BOX, "c.png": "1 0.5 0.5 0.5 0.5"}})
    (tmp_path / "set" / "lists").mkdir()
    absolute = tmp_path / "set" / "images" / "all" / "b.png"
    lines = ["../images/all/c.png", "", "./../images/all/a.png", str(absolute), "../images/all/a.png"]
    (tmp_path / "set" / "lists" / "train.txt").write_text("\n".join(lines))
    yaml = tmp_path / "elsewhere.yaml"
    yaml.write_text("train: set/lists/train.txt\nnames: [cat, dog]\n")
    index, findings, text = _read(yaml)
    assert index.image_ids == ("c", "a", "b")
    assert index.labels.tolist() == [1, 0, 0]
    assert findings == {"repeated-picture": 1} and "a.png" in text


def test_list_files_with_missing_pictures_are_refused(tmp_path: Path) -> None:
    write_yolo(tmp_path, {"train": {"a.png": BOX}})
    (tmp_path / "train.txt").write_text("images/train/a.png\nimages/train/b.png\n")
    (tmp_path / "data.yaml").write_text("train: train.txt\nnames: [cat]\n")
    with pytest.raises(UserError, match=rf"1 \(images/train/b.png\); lines are relative to {tmp_path}"):
        _read(tmp_path / "data.yaml")


def test_a_list_of_entries_is_joined_and_labels_are_read_anew_each_time(tmp_path: Path) -> None:
    write_yolo(tmp_path, {"one": {"a.png": BOX}, "two": {"b.png": BOX}})
    (tmp_path / "data.yaml").write_text("train: [images/two, images/one]\nnames: [cat, dog]\n")
    index, _, _ = _read(tmp_path / "data.yaml")
    assert index.image_ids == ("b", "a") and index.labels.tolist() == [0, 0]
    (tmp_path / "labels" / "one" / "a.txt").write_text("1" + BOX[1:])
    index, _, _ = _read(tmp_path / "data.yaml")
    assert index.labels.tolist() == [0, 1]


def test_a_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "data.yaml").write_text("train: images\nnames: [cat]\n")
    with pytest.raises(UserError, match="images has no pictures"):
        _read(tmp_path / "data.yaml")


def test_label_files_in_capitals_and_lists_with_backslashes(tmp_path: Path) -> None:
    write_yolo(tmp_path, {"train": {"a.png": "0 0.5 0.5 0.5 0.5\n", "b.png": None}})
    (tmp_path / "labels" / "train" / "a.txt").rename(tmp_path / "labels" / "train" / "a.TXT")
    (tmp_path / "labels" / "train" / "ghost.TXT").touch()
    (tmp_path / "list.txt").write_text("images\\train\\a.png\r\n.\\images\\train\\b.png\r\n")
    for entry in ("images\\train", "list.txt"):
        (tmp_path / "data.yaml").write_text(f"train: {entry}\nnames: [cat]\n")
        index, findings, _ = _read(tmp_path / "data.yaml")
        assert (len(index), index.num_boxes) == (2, 1)
        assert findings["label-without-picture"] == 1


@pytest.mark.real
def test_the_same_set_in_both_layouts_is_the_same(real_data: Path) -> None:
    data = real_data / "data"
    for split, num_images, num_boxes in (("train", 205, 2804), ("val", 87, 1137), ("test", 72, 945)):
        rows, _ = open_split(DataConfig(data=str(data / "bccd_yolo" / "data.yaml")), split)
        records, _ = open_split(DataConfig(data=str(data / "bccd" / f"{split}.json")))
        assert (len(rows), rows.num_boxes) == (num_images, num_boxes)
        assert list(rows.image_paths) == list(records.image_paths)
        assert rows.class_names == records.class_names
        for column in ("box_starts", "boxes_xyxy_px", "labels", "areas_px", "widths_px", "heights_px"):
            assert (getattr(rows, column) == getattr(records, column)).all(), column


@pytest.mark.real
def test_a_roboflow_export_is_read_as_it_is(real_data: Path) -> None:
    path = real_data / "data" / "aquarium" / "data.yaml"
    train, findings, _ = _read(path)
    assert (len(train), train.num_boxes) == (150, 1205)
    assert findings == {"dropped-dots": 1, "background": 1}
    val, _, _ = _read(path, "val")
    assert (len(val), val.num_boxes) == (50, 517)
