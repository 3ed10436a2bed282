"""`check`: look a data set over before training. All findings in one list, figures, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.cli.check_output import print_report
from yolo_accum.cli.failures import BAD_INPUT, CHECK_FAILED, DONE
from yolo_accum.cli.opening import embedded_data
from yolo_accum.cli.output import write_json
from yolo_accum.cli.wiring import make_run_folder, num_workers
from yolo_accum.config.arguments import CheckArguments, parse_check
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data import findings as found
from yolo_accum.data.check.pictures import decode_pictures
from yolo_accum.data.check.splits import compare_splits, read_splits
from yolo_accum.data.findings import Finding, FindingLog
from yolo_accum.report.check_figures import split_figures
from yolo_accum.report.console import Console

SEVERITIES = ("error", "warning", "info")
"""In the order in which findings are told."""


def run(argv: Sequence[str]) -> Mapping[str, Any]:
    """Check as the options say; returns findings, figures and advice."""
    arguments = parse_check(argv)
    log = FindingLog()
    with Console(as_json=arguments.json) as console:
        default = embedded_data(console) if arguments.data.data is None else None
        splits = read_splits(arguments.data, log, default_data=default)
        compare_splits(splits, log)
        num_decoded = _decode(splits, arguments, log, console) if arguments.check.pictures else 0
        result = _result(arguments, splits, log, num_decoded)
        folder = make_run_folder(arguments.run)
        files = {"check": folder / "check.json"}
        result = {**result, "run": folder, "files": files}
        write_json(files["check"], result)
        print_report(console, result)
    return result


def _decode(splits: Mapping[str, DetectionIndex], arguments: CheckArguments, log: FindingLog, console: Console) -> int:
    """Decode every picture, or a sample of them; returns how many."""
    total = sum(map(len, splits.values()))
    chosen = np.linspace(0, total - 1, min(arguments.check.sample or total, total)).round().astype(np.int64)
    starts = np.cumsum([0, *map(len, splits.values())])
    with console.progress("decoding pictures", len(chosen)) as progress:
        for start, index in zip(starts, splits.values(), strict=False):
            rows = chosen[(chosen >= start) & (chosen < start + len(index))] - start
            done = int((chosen < start).sum())
            picture_pass = decode_pictures(
                [index.image_paths[int(row)] for row in rows],
                index.widths_px[rows],
                index.heights_px[rows],
                workers=num_workers(arguments.data, len(rows)),
                progress=lambda number, done=done: progress(done + number),  # type: ignore[misc]
            )
            problems = picture_pass.problems
            log.add(found.UNDECODABLE_PICTURE, index.source, len(problems), problems.values())
    return len(chosen)


def _result(
    arguments: CheckArguments, splits: Mapping[str, DetectionIndex], log: FindingLog, num_decoded: int
) -> dict[str, Any]:
    findings = sorted(log.findings, key=_rank)
    counts = {severity: sum(item.kind.severity == severity for item in findings) for severity in SEVERITIES}
    code = DONE
    if counts["error"]:
        code = BAD_INPUT
    elif counts["warning"] and arguments.check.strict:
        code = CHECK_FAILED
    first = next(iter(splits.values()), None)
    data = arguments.data.data
    return {
        "ok": code == DONE,
        "exit_code": code,
        "data": Path(data) if data is not None else (first.source if first is not None else None),
        "imgsz": arguments.data.imgsz,
        "num_errors": counts["error"],
        "num_warnings": counts["warning"],
        "num_notes": counts["info"],
        "findings": [{**finding.as_dict(), "message": str(finding)} for finding in findings],
        "pictures_decoded": num_decoded,
        "splits": {split: split_figures(index, arguments.data.imgsz) for split, index in splits.items()},
    }


def _rank(finding: Finding) -> tuple[int, int]:
    """Most severe first, then most frequent."""
    return SEVERITIES.index(finding.kind.severity), -finding.count
