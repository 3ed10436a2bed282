"""`--cache disk` where something else lies already: it is named, and left as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_data import write_data
from train_command import Train, train_command


@pytest.fixture
def train(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Train:
    words = ["--epochs", "1", "--cache", "disk", "--cache-dir", str(tmp_path / "cache")]
    return train_command(write_data(tmp_path / "data"), tmp_path / "runs", capfd, *words)


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_in_the_place_of_the_folder_is_told(below: str, train: Train, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("mine")
    place = tmp_path / "cache" / below

    said = train("--cache-dir", str(place), code=2)["said"]
    assert f"error: --cache disk: {place}: a folder is needed, and a file is in its place" in said
    assert (tmp_path / "cache").read_text() == "mine"


def test_a_folder_in_the_place_of_the_file_is_no_lack_of_room(train: Train, tmp_path: Path) -> None:
    train()
    (kept,) = (tmp_path / "cache").glob("*.pictures")
    kept.unlink()
    kept.mkdir()

    assert f"{kept}: cannot be made (Is a directory)" in train(code=2)["said"]
    assert kept.is_dir()
