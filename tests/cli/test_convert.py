"""`yolo-accum convert` and `val --predictions` as a user runs them."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_exports import EXPORTS, OBJECTS, roboflow_yolo
from small_sets import coco_content, write_coco

from yolo_accum.cli.main import main
from yolo_accum.config.schema import DataConfig
from yolo_accum.data.description import open_all


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any], str]:
    """Exit code, the object on standard output, and what was said."""
    code = main([*map(str, words), "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else {}, captured.err


def digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in files)).hexdigest()


def boxes(path: Path) -> dict[str, list[tuple[str, list[float]]]]:
    """Class name and box by file name without folders, from a COCO JSON."""
    content = json.loads(path.read_text(encoding="utf-8"))
    name_of = {item["id"]: Path(item["file_name"]).name for item in content["images"]}
    class_of = {item["id"]: item["name"] for item in content["categories"]}
    found: dict[str, list[tuple[str, list[float]]]] = {name: [] for name in name_of.values()}
    for item in content["annotations"]:
        found[name_of[item["image_id"]]].append((class_of[item["category_id"]], item["bbox"]))
    return found


EXPECTED = {
    name: [(kind, [left, top, right - left, bottom - top]) for kind, left, top, right, bottom in rows]
    for name, rows in OBJECTS.items()
}


@pytest.mark.parametrize("copy", [False, True])
def test_every_split_is_written_and_read_back_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], copy: bool
) -> None:
    source = roboflow_yolo(tmp_path / "export")
    before = digest(source)

    code, result, said = run(
        capsys, "convert", "--data", source, "--to", tmp_path / "coco", *(["--copy"] if copy else [])
    )

    assert code == 0 and digest(source) == before
    assert result["kind"] == "data YAML" and set(result["splits"]) == {"train", "val"}
    assert result["splits"]["train"] == {"images": 2, "boxes": 3, "crowd_regions": 0, "classes": 2}
    assert {finding["code"] for finding in result["findings"]} == {"dropped-dots", "missing-test"}
    assert "../test/images" in said
    for split in ("train", "val"):
        assert boxes(tmp_path / "coco" / f"{split}.json") == EXPECTED
    # What was written can be used: as the folder itself, and by the data YAML in it.
    for data in (tmp_path / "coco", tmp_path / "coco" / "data.yaml"):
        again = open_all(DataConfig(data=str(data)))
        assert again.kind == "data YAML" and [index.num_boxes for index in again.splits.values()] == [3, 3]
        pictures = [Path(path) for path in again.splits["train"].image_paths]
        assert all(path.is_relative_to(tmp_path / ("coco" if copy else "export")) for path in pictures)


def test_ids_crowds_and_areas_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = coco_content({"a/x.png": [(0, 10, 20, 30, 40), (1, 1, 2, 3, 4)], "b/x.png": []}, ids=(70, 3))
    content["images"][1]["id"] = "second"
    content["annotations"][0] |= {"iscrowd": 1, "area": 99.5}
    source = write_coco(tmp_path / "mine", content)

    code, result, _ = run(capsys, "convert", "--data", source, "--to", tmp_path / "coco", "--copy")

    written = json.loads((tmp_path / "coco" / "train.json").read_text())
    assert code == 0 and result["splits"]["train"]["crowd_regions"] == 1
    assert written["categories"] == [{"id": 3, "name": "dog"}, {"id": 70, "name": "cat"}]
    assert [(item["id"], item["file_name"]) for item in written["images"]] == [
        (101, "train/a/x.png"),
        ("second", "train/b/x.png"),
    ]
    assert [
        (item["image_id"], item["category_id"], item["area"], item["iscrowd"]) for item in written["annotations"]
    ] == [
        (101, 70, 99.5, 1),
        (101, 3, 12, 0),
    ]


def test_images_without_ids_are_numbered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = EXPORTS["voc_devkit"](tmp_path / "voc")

    assert run(capsys, "convert", "--data", source, "--to", tmp_path / "coco")[0] == 0

    written = json.loads((tmp_path / "coco" / "train.json").read_text())
    assert [item["id"] for item in written["images"]] == [1, 2]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--data", "{set}", "--to", "{set}"], "exists already; nothing is ever written over"),
        (["--to", "{new}"], "convert needs --data"),
        (["--data", "{set}"], "convert needs --to"),
        (["--data", "{set}", "--to", "/dev/null/new"], "cannot be made"),
        (["--data", "{new}", "--to", "{new}"], "is needed"),
        (["--data", "{set}", "--to", "{new}", "--copyy"], "--copy"),
    ],
)
def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    source = EXPORTS["coco_file"](tmp_path / "set").parent
    places = {"set": source, "new": tmp_path / "new"}

    code, result, said = run(capsys, "convert", *(word.format(**places) for word in words))

    assert code == 2 and result["exit_code"] == 2 and told in result["error"] and told in said
    assert not (tmp_path / "new").exists()


def _pictures_elsewhere(folder: Path) -> tuple[list[str], list[str]]:
    """A COCO JSON whose pictures lie below ``--images``."""
    source = EXPORTS["coco_file"](folder / "set")
    (folder / "set" / "images").rename(folder / "pictures")
    return ["--data", str(source), "--images", str(folder / "pictures")], ["set/new", "pictures/new", "pictures/a/new"]


def _folder(folder: Path) -> tuple[list[str], list[str]]:
    source = EXPORTS["voc_devkit"](folder / "set")
    return ["--data", str(source)], ["set/new", "set/JPEGImages/new", "set/Annotations/new"]


def _yaml_elsewhere(folder: Path) -> tuple[list[str], list[str]]:
    """A data YAML that names its data with absolute paths, one of them through a symbolic link."""
    roboflow_yolo(folder / "set")
    (folder / "link").symlink_to(folder / "set" / "valid", target_is_directory=True)
    (folder / "mine").mkdir()
    yaml = folder / "mine" / "data.yaml"
    train = folder / "set" / "train" / "images"
    yaml.write_text(f"train: {train}\nval: {folder}/link/images\nnames: [cat, dog]\n")
    inside = ["mine/new", "set/train/images/new", "set/train/labels/new", "set/valid/images/new"]
    return ["--data", str(yaml)], inside


def _yaml_with_path(folder: Path) -> tuple[list[str], list[str]]:
    """A data YAML whose data lie below the folder that it calls ``path``."""
    source = roboflow_yolo(folder / "set") / "data.yaml"
    (folder / "data.yaml").write_text(f"path: {folder / 'set'}\n" + source.read_text())
    (folder / "mine").mkdir()
    (folder / "data.yaml").rename(folder / "mine" / "data.yaml")
    return ["--data", str(folder / "mine" / "data.yaml")], ["mine/new", "set/new"]


@pytest.mark.parametrize("write", [_pictures_elsewhere, _folder, _yaml_elsewhere, _yaml_with_path])
def test_nothing_is_written_into_a_folder_of_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], write: Callable[[Path], tuple[list[str], list[str]]]
) -> None:
    data, places = write(tmp_path)
    before = digest(tmp_path)

    for place in places:
        code, result, said = run(capsys, "convert", *data, "--to", tmp_path / place)

        assert code == 2 and "splits" not in result and "nothing is ever written into a data folder" in said
        assert f"--to {tmp_path / place}: this lies in " in said and not (tmp_path / place).exists()
    assert digest(tmp_path) == before
    assert run(capsys, "convert", *data, "--to", tmp_path / "new")[0] == 0


def test_a_fault_stops_a_conversion_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = EXPORTS["coco_file"](tmp_path / "set")
    path.write_text(path.read_text().replace('"category_id": 1', '"category_id": 5'))

    code, _, said = run(capsys, "convert", "--data", path, "--to", tmp_path / "new")

    assert code == 2 and "category that is not declared" in said and not (tmp_path / "new").exists()


# --- val --predictions ----------------------------------------------------------------------------------------------


def truth_and_detections(folder: Path, num_boxes: int = 2) -> tuple[Path, Path]:
    """A COCO JSON without any picture, and its boxes as detections."""
    rows = [(number % 2, 2.0 * number, 1, 1.5, 8) for number in range(num_boxes)]
    content = coco_content({"a.png": rows, "b.png": []}, ids=(10, 40))
    folder.mkdir(exist_ok=True)
    (folder / "gt.json").write_text(json.dumps(content))
    found = [
        {key: item[key] for key in ("image_id", "category_id", "bbox")} | {"score": 0.9}
        for item in content["annotations"]
    ]
    (folder / "dt.json").write_text(json.dumps(found))
    return folder / "gt.json", folder / "dt.json"


def test_detections_of_a_file_are_measured_without_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, found = truth_and_detections(tmp_path / "set")
    words = ["val", "--data", truth, "--predictions", found, "--project", tmp_path / "runs"]

    code, result, _ = run(capsys, *words)

    assert code == 0 and result["AP"] == pytest.approx(1.0) and result["images"] == 2
    assert json.loads((tmp_path / "runs" / "exp" / "metrics.json").read_text())["AP"] == pytest.approx(1.0)
    found.write_text("[]")
    assert run(capsys, *words)[1]["AP"] == 0.0


def test_more_objects_than_detections_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth, found = truth_and_detections(tmp_path / "set", 30)
    words = ["val", "--data", truth, "--predictions", found, "--project", tmp_path / "runs"]

    _, limited, said = run(capsys, *words, "--max-det", 10)
    _, full, silent = run(capsys, *words, "--max-det", 30)

    assert "1 images have more objects than --max-det 10 (up to 30)" in said and limited["AP"] < 0.9
    assert "more objects" not in silent and full["AP"] == pytest.approx(1.0)


def test_what_belongs_to_a_detector_is_refused_beside_predictions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth, found = truth_and_detections(tmp_path / "set")

    for option, value in (("--conf", "0.5"), ("--weights", "best.pt"), ("--classes", "cat")):
        code, _, said = run(capsys, "val", "--data", truth, "--predictions", found, option, value)

        assert code == 2 and f"{option} belongs to a detector" in said


def test_the_command_to_train_with_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_coco(tmp_path / "set", coco_content({"a.png": [(0, 10, 20, 30, 40)]}))
    target = tmp_path / "my $set"

    _, _, said = run(capsys, "convert", "--data", source, "--to", target)

    told = " ".join(said.split("train with", 1)[1].split())
    assert told.startswith("--data '") and shlex.split(told)[1].replace(" ", "").endswith("my$set/data.yaml")
