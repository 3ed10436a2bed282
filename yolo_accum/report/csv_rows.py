"""The tables of a run as rows of text, as they lie on the disk."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from yolo_accum.errors import UserError

UPDATES_FILE = "updates.csv"
EPOCHS_FILE = "epochs.csv"
TAIL_BYTES = 64 * 1024
"""More than enough for a row."""


def read_rows(path: Path) -> Iterator[list[str]]:
    """The header and the rows, all cells of which are numbers or empty.

    A last line without its line end was cut short by a kill: it is left out.

    Raises:
        UserError: a line is something else (names it).
    """
    with path.open("rb") as file:
        header: list[str] = []
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                row = next(csv.reader([line.decode("utf-8")]))
            except (UnicodeDecodeError, csv.Error) as error:
                raise damaged(path, number, "this is no line of a CSV file") from error
            header = header or row
            if len(row) != len(header):
                raise damaged(path, number, f"{len(row)} cells, the header has {len(header)}")
            odd = [cell for cell in row if number > 1 and not _is_number(cell)]
            if odd:
                raise damaged(path, number, f"{odd[0]!r:.40} is no number")
            yield row


def _is_number(cell: str) -> bool:
    try:
        return not cell or float(cell) is not None
    except ValueError:
        return False


def damaged(path: Path, line: int, what: str) -> UserError:
    """The error that names a line."""
    return UserError(f"{path}, line {line}: {what}; a run goes on without this file when it is moved away")


def last_row(path: Path) -> dict[str, float]:
    """The last complete row by column, without the cells that are empty; nothing where there is no file or no row.

    However long the table is, only its ends are read.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no table of numbers.
    """
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        header = file.readline()
        file.seek(max(len(header), path.stat().st_size - TAIL_BYTES))
        lines = file.read().split(b"\n")[:-1]  # what follows the last line end was cut short, or is nothing
    if not lines:
        return {}
    names, cells = (next(csv.reader([line.decode("utf-8")])) for line in (header, lines[-1]))
    return {
        name: int(cell) if cell.isdecimal() else float(cell) for name, cell in zip(names, cells, strict=True) if cell
    }
