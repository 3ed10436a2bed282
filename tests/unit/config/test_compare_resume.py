"""What `compare --resume` says when there is nothing to go on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from yolo_accum.config.compare_arguments import parse_compare
from yolo_accum.errors import UserError


@pytest.mark.parametrize("words", [["--data", "mine.json"], ["--arms", "norm=gn"]])
def test_a_missing_folder_is_told_before_options_that_do_not_fit(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere: no such folder"):
        parse_compare(["--resume", str(tmp_path / "nowhere"), *words])
