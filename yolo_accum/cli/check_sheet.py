"""The contact sheet of a check: which findings can be shown, and how."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from yolo_accum.data.findings import Finding
from yolo_accum.data.images import read_image
from yolo_accum.report.contact_sheet import Cell, SheetLine, plot_contact_sheet


def draw_findings(findings: Sequence[Finding], out: Path) -> Path | None:
    """Draw the findings that name pictures, in their order; None where there are none.

    Raises:
        OSError: the file cannot be written (names it).
    """
    lines = [
        SheetLine(
            title=f"{finding.kind.what}: {finding.count} ({finding.source.name})",
            severity=finding.kind.severity,
            cells=[
                Cell(picture=mark.picture, box_xyxy_px=mark.box_xyxy_px, label=mark.label) for mark in finding.marks
            ],
        )
        for finding in findings
        if finding.marks
    ]
    return plot_contact_sheet(lines, out, read_image) if lines else None
