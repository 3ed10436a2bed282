"""The contact sheet of a check: which findings can be shown, and how."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from yolo_accum.data.findings import Finding
from yolo_accum.data.images import read_image
from yolo_accum.report.contact_sheet import Cell, SheetLine, plot_contact_sheet


def draw_findings(findings: Sequence[Finding], out: Path) -> Path | None:
    """Draw the findings that name pictures, a line a kind; None where there are none.

    Args:
        findings: all of one kind together, the most important kind first.
        out: the PNG to write.

    Raises:
        OSError: the file cannot be written (names it).
    """
    lines = []
    for kind, alike in itertools.groupby(findings, key=lambda finding: finding.kind):
        together = list(alike)
        cells = [
            Cell(picture=mark.picture, box_xyxy_px=mark.box_xyxy_px, label=mark.label)
            for finding in together
            for mark in finding.marks
        ]
        total = sum(finding.count for finding in together)
        if cells:
            lines.append(SheetLine(title=f"{kind.what}: {total:,}", severity=kind.severity, cells=cells))
    return plot_contact_sheet(lines, out, read_image) if lines else None
