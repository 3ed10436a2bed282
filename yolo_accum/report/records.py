"""The record of a run in two CSV files: one row an attempted update, one row an epoch."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import get_type_hints

import numpy as np

from yolo_accum.contracts import METRIC_NAMES, EpochRecord, Observer, UpdateRecord
from yolo_accum.report.csv_rows import EPOCHS_FILE, UPDATES_FILE, damaged, read_rows

_BY_NAME = ("loss_", "lr_", "weight_decay_")
"""Columns of which there are as many as a run has loss terms or parameter groups."""


class CsvRecords(Observer):
    """Writes ``updates.csv`` and ``epochs.csv`` into a run folder while the run goes on.

    Numbers are written in full, so that reading a column gives back the very numbers that the engine had; flags as 0
    and 1; a number that does not exist (a metric in an epoch without validation) as an empty cell. Fields by name
    become columns: ``loss_box``, ``lr_decay``, ``weight_decay_decay``. The columns are those of the first row
    for the whole run. Every row is handed to the operating system at once: a killed process loses none.

    Args:
        folder: an existing run folder. Its files are carried on; ``truncate_after`` comes first then.
    """

    def __init__(self, folder: Path) -> None:
        self._updates = _Table(folder / UPDATES_FILE)
        self._epochs = _Table(folder / EPOCHS_FILE)

    def truncate_after(self, updates: int, epochs: int) -> None:
        """Forget what came after a checkpoint, before the run is resumed there.

        A last line that was cut short when the process was killed goes as well.

        Args:
            updates: attempted updates in the checkpoint; rows of later ones are dropped.
            epochs: finished epochs in the checkpoint, likewise.
        Raises:
            OSError: a file cannot be read or written (names it).
            UserError: a file is not what this program wrote (names it and the line); both are as they were.
        """
        tables = (
            (self._updates, _columns_of(UpdateRecord), "update", updates),
            (self._epochs, [*_columns_of(EpochRecord), *METRIC_NAMES], "epoch", epochs - 1),  # epochs count from 0
        )
        kept = [table.rows_until(needed, column, highest) for table, needed, column, highest in tables]
        for (table, *_), rows in zip(tables, kept, strict=True):
            table.replace(rows)

    def on_update(self, record: UpdateRecord) -> None:
        """Append a row to ``updates.csv``.

        Raises:
            OSError: the row cannot be written, for example on a full disk (names the file).
            ValueError: the record has other columns than the first one of the run.
        """
        self._updates.append(_row(record))

    def on_epoch(self, record: EpochRecord) -> None:
        """Append a row to ``epochs.csv``; errors as ``on_update``."""
        # Validation may be rarer than epochs: its columns exist from the first row on.
        metrics = {name: record.metrics.get(name) for name in METRIC_NAMES} | dict(record.metrics)
        self._epochs.append(_row(record) | {name: _cell(value) for name, value in metrics.items()})


def read_updates(folder: Path) -> dict[str, np.ndarray]:
    """The columns of ``updates.csv``, [rows] float64 each; NaN where a cell is empty.

    A last line that is not complete is left out. No file, or one without rows, gives no columns.

    Raises:
        UserError: the file is damaged, or another program has written it (names it and the line).
    """
    return _read_columns(folder / UPDATES_FILE, UpdateRecord)


def read_epochs(folder: Path) -> dict[str, np.ndarray]:
    """The columns of ``epochs.csv``, as ``read_updates``."""
    return _read_columns(folder / EPOCHS_FILE, EpochRecord)


class _Table:
    """A CSV file that grows by rows and keeps its header."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header: list[str] | None = None

    def append(self, row: Mapping[str, str]) -> None:
        with _naming(self._path):
            if self._header is None:
                self._header = self._start(row)
            if set(row) != set(self._header):
                names = ", ".join(sorted(set(row) ^ set(self._header)))
                raise ValueError(f"{self._path}: the columns of a run cannot change; these differ: {names}")
            # Opened and closed for each row: closing reports a failed write, and nobody has to remember it.
            with self._path.open("a", encoding="utf-8", newline="") as file:
                file.write(_line(row[name] for name in self._header))

    def rows_until(self, needed: Collection[str], column: str, highest: float) -> list[list[str]]:
        """The header and the rows in which ``column`` is not above ``highest``, without a last line cut short.

        Raises:
            UserError: a column that is ``needed`` is missing, one is unknown, or ``column`` is no whole number.
        """
        if not self._path.exists():
            return []
        rows = read_rows(self._path)
        header = next(rows, [])
        _require_columns(self._path, header, needed)
        strange = [name for name in header if name not in needed and not name.startswith(_BY_NAME)]
        if strange:
            raise damaged(self._path, 1, f"{strange[0]!r:.40} is no column of this program")
        kept = [header] if header else []
        for number, row in enumerate(rows, start=2):
            cell = row[header.index(column)]
            if not cell.isdecimal():
                raise damaged(self._path, number, f"{column} {cell!r:.40} is no whole number")
            if int(cell) <= highest:
                kept.append(row)
        return kept

    def replace(self, rows: Iterable[Iterable[str]]) -> None:
        """Put these rows, the header first, in place of what the file holds; no file stays none."""
        with _naming(self._path):
            if self._path.exists():
                temporary = self._path.with_name(f"{self._path.name}.part")
                temporary.write_text("".join(map(_line, rows)), encoding="utf-8", newline="")
                temporary.replace(self._path)

    def _start(self, row: Mapping[str, str]) -> list[str]:
        """The header of the file; it is made from the first row where there is none."""
        header = next(read_rows(self._path), None) if self._path.exists() else None
        if header is None:
            header = list(row)
            self._path.write_text(_line(header), encoding="utf-8", newline="")
        return header


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """A full disk is noticed by write(), which does not know the name of the file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _row(record: UpdateRecord | EpochRecord) -> dict[str, str]:
    """A record as cells by column; the metrics of an epoch are left to the caller."""
    cells: dict[str, str] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.name == "metrics":
            continue
        if isinstance(value, Mapping):
            prefix = "loss" if field.name == "losses" else field.name
            cells |= {f"{prefix}_{name}": _cell(item) for name, item in value.items()}
        else:
            cells[field.name] = _cell(value)
    return cells


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    # float() first: the text of a numpy number is not a number. bool is an int.
    return str(int(value)) if isinstance(value, int) else repr(float(value))


def _line(cells: Iterable[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _columns_of(
    record_class: type[UpdateRecord | EpochRecord], kinds: Collection[type] = (int, float, bool)
) -> list[str]:
    """Those columns that every record of a kind has: fields that are one number."""
    hints = get_type_hints(record_class)
    return [field.name for field in dataclasses.fields(record_class) if hints[field.name] in kinds]


def _require_columns(path: Path, header: Collection[str], needed: Iterable[str]) -> None:
    missing = [name for name in needed if name not in header]
    if header and missing:
        raise damaged(path, 1, f"there is no column {missing[0]}")


def _read_columns(path: Path, record_class: type[UpdateRecord | EpochRecord]) -> dict[str, np.ndarray]:
    if not path.exists():
        return {}
    rows = read_rows(path)
    header = next(rows, [])
    cells = np.fromiter((float(cell) if cell else np.nan for row in rows for cell in row), dtype=np.float64)
    _require_columns(path, header, _columns_of(record_class))
    columns = dict(zip(header, cells.reshape(-1, len(header)).T, strict=True)) if cells.size else {}
    for name in _columns_of(record_class, (int,)) if columns else ():
        odd = np.flatnonzero(~np.isfinite(columns[name]))
        if odd.size:
            raise damaged(path, int(odd[0]) + 2, f"{name} is no whole number")
    return columns
