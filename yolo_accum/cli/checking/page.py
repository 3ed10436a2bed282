"""The page of a check."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yolo_accum import __version__
from yolo_accum.contracts import DetectionIndex
from yolo_accum.report.page_check import CheckContent, write_check_page


def make_check_page(
    path: Path, result: Mapping[str, Any], splits: Mapping[str, DetectionIndex], sheet: Path | None
) -> Path:
    """Make the page.

    Raises:
        OSError: it cannot be written (names it).
    """
    content = CheckContent(
        version=__version__,
        made_at=time.strftime("%Y-%m-%d %H:%M"),
        result=result,
        splits=splits,
        sheet=sheet,
    )
    return write_check_page(path, content)
