"""Tables for people, without anything that has to load torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import rich.console
from rich import box
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 120
"""Columns of tables in a file or pipe, which has no width of its own."""


def open_terminal(*, as_json: bool) -> rich.console.Console:
    """Where to print: standard output, or standard error where that belongs to a result in JSON."""
    terminal = rich.console.Console(stderr=as_json)
    if not terminal.is_terminal:
        terminal.width = PLAIN_WIDTH
    return terminal


def pairs(title: str, rows: Mapping[str, str]) -> Table:
    """Label and value, line by line."""
    table = Table(title=title, box=box.SIMPLE, show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows.items():
        table.add_row(Text(label), Text(value))
    return table


def columns(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Numbers in columns, aligned to the right."""
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for header in headers:
        table.add_column(header, justify="right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
