"""What a check tells people."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from yolo_accum.report import tables
from yolo_accum.report.console import Console

PLACES_SHOWN = 5
"""Of each finding; ``check.json`` has a hundred."""


def print_report(console: Console, result: Mapping[str, Any]) -> None:
    """Findings, most severe first, then figures, advice and files."""
    for _, alike in itertools.groupby(result["findings"], key=lambda finding: finding["code"]):
        for line in _finding_lines(list(alike)):
            console.on_message(line)
    splits: Mapping[str, Mapping[str, Any]] = result["splits"]
    if splits:
        console.terminal.print(_split_table(splits, result["imgsz"]))
    for advice in result["advice"]:
        console.on_message(f"advice: {advice['text']}")
    console.on_message(
        f"findings: {result['num_errors']} errors, {result['num_warnings']} warnings, {result['num_notes']} notes; "
        f"{result['pictures_decoded']:,} pictures decoded"
    )
    for path in result["files"].values():
        console.on_message(f"written: {path}")


def _finding_lines(alike: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """All findings of one kind: what and how many, then the first places of each file."""
    first, total = alike[0], sum(finding["count"] for finding in alike)
    sources = dict.fromkeys(finding["source"] for finding in alike)
    where = f" in {next(iter(sources))}" if len(sources) == 1 else ""
    yield f"{first['severity']}: {first['what']}: {total:,}{where}; {first['verdict']}"
    for finding in alike:
        prefix = f"{finding['source']}: " if len(sources) > 1 else ""
        if finding["note"]:
            yield f"    {prefix}{finding['note']}"
        for place in finding["places"][:PLACES_SHOWN]:
            yield f"    {prefix}{place}"
        if finding["count"] > PLACES_SHOWN and finding["places"]:
            yield f"    {prefix}and {finding['count'] - PLACES_SHOWN:,} more"


def _split_table(splits: Mapping[str, Mapping[str, Any]], imgsz: int) -> tables.Table:
    return tables.columns(
        f"Splits (sizes at {imgsz} px)",
        (
            "split",
            "images",
            "without objects",
            "objects",
            "classes",
            "objects an image",
            "size px (p5, median, p95)",
            "under 8 px",
        ),
        [
            (
                split,
                f"{figures['images']:,}",
                f"{figures['images_without_objects']:,}",
                f"{figures['boxes']:,}",
                f"{figures['classes_with_boxes']} of {figures['classes']}",
                _spread(figures["boxes_per_image"], ("min", "median", "max")),
                _spread(figures["object_size_px"], ("p5", "median", "p95")),
                f"{figures['objects_under_8_px']:,}",
            )
            for split, figures in splits.items()
        ],
    )


def _spread(values: Mapping[str, float | None], names: tuple[str, ...]) -> str:
    return " / ".join("-" if (value := values[name]) is None else f"{value:.0f}" for name in names)
