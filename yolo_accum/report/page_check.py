"""``check.html``: what a check found, on one page."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2

from yolo_accum.contracts import DetectionIndex
from yolo_accum.report import page
from yolo_accum.report.page_data import data_charts, data_record, data_rows

MAX_PLACES = 20
"""Places of a finding that the page lists; ``check.json`` has more."""
SHEET_QUALITY = 80


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckContent:
    """A check that is done."""

    version: str
    made_at: str
    result: Mapping[str, Any]
    """What ``check.json`` holds."""
    splits: Mapping[str, DetectionIndex]
    sheet: Path | None
    """The contact sheet."""


def write_check_page(path: Path, content: CheckContent) -> Path:
    """Write the page of a check.

    Raises:
        OSError: the file cannot be written (names it).
    """
    result = content.result
    records = {name: data_record(index, result["imgsz"]) for name, index in content.splits.items()}
    charts = data_charts(records) if records else {}
    return page.write_page(
        path,
        "check.html",
        {
            "title": f"Check of {Path(result['data']).name}",
            "version": content.version,
            "made_at": content.made_at,
            "sections": [
                ("findings", "Findings"),
                ("pictures", "Findings as pictures"),
                ("advice", "Advice"),
                ("data", "Data"),
            ],
            "verdict": _verdict(result),
            "figures": _figures(result, records),
            "findings": result["findings"],
            "max_places": MAX_PLACES,
            "sheet": _as_jpeg(content.sheet) if content.sheet is not None else None,
            "advice": result["advice"],
            "data_splits": list(records),
            "data_rows": data_rows(records),
            "data_keys": list(charts),
            "charts": charts,
        },
    )


def _verdict(result: Mapping[str, Any]) -> str:
    if result["num_errors"]:
        return "A training would refuse this data set: mend the errors first."
    if result["num_warnings"]:
        return "This data set can be trained on; the warnings say what is left out, mended or likely to mislead."
    return "Nothing is wrong with this data set."


def _figures(result: Mapping[str, Any], records: Mapping[str, Mapping[str, Any]]) -> Sequence[tuple[str, str]]:
    return [
        ("errors", page.count(result["num_errors"])),
        ("warnings", page.count(result["num_warnings"])),
        ("notes", page.count(result["num_notes"])),
        ("pictures", page.count(sum(record["images"] for record in records.values()))),
        ("decoded", page.count(result["pictures_decoded"])),
        ("objects", page.count(sum(record["boxes"] for record in records.values()))),
    ]


def _as_jpeg(sheet: Path) -> str:
    """A PNG of ours as the address of a picture within the page."""
    image = cv2.imread(str(sheet))
    assert image is not None, "written by this very check"
    _, encoded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, SHEET_QUALITY])
    return f"data:image/jpeg;base64,{base64.b64encode(encoded.tobytes()).decode()}"
