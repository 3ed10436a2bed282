"""`check`: look a data set over before training. All findings in one list, figures, and what follows from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yolo_accum.cli.checking.output import print_report
from yolo_accum.cli.checking.page import make_check_page
from yolo_accum.cli.checking.pictures import check_pictures
from yolo_accum.cli.checking.sheet import draw_findings
from yolo_accum.cli.embedded import embedded_data
from yolo_accum.cli.failures import BAD_INPUT, CHECK_FAILED, DONE
from yolo_accum.cli.output import write_json
from yolo_accum.cli.run_folder import make_run_folder
from yolo_accum.config.check_arguments import CheckArguments, parse_check
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.check.boxes import report_coinciding_boxes
from yolo_accum.data.check.splits import compare_splits, read_splits
from yolo_accum.data.findings import Finding, FindingLog
from yolo_accum.data.formats.data_yaml import SPLITS
from yolo_accum.report.check_advice import advice_for
from yolo_accum.report.check_figures import split_figures
from yolo_accum.report.console import Console
from yolo_accum.report.plots import plot_labels

SEVERITIES = ("error", "warning", "info")
"""In the order in which findings are told."""


def run(argv: Sequence[str]) -> Mapping[str, Any]:
    """Check as the options say; returns findings, figures and advice."""
    arguments = parse_check(argv)
    log = FindingLog()
    with Console(as_json=arguments.json) as console:
        default = embedded_data(console) if arguments.data.data is None else None
        with console.progress("reading splits", len(SPLITS)) as progress:
            splits = read_splits(arguments.data, log, default_data=default, progress=progress)
        compare_splits(splits, log)
        for index in splits.values():
            report_coinciding_boxes(index, log)
        pictures: dict[str, Any] = {"pictures_decoded": 0, "duplicates": None}
        if arguments.check.pictures and splits:
            pictures = check_pictures(splits, arguments, log, console)
        data = Path(arguments.data.data) if arguments.data.data is not None else default
        result = {"data": data, **_result(arguments, splits, log), **pictures}
        folder = make_run_folder(arguments.run)
        files = {"check": folder / "check.json"}
        if arguments.run.plots:
            files |= _draw(arguments, splits, log, folder)
        result = {**result, "run": folder, "files": files}
        if arguments.run.plots:
            files["page"] = make_check_page(folder / "check.html", result, splits, files.get("findings"))
        write_json(files["check"], result)
        print_report(console, result)
    return result


def _draw(
    arguments: CheckArguments, splits: Mapping[str, DetectionIndex], log: FindingLog, folder: Path
) -> dict[str, Path]:
    """The contact sheet, and what the labels of each split look like."""
    files = {}
    sheet = draw_findings(_by_severity(log.findings), folder / "findings.png")
    if sheet is not None:
        files["findings"] = sheet
    for split, index in splits.items():
        if len(index):
            files[f"labels_{split}"] = plot_labels(index, folder / f"labels_{split}.png", arguments.data.imgsz)
    return files


def _result(arguments: CheckArguments, splits: Mapping[str, DetectionIndex], log: FindingLog) -> dict[str, Any]:
    findings = _by_severity(log.findings)
    counts = {severity: sum(item.kind.severity == severity for item in findings) for severity in SEVERITIES}
    code = DONE
    if counts["error"]:
        code = BAD_INPUT
    elif counts["warning"] and arguments.check.strict:
        code = CHECK_FAILED
    figures = {split: split_figures(index, arguments.data.imgsz) for split, index in splits.items()}
    return {
        "ok": code == DONE,
        "exit_code": code,
        "imgsz": arguments.data.imgsz,
        "num_errors": counts["error"],
        "num_warnings": counts["warning"],
        "num_notes": counts["info"],
        "findings": [{**finding.as_dict(), "message": str(finding)} for finding in findings],
        "splits": figures,
        "advice": [
            advice.as_dict()
            for advice in advice_for(
                figures,
                imgsz=arguments.data.imgsz,
                max_det=arguments.eval.max_det,
                batch=arguments.accumulation.batch,
                nbs=arguments.accumulation.nbs,
            )
        ],
    }


def _by_severity(findings: Sequence[Finding]) -> list[Finding]:
    """Most severe first, then most frequent, all of one kind together."""
    totals: Counter[str] = Counter()
    for finding in findings:
        totals[finding.kind.code] += finding.count
    return sorted(
        findings,
        key=lambda finding: (
            SEVERITIES.index(finding.kind.severity),
            -totals[finding.kind.code],
            finding.kind.code,
            -finding.count,
        ),
    )
