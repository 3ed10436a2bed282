"""`report` and `status` of run folders whose files hold something else than a run writes."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from run_folders import comparison, write_run
from small_index import make_index, perfect_detections

from yolo_accum.cli.main import main

WRONG = (
    b"",
    b"\xff\x00{",
    b"null",
    b"[1]",
    b'"text"',
    b'{"settings": 3, "train": 7, "AP": "x", "best": 4}',
    b"[" * 100_000,
)
NO_NUMBERS = b'{"state": "running", "process": 5, "num_micro_batches": "x", "started_at": []}'


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    index = make_index([[(0, (10, 10, 60, 60))], [(1, (5, 5, 50, 50))], []])
    folder = write_run(tmp_path_factory.mktemp("written") / "run", index, perfect_detections(index))
    (folder / "run_card.json").write_text('{"epochs": 3, "best": {"epoch": 2}}')
    return folder


@pytest.fixture
def copied(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "run"))


@pytest.mark.parametrize("wrong", WRONG, ids=["empty", "bytes", "null", "list", "text", "other", "deep"])
@pytest.mark.parametrize(
    "name",
    [
        "metrics.json",
        "predictions.json",
        "startup.json",
        "data.json",
        "truth.json",
        "train_samples.json",
        "run_card.json",
    ],
)
def test_the_page_is_made_without_a_file_that_holds_something_else(
    name: str, wrong: bytes, copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (copied / name).write_bytes(wrong)

    assert main(["report", str(copied)]) == 0

    said = " ".join(capfd.readouterr().out.split())
    assert f"warning: {copied / name}" in said and "the page is made without it" in said
    assert (copied / "report.html").is_file()


@pytest.mark.parametrize("wrong", [*WRONG, NO_NUMBERS])
def test_messages_and_states_that_cannot_be_read_cost_neither_page_nor_status(
    wrong: bytes, copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("status.json", "messages.jsonl"):
        (copied / name).write_bytes(wrong)

    assert main(["report", str(copied)]) == 0
    assert main(["status", str(copied)]) == 0
    assert "this is a bug" not in capfd.readouterr().err


@pytest.mark.parametrize("name", ["updates.csv", "epochs.csv"])
def test_a_row_that_is_not_whole_numbers_is_named(name: str, copied: Path, capfd: pytest.CaptureFixture[str]) -> None:
    header, *rows = (copied / name).read_text().splitlines()
    odd = ",".join(["nan"] * len(header.split(",")))
    (copied / name).write_text("\n".join([header, *rows, odd, ""]))

    assert main(["report", str(copied)]) == 0
    assert f"{name}, line {len(rows) + 2}: " in " ".join(capfd.readouterr().out.split())
    assert main(["status", str(copied)]) == 0
    assert f"warning: {copied / name}" in capfd.readouterr().out


@pytest.mark.parametrize("name", ["updates.csv", "epochs.csv"])
def test_a_table_of_another_program_is_named(name: str, copied: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (copied / name).write_text("a,b\n1,2\n")

    assert main(["report", str(copied)]) == 0
    assert f"{name}, line 1: there is no column " in " ".join(capfd.readouterr().out.split())


def test_classes_without_names_are_numbered(copied: Path) -> None:
    (copied / "startup.json").unlink()

    assert main(["report", str(copied)]) == 0
    assert "class 1" in (copied / "report.html").read_text(encoding="utf-8")


def test_a_page_without_a_name_is_refused(copied: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(copied), "--out", ""]) == 2
    assert "the name of a file is needed" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("place", "wrong"), [(("settings",), 3), (("arms",), None), (("arms", 0, "label"), None), (("comparisons", 0), "x")]
)
def test_a_comparison_that_lacks_something_is_named(
    place: tuple[str | int, ...], wrong: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = comparison(tmp_path, ["large", "small"])
    *before, last = place
    part: Any = functools.reduce(lambda item, key: item[key], before, content)
    part[last] = wrong
    if last == "label":
        del part[last]
    (tmp_path / "compare.json").write_text(json.dumps(content))

    assert main(["report", str(tmp_path)]) == 2
    assert f"{tmp_path / 'compare.json'}: not a file that `yolo-accum compare` has written" in capfd.readouterr().err
