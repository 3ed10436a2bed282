"""`val` and `predict` from the command line to their files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import pytest
import torch
from small_sets import coco_content, write_coco, write_picture

from yolo_accum.cli.main import main
from yolo_accum.cli.predict import find_pictures
from yolo_accum.contracts import METRIC_NAMES
from yolo_accum.errors import UserError
from yolo_accum.model.build import build_model

IDS = (7, "ninety")
"""What the classes of these data are called: neither consecutive nor all numbers."""


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint as training writes it, of a new detector for cats and dogs; the classes lean on one side."""
    torch.manual_seed(0)
    model = build_model("yolox_nano", 2)
    path = tmp_path_factory.mktemp("weights") / "best.pt"
    torch.save(
        {
            "format": "yolo-accum",
            "version": 1,
            "class_names": ["cat", "dog"],
            "class_ids": list(IDS),
            "config": {"imgsz": 64},
            "model": model.state_dict(),
        },
        path,
    )
    return path


@pytest.fixture
def coco_json(tmp_path: Path) -> Path:
    content = coco_content(
        {"a.png": [(0, 10, 10, 30, 20), (1, 50, 40, 20, 20)], "b.png": [], "c.png": [(1, 5, 5, 60, 50)]}, ids=IDS
    )
    return write_coco(tmp_path / "data", content, "val.json")


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def result_of(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The JSON object of a command that must succeed, which must be all of standard output."""
    code = main([*words, "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def val_words(weights: Path, data: Path, project: Path) -> list[str]:
    options = {"--weights": weights, "--data": data, "--project": project, "--workers": 0, "--threads": 1}
    return ["val", *(str(word) for option in options.items() for word in option), "--conf", "0"]


def test_val_measures_at_the_trained_size_and_answers_in_the_users_ids(
    weights: Path, coco_json: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_below(coco_json.parent)

    result = result_of(val_words(weights, coco_json, tmp_path / "runs"), capsys)

    assert set(METRIC_NAMES) < set(result) and 0 <= result["AP"] <= 1
    assert [(item["name"], item["id"], item["boxes"]) for item in result["per_class"]] == [
        ("cat", 7, 1),
        ("dog", "ninety", 2),
    ]
    assert result["settings"]["imgsz"] == 64 and result["images"] == 3
    predictions = json.loads(Path(result["files"]["predictions"]).read_text())
    assert {item["category_id"] for item in predictions} <= set(IDS)
    assert {item["image_id"] for item in predictions} == {101, 102, 103}
    saved = json.loads(Path(result["files"]["metrics"]).read_text())
    assert saved == {name: result[name] for name in saved}
    assert cv2.imread(result["files"]["val_predictions"]) is not None
    assert files_below(coco_json.parent) == before


def test_val_takes_another_size_batch_and_evaluator_when_asked(
    weights: Path, coco_json: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*val_words(weights, coco_json, tmp_path / "runs"), "--imgsz", "96", "--no-plots"]

    first = result_of([*words, "--val-batch", "1"], capsys)
    second = result_of([*words, "--val-batch", "3", "--evaluator", "pycocotools"], capsys)

    assert first["settings"]["imgsz"] == 96 and "val_predictions" not in first["files"]
    assert {name: first[name] for name in METRIC_NAMES} == pytest.approx(
        {name: second[name] for name in METRIC_NAMES}, abs=1e-6
    )
    assert (first["run"], second["run"]) == (str(tmp_path / "runs" / "exp"), str(tmp_path / "runs" / "exp2"))


def test_val_prints_tables_for_people(
    weights: Path, coco_json: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*val_words(weights, coco_json, tmp_path / "runs"), "--no-plots"]) == 0

    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert any(line[:1] == ["AP50"] for line in words)
    assert any(line[:2] == ["dog", "2"] for line in words)
    assert any(line[:1] == ["predictions"] for line in words)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"--weights": None}, "--weights is needed"),
        ({"--weights": "no.pt"}, "no.pt"),
        ({"--data": "no.json"}, "no.json"),
        ({"--data": "birds.json"}, "bird"),
        ({"--model": "yolox_s"}, "yolox_s"),
        ({"--device": "7"}, "--device 7"),
    ],
)
def test_val_refuses_what_it_cannot_use(
    changes: dict[str, str | None],
    sentence: str,
    weights: Path,
    coco_json: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_coco(tmp_path, coco_content({"d.png": [(0, 1, 1, 20, 20)]}, names=("bird", "dog")), "birds.json")
    options = {"--weights": str(weights), "--data": str(coco_json), **changes}

    assert main(["val", *(word for name, value in options.items() if value for word in (name, value))]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err and captured.err.startswith("error: ") and "Traceback" not in captured.err
    assert not (tmp_path / "runs").exists()


def test_predict_draws_and_writes_every_picture_it_can_read(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("in/a.png", "in/below/a.jpg", "in/b.png"):
        write_picture(tmp_path / name, 80, 60)
    (tmp_path / "in" / "broken.png").write_bytes(b"no picture")
    (tmp_path / "in" / "notes.txt").write_text("no picture either")
    before = files_below(tmp_path / "in")

    words = ["predict", tmp_path / "in", "--weights", weights, "--project", tmp_path / "runs", "--threads", "1"]
    result = result_of([*map(str, words), "--conf", "0", "--max-det", "3", "--val-batch", "2"], capsys)

    assert (result["pictures"], result["detections"]) == (3, 9)
    assert len(result["unreadable"]) == 1 and "broken.png" in result["unreadable"][0]
    assert [Path(item["file"]).name for item in result["results"]] == ["a.png", "b.png", "a.jpg"]
    for item in result["results"]:
        assert (item["width"], item["height"]) == (80, 60)
        for found in item["detections"]:
            assert (found["class"], found["class_id"]) in [("cat", 7), ("dog", "ninety")]
            left, top, width, height = found["bbox"]
            assert left >= 0 and top >= 0 and left + width <= 80.001 and top + height <= 60.001
    assert json.loads(Path(result["files"]["predictions"]).read_text()) == result["results"]
    drawn = sorted(path.name for path in Path(result["run"]).glob("*.jpg"))
    assert drawn == ["a.jpg", "a_2.jpg", "b.jpg"]
    assert cv2.imread(str(Path(result["run"]) / "b.jpg")).shape == (480, 640, 3)
    assert files_below(tmp_path / "in") == before


def test_predict_refuses_what_is_not_there(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.png").write_bytes(b"no picture")
    words = ["predict", "--weights", str(weights), "--project", str(tmp_path / "runs")]

    for source, sentence in [
        ("gone.jpg", "there is no such picture"),
        ("empty", "no pictures in this folder"),
        ("broken.png", "none of the 1 pictures could be read"),
    ]:
        assert main([*words, str(tmp_path / source)]) == 2
        assert sentence in capsys.readouterr().err


def test_pictures_are_found_in_order_and_once(tmp_path: Path) -> None:
    for name in ("b.png", "a.JPG", "below/c.webp", "odd.dat"):
        write_picture(tmp_path / name) if name != "odd.dat" else (tmp_path / name).write_bytes(b"")

    found = find_pictures([str(tmp_path / "odd.dat"), str(tmp_path), str(tmp_path / "b.png")])

    assert [path.name for path in found] == ["odd.dat", "a.JPG", "b.png", "c.webp"]
    with pytest.raises(UserError, match=r"gone\.png: there is no such picture or folder"):
        find_pictures([str(tmp_path / "gone.png")])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_in_a_folder_are_no_pictures(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(UserError, match="no pictures in this folder"):
        find_pictures([str(tmp_path)])
    (tmp_path / "a.png").touch()
    (tmp_path / "broken.png").symlink_to(tmp_path / "gone.png")  # is reported as a picture that cannot be read
    assert [path.name for path in find_pictures([str(tmp_path)])] == ["a.png", "broken.png"]


@pytest.mark.real
def test_public_coco_weights_have_the_accuracy_that_others_measured(
    real_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = real_data / "data" / "cocoval" / "val.json"
    weights = real_data / "weights" / "yolox_nano_coco_calibrated.pth"
    words = ["val", "--weights", weights, "--data", data, "--imgsz", "416", "--project", tmp_path, "--threads", "1"]

    result = result_of([*map(str, words), "--no-plots"], capsys)

    assert result["AP"] == pytest.approx(0.332, abs=0.003)
    assert result["settings"]["model"] == "yolox_nano"
