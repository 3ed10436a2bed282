"""`benchmark data`: the made-up set is what it says, every part gives its figures, options are checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_data import write_data

from yolo_accum.cli.benchmarks.data import Figure
from yolo_accum.cli.benchmarks.index import measure_index, write_large_set
from yolo_accum.cli.main import main
from yolo_accum.config.schema import DataConfig
from yolo_accum.data.description import open_data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def test_samples_are_measured_against_imread(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "data", "--data", str(data), "--parts", "samples", "--rounds", "1", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert [figure["limit"] for figure in figures] == [0.9, 0.3, 0.5, 0.25]
    assert all(figure["value"] > 0 and "cv2.imread" in figure["name"] for figure in figures)


def test_the_large_set_has_its_size(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOLO_ACCUM_CACHE", str(tmp_path / "cache"))
    train = open_data(DataConfig(data=str(data))).train
    write_large_set(tmp_path / "large", 30, 7.3, train)
    index = open_data(DataConfig(data=str(tmp_path / "large" / "train.json"))).train
    assert (len(index), index.num_boxes, index.num_classes) == (30, 219, 80)
    measured = measure_index(tmp_path / "large")
    assert measured["boxes"] == 219 and 0 < measured["seconds"] < 30
    size_bytes = (tmp_path / "large" / "train.json").stat().st_size
    assert 400 < size_bytes / 219 < 700, "an annotation has an outline as in COCO's own file"


@pytest.mark.parametrize(
    ("value", "limit", "is_ratio_to_reach", "is_met"),
    [(2.0, 3, False, True), (3.5, 3, False, False), (0.9, 0.9, True, True), (0.8, 0.9, True, False)],
)
def test_a_figure_says_whether_its_limit_is_met(
    value: float, limit: float, is_ratio_to_reach: bool, is_met: bool
) -> None:
    figure = Figure(name="x", value=value, limit=limit, is_ratio_to_reach=is_ratio_to_reach, unit="s")
    assert figure.is_met == is_met
    assert ("NOT MET" in figure.text()) == (not is_met)
    assert ("at least" if is_ratio_to_reach else "at most") in figure.text()


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (["--parts", "speed"], "samples, index, workers, evaluation"),
        (["--rounds", "0"], "from 1 to 1,000"),
        (["--epochs", "3"], "--epochs"),
    ],
)
def test_bad_options(words: list[str], piece: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "data", *words]) == 2
    assert piece in capsys.readouterr().err
