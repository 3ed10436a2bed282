"""From the options to splits: both ways of naming a data set, and what is said about it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from small_sets import coco_content, write_coco, write_picture, write_yolo

from yolo_accum.config.schema import DataConfig
from yolo_accum.data.classes import Classes
from yolo_accum.data.description import classes_of, open_data, open_split
from yolo_accum.errors import UserError

CAT = "0 0.25 0.5 0.5 0.25"


def _coco_pair(folder: Path) -> tuple[Path, Path]:
    train = write_coco(folder, coco_content({"a.png": [(0, 1, 1, 9, 9), (1, 20, 1, 9, 9)]}), "train.json")
    val = write_coco(folder, coco_content({"b.png": [(1, 1, 1, 9, 9)]}), "val.json")
    return train, val


def _codes(findings: tuple) -> dict[str, int]:
    return {finding.kind.code: finding.count for finding in findings}


def test_coco_jsons_named_directly(tmp_path: Path) -> None:
    train, val = _coco_pair(tmp_path)
    splits = open_data(DataConfig(data=str(train), val_data=str(val)))
    assert (splits.train.num_boxes, splits.train.source) == (2, train)
    assert splits.val is not None and splits.val.labels.tolist() == [1]
    assert splits.findings == ()
    assert open_data(DataConfig(data=str(train))).val is None


def test_pictures_are_looked_for_beside_the_json_then_in_images_or_only_where_told(tmp_path: Path) -> None:
    train, val = _coco_pair(tmp_path)
    write_picture(tmp_path / "a.png")
    write_picture(tmp_path / "far" / "a.png")
    write_picture(tmp_path / "farther" / "b.png")

    def path_of(**options: str) -> str:
        splits = open_data(DataConfig(data=str(train), val_data=str(val), **options))
        assert splits.val is not None
        return " ".join(os.path.relpath(index.image_paths[0], tmp_path) for index in (splits.train, splits.val))

    assert path_of() == "a.png images/b.png"
    assert path_of(images=str(tmp_path / "far"), val_images=str(tmp_path / "farther")) == "far/a.png farther/b.png"
    with pytest.raises(UserError, match=r"b\.png.*searched in .*far;"):
        path_of(images=str(tmp_path / "far"))


def test_a_data_yaml_may_name_coco_jsons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, val = _coco_pair(tmp_path / "set")
    write_picture(tmp_path / "set" / "val pictures" / "b.png")
    (tmp_path / "set" / "images" / "b.png").unlink()
    yaml = tmp_path / "set" / "data.yaml"
    yaml.write_text("train: train.json\nval: val.json\nval_images: val pictures\nnames: [cat, dog]\n")
    monkeypatch.chdir(tmp_path)
    splits = open_data(DataConfig(data="set/data.yaml"))
    assert splits.val is not None
    assert (splits.train.source, splits.val.source) == (train, val)
    assert splits.val.image_paths[0] == str(tmp_path / "set" / "val pictures" / "b.png")

    yaml.write_text("train: train.json\nval: val.json\nimages: images\nnames: [dog, cat]\n")
    write_picture(tmp_path / "set" / "images" / "b.png")
    with pytest.raises(UserError, match=r"names \(dog, cat\) differ from the categories of .*train\.json"):
        open_data(DataConfig(data="set/data.yaml"))


def test_one_split_is_opened_for_evaluation(tmp_path: Path) -> None:
    train, val = _coco_pair(tmp_path)
    index, _ = open_split(DataConfig(data=str(val)))
    assert index.source == val
    index, _ = open_split(DataConfig(data=str(train), val_data=str(val)))
    assert index.source == val

    yaml = write_yolo(tmp_path / "rows", {"train": {"a.png": CAT}, "val": {"b.png": CAT}, "test": {"c.png": CAT}})
    for split, stem in (("train", "a"), ("val", "b"), ("test", "c")):
        assert open_split(DataConfig(data=str(yaml)), split)[0].image_ids == (stem,)
    yaml.write_text("train: images/train\nnames: [cat]\n")
    with pytest.raises(UserError, match="names no split 'val'"):
        open_split(DataConfig(data=str(yaml)))


def test_a_split_is_numbered_by_the_classes_of_the_weights(tmp_path: Path) -> None:
    _, val = _coco_pair(tmp_path)
    index, _ = open_split(DataConfig(data=str(val)), classes=Classes(names=("dog", "cow", "cat"), ids=(0, 1, 2)))
    assert index.labels.tolist() == [0]
    assert classes_of(index) == Classes(names=("dog", "cow", "cat"), ids=(2, "cow", 1))
    with pytest.raises(UserError, match="class 'dog'"):
        open_split(DataConfig(data=str(val)), classes=Classes(names=("cow",), ids=(0,)))


def test_the_default_set_is_used_without_data(tmp_path: Path) -> None:
    yaml = write_yolo(tmp_path, {"train": {"a.png": CAT}, "val": {"b.png": CAT}})
    splits = open_data(DataConfig(), default_data=yaml)
    assert splits.train.image_ids == ("a",)
    assert open_split(DataConfig(), default_data=yaml)[0].image_ids == ("b",)
    with pytest.raises(UserError, match="--data is needed"):
        open_data(DataConfig())


def test_entries_are_relative_to_the_yaml_and_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = write_yolo(tmp_path / "set", {"train": {"a.png": CAT}})
    (tmp_path / "cfg").mkdir()
    yaml = yaml.rename(tmp_path / "cfg" / "data.yaml")
    yaml.write_text("path: ../set\ntrain: images/train\nnames: [cat]\n")
    monkeypatch.chdir("/")
    assert open_split(DataConfig(data=str(yaml)), "train")[0].image_paths[0] == str(
        tmp_path / "set" / "images" / "train" / "a.png"
    )


def test_a_path_that_is_not_here_is_told_and_ignored(tmp_path: Path) -> None:
    yaml = write_yolo(
        tmp_path, {"train": {"a.png": CAT}}, "path: /content/elsewhere\ntrain: images/train\nnames: [cat]\n"
    )
    index, findings = open_split(DataConfig(data=str(yaml)), "train")
    assert len(index) == 1
    assert _codes(findings) == {"missing-root": 1} and "/content/elsewhere" in str(findings[0])


def test_leading_dots_are_dropped_only_where_the_path_as_written_does_not_exist(tmp_path: Path) -> None:
    yaml = write_yolo(tmp_path / "set", {"train": {"a.png": CAT}}, "train: ../images/train\nnames: [cat]\n")
    index, findings = open_split(DataConfig(data=str(yaml)), "train")
    assert index.image_ids == ("a",) and _codes(findings) == {"dropped-dots": 1}
    write_picture(tmp_path / "images" / "train" / "outer.png")
    index, _ = open_split(DataConfig(data=str(yaml)), "train")
    assert index.image_ids == ("outer",)


def test_names_are_kept_as_they_are_written(tmp_path: Path) -> None:
    def names(text: str) -> tuple[str, ...]:
        yaml = write_yolo(tmp_path, {"train": {"a.png": CAT}}, f"train: images/train\n{text}\n")
        return open_split(DataConfig(data=str(yaml)), "train")[0].class_names

    assert names("names: [no, 007, 1.0]") == ("no", "007", "1.0")
    assert names("names: {1: blue, 0: red}") == ("red", "blue")
    assert names("\nnc: 2\nnames:\n  - 蓝色\n  - rød\n# 🙂") == ("蓝色", "rød")


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("names: [cat]", "none of train, val, test"),
        ("train: images/train", "names is missing"),
        ("train: images/train\nnames: []", "a list of class names or a mapping"),
        ("train: images/train\nnames:\n  0:red\n  1:blue", "names is '0:red 1:blue'"),
        ("train: images/train\nnames: {0: a, 2: b}", "names has the keys 0, 2; all of 0 to 1"),
        ("train: images/train\nnames: [a, b]\nnc: 3", "nc is 3, but names has 2"),
        ("train: images/train\nnames: [a, b, a]", "names has 'a' more than once"),
        ("train: images/valid\nnames: [a]", "train: 'images/valid' does not exist (tried {folder}/images/valid)"),
        ("train: [a.json, images/train]\nnames: [a]", "does not exist"),
        ("train: data.yaml\nnames: [a]", "is no folder, list file (.txt) or COCO JSON (.json)"),
        ("train: {a: b}\nnames: [a]", "is neither a path nor a list of paths"),
        ("train: images/train\nvalid: images/train\nnames: [a]", "'valid' is no key of a data YAML; 'val' is"),
        ("train: [images/train", "is not YAML"),
        ("- train", "is no data YAML"),
        ("val: images/train\nnames: [cat]", "names no training split"),
    ],
)
def test_refuses_data_yamls_that_cannot_be_meant(tmp_path: Path, text: str, piece: str) -> None:
    yaml = write_yolo(tmp_path, {"train": {"a.png": CAT}}, text)
    with pytest.raises(UserError) as caught:
        open_data(DataConfig(data=str(yaml)))
    assert piece.replace("{folder}", str(tmp_path)) in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_refuses_options_that_do_not_fit(tmp_path: Path) -> None:
    train, _ = _coco_pair(tmp_path)
    yaml = write_yolo(tmp_path, {"train": {"a.png": CAT}})
    for config, piece in (
        (DataConfig(data=str(tmp_path / "gone.yaml")), "there is no file"),
        (DataConfig(data=str(tmp_path)), "in 2 ways (data YAML: data.yaml; COCO folder: train.json, val.json); name"),
        (DataConfig(data=str(yaml), images=str(tmp_path)), "--images belongs to a COCO JSON"),
        (DataConfig(data=str(yaml), val_data=str(train)), "--val-data belongs to a COCO JSON"),
        (DataConfig(data=str(train), images=str(tmp_path / "nowhere")), "nowhere does not exist"),
        (DataConfig(data=str(train), val_data=str(tmp_path / "val2.json")), "there is no file"),
        (DataConfig(val_data=str(train)), "--val-data is given without --data"),
    ):
        with pytest.raises(UserError) as caught:
            open_data(config)
        assert piece in str(caught.value)


def test_a_training_split_without_objects_is_refused_with_the_label_folders(tmp_path: Path) -> None:
    yaml = write_yolo(tmp_path, {"train": {"a.png": None, "b.png": ""}, "val": {"c.png": CAT}})
    with pytest.raises(UserError, match=r"(?s)has an object to learn.*labels looked for in labels/train"):
        open_data(DataConfig(data=str(yaml)))


def test_a_split_without_one_readable_picture_is_refused(tmp_path: Path) -> None:
    train, _ = _coco_pair(tmp_path)
    (tmp_path / "images" / "a.png").write_bytes(b"<html>")
    with pytest.raises(UserError, match=r"(?s)not one picture can be used.*a\.png"):
        open_data(DataConfig(data=str(train)))


def test_what_is_said_about_classes_validation_and_shared_pictures(tmp_path: Path) -> None:
    yaml = write_yolo(tmp_path, {"train": {"a.png": CAT}, "val": {"b.png": ""}})
    splits = open_data(DataConfig(data=str(yaml)))
    assert _codes(splits.findings) == {"empty-class": 1, "background": 1, "no-objects": 1}
    assert "classes without any box: 1 (dog)" in "\n".join(map(str, splits.findings))

    yaml.write_text("train: images/train\nval: images/train\nnames: [cat]\n")
    splits = open_data(DataConfig(data=str(yaml)))
    assert _codes(splits.findings) == {"shared-picture": 1}


def test_errors_of_both_splits_are_told_at_once(tmp_path: Path) -> None:
    yaml = write_yolo(tmp_path, {"train": {"a.png": "9 0.5 0.5 0.1 0.1"}, "val": {"b.png": "0 1 2"}})
    with pytest.raises(UserError) as caught:
        open_data(DataConfig(data=str(yaml)))
    assert "labels/train/a.txt line 1" in str(caught.value) and "labels/val/b.txt line 1" in str(caught.value)


def test_what_is_wrong_with_a_file_used_as_both_splits_is_told_once(tmp_path: Path) -> None:
    content = coco_content({"a.png": [(0, 1, 1, 9, 9)]})
    content["annotations"][0]["iscrowd"] = "no"
    path = str(write_coco(tmp_path, content))
    findings = open_data(DataConfig(data=path, val_data=path)).findings
    assert [item.kind.code for item in findings].count("odd-crowd") == 1

    content["annotations"][0]["bbox"] = [1, 2]
    write_coco(tmp_path, content)
    with pytest.raises(UserError) as caught:
        open_data(DataConfig(data=path, val_data=path))
    assert str(caught.value).count("annotation 1 of a.png") == 1


def test_findings_count_everything_and_show_the_first_few(tmp_path: Path) -> None:
    rows = "".join(f"0 0.5 0.5 0.{number:03d} 0\n" for number in range(1, 251))
    yaml = write_yolo(tmp_path, {"train": {"a.png": f"{rows}{CAT}"}})
    _, (finding,) = open_split(DataConfig(data=str(yaml)), "train")
    assert finding.count == 250 and len(finding.places) == 100
    assert str(finding).endswith("line 4; labels/train/a.txt line 5; ...); left out")
    assert finding.as_dict()["count"] == 250


def test_nothing_is_written_into_the_data_folder(tmp_path: Path) -> None:
    def state() -> dict[str, str]:
        files = (path for path in tmp_path.rglob("*") if path.is_file())
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    train, val = _coco_pair(tmp_path)
    yaml = write_yolo(tmp_path, {"train": {"a.png": CAT}, "val": {"b.png": CAT}})
    before = state()
    open_data(DataConfig(data=str(train), val_data=str(val)))
    open_data(DataConfig(data=str(yaml)))
    assert state() == before
