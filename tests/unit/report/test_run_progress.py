"""How far a run is, told by its records."""

from __future__ import annotations

from pathlib import Path

import pytest

from yolo_accum.report.run_progress import TAIL_BYTES, images_done

HEADER = "update,images_seen,images_dropped,lr_norm"


@pytest.mark.parametrize(
    ("text", "images"),
    [
        (f"{HEADER}\n1,8,0,0.1\n2,16,3,0.1\n", 19),
        (f"{HEADER}\n1,8,0,0.1\n2,16,3,0.", 8),  # the last line is being written
        (f"{HEADER}\n", 0),
        (HEADER, 0),
        ("", 0),
        (f"{HEADER}\nnothing of this kind\n", 0),
        (
            f"{HEADER}\n" + "".join(f"{n},{8 * n},0,0.123456789\n" for n in range(1, TAIL_BYTES // 10)),
            8 * (TAIL_BYTES // 10 - 1),
        ),
    ],
)
def test_the_last_whole_line_says_how_far(text: str, images: int, tmp_path: Path) -> None:
    (tmp_path / "updates.csv").write_text(text)

    assert images_done(tmp_path) == images


def test_a_run_that_has_not_begun(tmp_path: Path) -> None:
    assert images_done(tmp_path / "nowhere") == 0
