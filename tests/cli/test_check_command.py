"""`yolo-accum check`, as a user runs it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from small_sets import HEIGHT_PX, WIDTH_PX, coco_content, write_coco, write_picture, write_yolo

from yolo_accum.cli.main import main
from yolo_accum.data.check import pictures


def check(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and result of a check with ``--json``."""
    code = main(["check", "--workers", "0", "--no-plots", *words, "--json", "--project", str(folder / "runs")])
    output = capsys.readouterr().out
    return code, json.loads(output)


def codes(result: dict[str, Any], *severities: str) -> list[str]:
    return [item["code"] for item in result["findings"] if not severities or item["severity"] in severities]


def paint(data: Path) -> Path:
    """Give every picture beside a description a content of its own; returns the description."""
    for seed, path in enumerate(sorted(data.parent.rglob("*.png"))):
        coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
        image = cv2.resize(coarse, (WIDTH_PX, HEIGHT_PX), interpolation=cv2.INTER_CUBIC)
        path.write_bytes(cv2.imencode(".png", image)[1].tobytes())
    return data


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    splits = {
        "train": {"a.png": "0 .5 .5 .5 .5\n1 .2 .2 .1 .1", "b.png": "1 .5 .5 .5 .5", "c.png": ""},
        "val": {"d.png": "0 .5 .5 .2 .2", "e.png": "1 .5 .5 .2 .2"},
    }
    return paint(write_yolo(tmp_path / "data", splits))


def test_a_clean_set_gives_counts_of_every_split_and_exit_code_0(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = check(capsys, tmp_path, "--data", str(clean), "--strict")

    assert code == result["exit_code"] == 0 and result["ok"] is True
    assert codes(result, "error", "warning") == []
    train, val = result["splits"]["train"], result["splits"]["val"]
    assert (train["images"], train["boxes"], train["classes"], train["images_without_objects"]) == (3, 3, 2, 1)
    assert (val["images"], val["boxes"], val["classes"], val["images_without_objects"]) == (2, 2, 2, 0)
    assert [(item["name"], item["boxes"]) for item in train["boxes_per_class"]] == [("cat", 1), ("dog", 2)]
    assert result["pictures_decoded"] == 5
    assert json.loads(Path(result["files"]["check"]).read_text())["findings"] == result["findings"]


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--strict",), 1)])
def test_warnings_matter_when_asked_to(
    words: Sequence[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = coco_content({"a.png": [(0, 10, 10, 20, 20), (1, 90, 60, 20, 20)], "b.png": [(0, 5, 5, 0, 10)]})
    path = write_coco(tmp_path / "data", content)

    got, result = check(capsys, tmp_path, "--data", str(path), *words)

    assert got == code == result["exit_code"]
    warnings = {item["code"]: item for item in result["findings"] if item["severity"] == "warning"}
    assert {"zero-size", "clipped"} <= set(warnings)
    assert warnings["zero-size"]["count"] == 1 and "annotation 3" in warnings["zero-size"]["message"]


def test_errors_of_all_splits_are_told_at_once_most_severe_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_yolo(
        tmp_path / "data",
        {
            "train": {"a.png": "0 .5 .5 .5 .5\n7 .5 .5 .2 .2", "b.png": None},
            "val": {"c.png": "0 .5 .5\n", "d.png": "0 .5 .5 .2 .2"},
        },
    )

    code, result = check(capsys, tmp_path, "--data", str(data))

    assert code == 2 and result["ok"] is False
    assert {"class-out-of-range", "bad-row"} <= set(codes(result, "error"))
    severities = [item["severity"] for item in result["findings"]]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    messages = " ".join(item["message"] for item in result["findings"])
    assert "labels/train/a.txt line 2" in messages and "labels/val/c.txt line 1" in messages
    assert "unmeasured-class" not in codes(result)  # the class that c.txt lacks may be in the row that was refused


def test_a_split_that_cannot_be_read_does_not_hide_the_others(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clean.write_text("train: images/train\nval: images/nowhere\nnames: [cat, dog]\n")

    code, result = check(capsys, tmp_path, "--data", str(clean))

    assert code == 2
    [finding] = [item for item in result["findings"] if item["code"] == "unusable"]
    assert "images/nowhere" in finding["message"]
    assert list(result["splits"]) == ["train"] and result["splits"]["train"]["images"] == 3


def test_a_broken_description_is_one_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.json"
    path.write_text("{")

    code, result = check(capsys, tmp_path, "--data", str(path))

    assert (code, codes(result), result["splits"]) == (2, ["unusable"], {})
    assert "is not JSON" in result["findings"][0]["message"]


def test_data_that_are_not_there_are_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--data", str(tmp_path / "no.yaml"), "--json"]) == 2

    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and "no.yaml" in captured.err
    assert captured.err == f"error: {json.loads(captured.out)['error']}\n"


def test_damage_inside_a_picture_is_found_by_decoding_only(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = clean.parent / "images" / "train" / "b.png"
    data = bytearray(picture.read_bytes())
    place = data.index(b"IDAT") + 6
    data[place : place + 12] = b"\xff" * 12
    picture.write_bytes(bytes(data))

    _, blind = check(capsys, tmp_path, "--data", str(clean), "--no-pictures")
    _, result = check(capsys, tmp_path, "--data", str(clean))

    assert codes(blind, "warning") == []
    [finding] = [item for item in result["findings"] if item["code"] == "undecodable-picture"]
    assert finding["count"] == 1 and "b.png" in finding["places"][0]


def test_nothing_is_written_beside_the_data_and_no_report_overwritten(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(clean.parent.rglob("*"))

    runs = {check(capsys, tmp_path, "--data", str(clean))[1]["run"] for _ in range(2)}

    assert len(runs) == 2 and sorted(clean.parent.rglob("*")) == before


def test_classes_that_only_one_split_has_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_yolo(tmp_path / "data", {"train": {"a.png": "0 .5 .5 .5 .5"}, "val": {"b.png": "1 .5 .5 .5 .5"}})

    _, result = check(capsys, tmp_path, "--data", str(data))

    found = {item["code"]: item["places"] for item in result["findings"]}
    assert found["unseen-class"] == ["val: dog"] and found["unmeasured-class"] == ["val: cat"]


def test_a_set_with_a_training_split_alone_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_yolo(tmp_path / "data", {"train": {"a.png": "0 .5 .5 .5 .5\n1 .5 .5 .2 .2"}})

    code, result = check(capsys, tmp_path, "--data", str(data), "--strict")

    assert code == 0 and list(result["splits"]) == ["train"]


def test_a_sample_spreads_over_the_splits(clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for split in ("train", "val"):
        write_picture(clean.parent / "images" / split / "z.png")

    _, result = check(capsys, tmp_path, "--data", str(clean), "--sample", "3")

    assert result["pictures_decoded"] == 3


def test_pictures_of_another_split_are_leaks_and_copies_with_other_boxes_are_told(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = clean.parent / "images"
    (folder / "val" / "d.png").write_bytes((folder / "train" / "a.png").read_bytes())
    (folder / "train" / "c.png").write_bytes((folder / "train" / "b.png").read_bytes())
    image = cv2.imread(str(folder / "train" / "a.png"))
    (folder / "val" / "e.png").write_bytes(cv2.imencode(".png", cv2.resize(image, (48, 36)))[1].tobytes())

    code, result = check(capsys, tmp_path, "--data", str(clean), "--strict", "--plots")

    found = {item["code"]: item for item in result["findings"]}
    assert code == 1
    assert found["leaked-picture"]["places"] == [f"{folder}/val/d.png = train: {folder}/train/a.png"]
    assert found["same-picture"]["places"] == [f"{folder}/train/c.png = train: {folder}/train/b.png"]
    assert found["leaked-similar"]["count"] == 1 and "val/e.png alike by" in found["leaked-similar"]["message"]
    assert {place.split(" has other")[0] for place in found["other-boxes"]["places"]} <= {
        f"{folder}/train/c.png",
        f"{folder}/val/d.png",
    }
    assert len(result["duplicates"]["same"]) == 2 and len(result["duplicates"]["similar"]) == 1
    assert Path(result["files"]["findings"]).read_bytes()[:4] == b"\x89PNG"
    page = Path(result["files"]["page"]).read_text(encoding="utf-8")
    assert found["leaked-picture"]["places"][0] in page and "data:image/jpeg;base64," in page


def test_a_worker_that_is_killed_is_told_and_ends_the_check(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "read_working_image", lambda *picture: os.kill(os.getpid(), signal.SIGKILL))

    assert main(["check", "--data", str(clean), "--project", str(tmp_path / "runs"), "--workers", "1"]) == 3
    assert "a process that decodes pictures was killed" in capsys.readouterr().err


def test_workers_give_what_one_process_gives(clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, alone = check(capsys, tmp_path, "--data", str(clean))
    _, shared = check(capsys, tmp_path, "--data", str(clean), "--workers", "2")

    assert {**alone, "run": "", "files": {}} == {**shared, "run": "", "files": {}}


def test_people_are_told_kind_by_kind_with_the_first_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = "\n".join(f"9 .5 .5 .{number + 1} .5" for number in range(7))
    data = write_yolo(tmp_path / "data", {"train": {"a.png": labels, "b.png": "0 .5 .5 .2 .2"}, "val": {"c.png": ""}})

    assert (
        main(["check", "--data", str(data), "--project", str(tmp_path / "runs"), "--no-plots", "--workers", "0"]) == 2
    )

    lines = capsys.readouterr().out.splitlines()
    start = lines.index(
        next(line for line in lines if line.startswith("error: label rows with a class out of range: 7 in "))
    )
    told = [line.strip() for line in lines[start + 1 : start + 8]]
    assert told[0] == "the classes are 0 to 1" and told[-1] == "and 2 more"
    assert ["line" in line for line in told[1:-1]] == [True] * 5
    assert start == 0 and any(line.startswith("advice: ") for line in lines)
    assert not list((tmp_path / "runs").rglob("*.png"))


def test_a_split_whose_pictures_are_all_missing_is_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_coco(tmp_path / "data", coco_content({"a.png": [(0, 10, 20, 30, 40)]}))
    (tmp_path / "data" / "images" / "a.png").unlink()

    code, result = check(capsys, tmp_path, "--data", str(tmp_path / "data" / "train.json"))

    assert code == 2 and codes(result, "error") == ["missing-picture"]


def test_names_that_are_no_utf8_leave_the_program_as_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = "0 .5 .5 .5 .5\n"
    data = write_yolo(tmp_path / "data", {"train": {"a.png": row * 2}, "val": {"b.png": row}})
    for kind, suffix in (("images", ".png"), ("labels", ".txt")):
        path = data.parent / kind / "train" / f"a{suffix}"
        path.rename(path.with_name(os.fsdecode(b"bad\xff" + suffix.encode())))
    words = ["--data", str(data), "--project", str(tmp_path / "runs")]

    assert main(["check", "--workers", "0", *words, "--json"]) == 0  # drawn and written to a page as well
    assert "bad\\\\udcff" in capsys.readouterr().out
    assert main(["check", "--workers", "0", "--no-plots", *words]) == 0
    assert "bad\\udcff" in capsys.readouterr().out
    assert main(["convert", "--data", str(data), "--to", str(tmp_path / "coco"), "--json"]) == 0
    text = (tmp_path / "coco" / "train.json").read_text(encoding="utf-8")
    name = json.loads(text)["images"][0]["file_name"]
    assert os.fsencode(name).endswith(b"bad\xff.png") and (tmp_path / "coco" / name).is_file()
    assert (
        main(["check", "--no-pictures", "--no-plots", "--data", str(tmp_path / "coco" / "data.yaml"), *words[2:]]) == 0
    )
