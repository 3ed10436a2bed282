"""How far a run is, from the last line of its records, however long these are."""

from __future__ import annotations

from pathlib import Path

from yolo_accum.report.records import UPDATES_FILE

TAIL_BYTES = 16384
"""More than two lines of the file."""


def images_done(folder: Path) -> int:
    """Images of the windows that a run has finished or dropped; 0 for a run that has not begun."""
    try:
        with (folder / UPDATES_FILE).open("rb") as file:
            header = file.readline().decode("utf-8").rstrip("\n").split(",")
            begin = file.tell()
            file.seek(0, 2)
            file.seek(max(begin, file.tell() - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").split("\n")
        row = dict(zip(header, lines[-2].split(","), strict=True))  # what follows the last line end is not whole
        return int(row["images_seen"]) + int(row["images_dropped"])
    except (OSError, ValueError, KeyError, IndexError):
        return 0
