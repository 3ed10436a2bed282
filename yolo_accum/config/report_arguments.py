"""The command line of `report`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from yolo_accum.config.load import OptionParser, build
from yolo_accum.config.options import declared_options, title
from yolo_accum.config.schema import EvalConfig, OutputConfig
from yolo_accum.config.verb_schema import ReportConfig
from yolo_accum.errors import UserError

DEFAULT_CONF = 0.25
"""A person looks at these detections: the low threshold that AP wants would cover the pictures with boxes."""


@dataclass(frozen=True, kw_only=True)
class ReportArguments:
    """What `report` was asked for."""

    folders: tuple[str, ...]
    """Of runs and comparisons, at least one."""
    out: str | None
    conf: float
    json: bool
    debug: bool


def parse_report(argv: Sequence[str]) -> ReportArguments:
    """The options of a report.

    Raises:
        UserError: an option that does not exist, a value that is not allowed, or no folder.
    """
    given = _parser().read(argv)
    folders, json, debug = given.pop("sources", ()), given.pop("json", False), given.pop("debug", False)
    if not folders:
        raise UserError("report needs a run folder, such as runs/train/exp, or the folder of a comparison")
    report = build(ReportConfig, given)
    if report.out is not None and len(folders) > 1:
        raise UserError(
            f"--out {report.out} names one file for {len(folders)} folders; leave it out, or name one folder"
        )
    conf = build(EvalConfig, {"conf": DEFAULT_CONF, **given}).conf
    return ReportArguments(folders=folders, out=report.out, conf=conf, json=json, debug=debug)


@functools.cache
def _parser() -> OptionParser:
    conf = next(option for option in declared_options(EvalConfig) if option.name == "conf")
    shown = replace(conf, default=DEFAULT_CONF, help="Lowest score of a detection in pictures and confusion matrix.")
    return OptionParser(
        "report",
        "Make the page of a run or of a comparison again, from its files; also while it goes on.",
        {
            title(ReportConfig): (*declared_options(ReportConfig), shown),
            title(OutputConfig): declared_options(OutputConfig),
        },
        sources="run folders, such as runs/train/exp, and folders of comparisons",
        source="FOLDER",
    )
