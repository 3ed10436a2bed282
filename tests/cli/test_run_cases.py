"""`tools/run_cases.py`: a case passes when everything that it states holds, and fails when one thing does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from small_sets import coco_content, write_coco, write_yolo

from yolo_accum.cli import run_cases
from yolo_accum.cli.cases import commands as case_commands
from yolo_accum.cli.cases.scoring import _is_same
from yolo_accum.cli.cases.setup import prepare_case, tree_digest
from yolo_accum.errors import UserError

PATHS = {"train_json": "train.json", "train_images": "images", "val_json": "train.json", "val_images": "images"}
BOXES = {"a.png": [[0, 10, 20, 40, 60]]}


def write_case(
    folder: Path, verdict: str, expect: Mapping[str, Any], *, fault: Mapping[str, Any] | None = None, **more: Any
) -> Path:
    """A COCO set of two pictures with an object in one; ``fault`` replaces parts of its annotation."""
    content = coco_content({"a.png": [(0, 10, 20, 30, 40)], "b.png": []})
    content["annotations"][0] |= fault or {}
    write_coco(folder, content)
    case = {"id": folder.name, "format": "coco", "paths": PATHS, "verdict": verdict, "stage": "load", "also_ok": []}
    case |= {"message_must_name": [], "expect": dict(expect), "skip_pixel_check": ["a.png"]}
    case |= more
    (folder / "case.json").write_text(json.dumps(case))
    return folder


def run(capsys: pytest.CaptureFixture[str], folder: Path, *ids: str) -> tuple[int, list[str]]:
    code = run_cases.main([str(folder), *ids])
    lines = capsys.readouterr().out.splitlines()
    return code, [line for line in lines if line.startswith(("passed", "FAILED")) or "failed" in line]


def test_cases_pass_or_fail_by_what_they_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = {"classes": ["cat", "dog"], "train_images": 2, "train_boxes": 1, "background_images": 1}
    # The class without any box is a warning of its own.
    good = write_case(tmp_path / "A-good", "accept_with_warning", {**counts, "boxes": BOXES}, message_must_name=["dog"])
    write_case(tmp_path / "B-refused", "reject", {}, fault={"category_id": 9}, message_must_name=["train.json", "9"])
    before = tree_digest(tmp_path)

    assert run(capsys, tmp_path) == (0, ["passed A-good", "passed B-refused", "2 passed, 0 failed"])
    assert tree_digest(tmp_path) == before

    for expect, more, told in (
        ({"train_boxes": 2}, {}, "train_boxes is 1, expected 2"),
        ({"boxes": {"a.png": [[1, 10, 20, 40, 60]]}}, {}, "a.png has the boxes"),
        ({"classes": ["dog", "cat"]}, {}, "the classes are ['cat', 'dog']"),
        ({}, {"verdict": "reject"}, "expected reject"),
        ({}, {"message_must_name": ["image_7"]}, "do not name image_7"),
        (
            {"boxes": BOXES, "classes": ["cat", "dog"]},
            {"skip_pixel_check": []},
            "not those of cat",
        ),  # the picture is plain grey
    ):
        case = {"verdict": "accept_with_warning", "message_must_name": ["dog"], **more}
        write_case(good, expect=expect, **case)
        wrong = run_cases.run_case(good)
        assert any(told in sentence for sentence in wrong), (told, wrong)


def test_one_failure_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_case(tmp_path / "A-wrong", "accept", {}, fault={"category_id": 9})
    write_case(tmp_path / "B-refused", "reject", {}, fault={"category_id": 9})

    code, lines = run(capsys, tmp_path)
    assert code == 1 and lines[0].startswith("FAILED A-wrong: check says reject") and lines[-1] == "1 passed, 1 failed"
    assert run(capsys, tmp_path, "B")[0] == 0


def test_labels_edited_between_two_runs_are_seen(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    write_yolo(folder, {"train": {"a.png": "0 0.5 0.5 0.5 0.5\n"}, "val": {"b.png": "1 0.5 0.5 0.5 0.5\n"}})
    box = [24, 18, 72, 54]
    edit = {"file": "labels/train/a.txt", "content": "1 0.5 0.5 0.5 0.5\n", "keep_mtime": True}
    expect = {"boxes": {"a.png": [[0, *box]]}, "boxes_second_run": {"a.png": [[1, *box]]}}
    case = {
        "format": "yolo",
        "paths": {"data_yaml": "data.yaml"},
        "verdict": "accept_with_warning",
        "edit_between_runs": [edit],
        "expect": expect,
        "skip_pixel_check": ["a.png"],
    }
    (folder / "case.json").write_text(json.dumps(case))

    assert run_cases.run_case(folder) == []
    case["expect"] = {**expect, "boxes_second_run": expect["boxes"]}
    (folder / "case.json").write_text(json.dumps(case))
    assert any("expected" in sentence for sentence in run_cases.run_case(folder))


def test_detections_are_scored_by_both_libraries(tmp_path: Path) -> None:
    folder = tmp_path / "eval"
    content = coco_content({"a.png": [(0, 10, 20, 30, 40)], "b.png": []}, ids=(10, 40))
    found = [{"image_id": 101, "category_id": 10, "bbox": [10, 20, 30, 40], "score": 0.9}]
    folder.mkdir()
    (folder / "gt.json").write_text(json.dumps(content))
    (folder / "dt.json").write_text(json.dumps(found))
    case = {
        "format": "coco-eval",
        "paths": {"gt": "gt.json", "detections": "dt.json"},
        "verdict": "accept",
        "expect": {"AP": 1.0, "AP50": 1.0, "per_class": {"cat": 1.0, "dog": None}, "AP_of_own_round_trip": 1.0},
        "detections_by_class_index": [{"image_id": 101, "class_index": 0, "bbox": [10, 20, 30, 40], "score": 0.9}],
    }
    (folder / "case.json").write_text(json.dumps(case))

    assert run_cases.run_case(folder) == []
    case["expect"] = {"AP": 0.5}
    (folder / "case.json").write_text(json.dumps(case))
    wrong = run_cases.run_case(folder)
    assert len(wrong) == 2 and all("AP is" in sentence for sentence in wrong)


def test_steps_beforehand_are_done_in_a_copy(tmp_path: Path) -> None:
    folder = write_case(tmp_path / "case", "accept", {}, setup=[{"symlink": "pool", "target": "images"}, "mkdir empty"])

    case = prepare_case(folder, tmp_path / "copy")

    assert (case.folder / "pool").is_symlink() and (case.folder / "empty").is_dir() and not (folder / "pool").exists()
    write_case(folder, "accept", {}, setup="shutdown now")
    with pytest.raises(UserError, match="setup 'shutdown now' is not understood"):
        prepare_case(folder, tmp_path / "other")
    assert run_cases.run_case(folder)[0].startswith("this case cannot be run")


def test_a_folder_without_cases_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cases.main([str(tmp_path)]) == 2
    assert "no folder with a case.json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"verdict": "acept"}, 'the verdict "acept" is not known'),
        ({"also_ok": ["perhaps"]}, 'the verdict "perhaps" is not known'),
        ({"verdict": None}, "the verdict null is not known"),
        ({"expect": {"train_bixes": 1}}, '"expect" holds train_bixes, which nothing is compared with'),
        ({"paths": {}}, '"paths" lacks train_json'),
        ({"paths": None}, '"paths" must be an object'),
        ({"format": "cocoa"}, '"format" is "cocoa"'),
        ({"format": "coco-eval", "paths": {"gt": "train.json", "detections": "x.json"}}, '"expect" states no score'),
        ({"setup": "rm nothing"}, "setup 'rm nothing' failed: rm: "),
        ({"setup": "touch ../stray"}, "../stray leads out of it"),
        ({"setup": "ln -s ../../x link"}, "../../x leads out of it"),
        ({"setup": [{"symlink": "link", "target": "/etc"}]}, "/etc leads out of it"),
        ({"setup": [{"file": "../stray", "content": ""}]}, "../stray leads out of it"),
        ({"setup": "cp -t/tmp train.json"}, "options with a path are not understood"),
        ({"setup": [3]}, "setup 3 is not understood"),
    ],
)
def test_what_is_not_understood_fails_the_case(tmp_path: Path, more: dict[str, Any], told: str) -> None:
    folder = write_case(tmp_path / "case", **{"verdict": "accept", "expect": {}, **more})

    (wrong,) = run_cases.run_case(folder)

    assert wrong.startswith("this case cannot be run: ") and told in wrong


def test_a_case_file_that_is_a_list_fails_the_case(tmp_path: Path) -> None:
    folder = write_case(tmp_path / "case", "accept", {})
    (folder / "case.json").write_text("[]")

    assert run_cases.run_case(folder) == ["this case cannot be run: case.json must hold an object"]


def test_a_name_that_matches_no_case_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_case(tmp_path / "A-good", "accept", {})

    assert run_cases.main([str(tmp_path), "B"]) == 2
    assert "no case begins with B" in capsys.readouterr().out


def test_an_undefined_score_is_not_0_and_a_split_that_is_not_written_is_missed() -> None:
    assert _is_same(None, None) and _is_same(0.0, 0) and not _is_same(None, 0) and not _is_same(0.0, None)
    assert run_cases._absent_splits({}, {"val_images": 1, "test_boxes": 0}) == ["train", "val"]


@pytest.mark.parametrize("text", ["", "{}\n{}", "[]", "note\n{}"])
def test_json_is_one_object_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    def verb(words: list[str]) -> int:
        print(text, end="")
        return 0

    monkeypatch.setattr(case_commands, "main", verb)

    with pytest.raises(UserError, match="check --json wrote something else than one JSON object"):
        case_commands.run_verb(["check"], tmp_path)
