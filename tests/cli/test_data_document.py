"""The table of findings in docs/data.md is the one in the code."""

from __future__ import annotations

import re
from pathlib import Path

from yolo_accum.data import findings
from yolo_accum.data.findings import FindingKind

DOCUMENT = Path(__file__).parents[2] / "docs" / "data.md"


def test_the_table_of_findings_is_complete_and_true() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \| (.+) \| (.+) \|$", DOCUMENT.read_text(encoding="utf-8"), re.M)
    kinds = [value for value in vars(findings).values() if isinstance(value, FindingKind)]

    assert sorted(rows) == sorted((kind.code, kind.severity, kind.what, kind.verdict) for kind in kinds)
