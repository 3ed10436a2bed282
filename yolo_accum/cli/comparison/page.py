"""Gathers a comparison's files into its page."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yolo_accum import __version__
from yolo_accum.errors import UserError
from yolo_accum.report.comparison_status import COMPARISON_FILE
from yolo_accum.report.page_compare import CompareContent, write_compare_page
from yolo_accum.report.records import read_updates
from yolo_accum.report.run_notes import read_note

PAGE_FILE = "compare.html"


def make_compare_page(folder: Path, out: Path | None = None) -> Path:
    """Make the page of a comparison, finished or not, from its files.

    Args:
        folder: with ``compare.json``.
        out: the file to write; ``compare.html`` in the folder by default.
    Returns:
        the file that was written.
    Raises:
        UserError: ``compare.json`` cannot be used.
        OSError: the page cannot be written.
    """
    result = read_note(folder / COMPARISON_FILE)
    try:
        return write_compare_page(out or folder / PAGE_FILE, _content(folder, result))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{folder / COMPARISON_FILE}: not a file that `yolo-accum compare` has written "
            f"({type(error).__name__}: {error})"
        ) from error


def _content(folder: Path, result: Mapping[str, Any]) -> CompareContent:
    updates, problems = {}, []
    for name in [run.get("updates_csv") for arm in result["arms"] for run in arm.get("runs", ())]:
        if name is not None and (folder / name).is_file():
            try:
                updates[name] = read_updates((folder / name).parent)
            except UserError as error:
                problems.append(str(error))
    return CompareContent(
        name=folder.resolve().name,
        version=__version__,
        made_at=time.strftime("%Y-%m-%d %H:%M"),
        result=result,
        updates=updates,
        problems=problems,
    )
