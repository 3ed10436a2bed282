"""`report`, and the page that a training leaves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from run_folders import comparison
from small_data import write_data

from yolo_accum.cli.main import main


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs, and its data set beside it."""
    base = tmp_path_factory.mktemp("trained")
    data = write_data(base / "data", num_train=6, num_val=4)
    words = ["--imgsz", "64", "--epochs", "2", "--batch", "2", "--nbs", "4", "--workers", "0", "--threads", "1"]
    assert main(["train", "--data", str(data), *words, "--project", str(base / "runs"), "--amp", "off"]) == 0
    return base / "runs" / "exp"


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert main(["report", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_training_ends_with_its_page(trained: Path) -> None:
    text = (trained / "report.html").read_text(encoding="utf-8")

    assert "Finished, 2 of 2 epochs done" in text and '<h2 id="costly">' in text
    assert text.count("data:image/jpeg") >= 6  # training pictures, and what costs AP


def test_the_page_is_made_again_the_same(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def body() -> str:
        return (copied / "report.html").read_text(encoding="utf-8").partition("<footer>")[0]

    before = body().replace("Training run exp", "Training run run")
    result = told(capsys, str(copied))

    assert result["report"] == str(copied / "report.html")
    assert body() == before


def test_a_run_that_was_killed_has_what_its_best_epoch_found(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("run_card.json", "status.json", "report.html"):
        (copied / name).unlink()

    told(capsys, str(copied))

    text = (copied / "report.html").read_text(encoding="utf-8")
    assert "Not finished" in text and "It is written when the run is finished." in text
    assert "Measured with the best epoch so far" in text


def test_pictures_that_are_gone_are_left_grey(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = json.loads((copied / "truth.json").read_text())
    for image in truth["images"]:
        image["file_name"] = "/elsewhere/gone.png"
    (copied / "truth.json").write_text(json.dumps(truth))

    told(capsys, str(copied))

    assert "its file cannot be read" in (copied / "report.html").read_text(encoding="utf-8")


def test_the_page_goes_where_it_is_to(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (copied / "report.html").read_bytes()

    result = told(capsys, str(copied / "weights" / "best.pt"), "--out", str(tmp_path / "page.html"), "--conf", "0.05")

    assert result["report"] == str(tmp_path / "page.html") and (tmp_path / "page.html").is_file()
    assert (copied / "report.html").read_bytes() == before
    assert "score of at least 0.05" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_comparison_has_its_page_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "compare.json").write_text(json.dumps(comparison(tmp_path, ["large", "small"])))

    assert told(capsys, str(tmp_path))["report"] == str(tmp_path / "compare.html")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "report needs a run folder"),
        (["{}/nowhere"], "nowhere: no such folder"),
        (["{}"], "is neither a run folder"),
        (["{}", "{}", "--out", "a.html"], "--out a.html names one file for 2 folders"),
        (["{}", "--conf", "2"], "--conf 2: a number from 0 to 1 is needed"),
        (["{}", "--cnf", "0.2"], "did you mean --conf?"),
    ],
)
def test_bad_input_is_answered_in_a_sentence(
    tmp_path: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *(word.format(tmp_path) for word in words)]) == 2

    assert sentence in capsys.readouterr().err


def test_a_page_whose_folder_does_not_exist_is_refused(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(copied), "--out", str(copied / "no" / "page.html")]) == 2

    assert "there is no folder" in capsys.readouterr().err
