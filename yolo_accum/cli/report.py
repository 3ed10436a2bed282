"""`report`: make the page of a run or of a comparison again, from its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yolo_accum.cli.comparison.page import make_compare_page
from yolo_accum.cli.run_page import make_run_page
from yolo_accum.config.report_arguments import parse_report
from yolo_accum.errors import UserError
from yolo_accum.report.comparison_status import is_comparison
from yolo_accum.report.console import Console
from yolo_accum.report.status import is_run


def run(argv: Sequence[str]) -> Mapping[str, Any]:
    """Make the pages; returns their paths.

    Raises:
        UserError: a folder is neither a run nor a comparison, or the page cannot go where it is to.
    """
    arguments = parse_report(argv)
    folders = [_checked(Path(name)) for name in arguments.folders]
    out = Path(arguments.out) if arguments.out is not None else None
    if out is not None and not out.name:
        raise UserError(f"--out {arguments.out}: the name of a file is needed")
    if out is not None and not out.parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {out.parent}")
    with Console(as_json=arguments.json) as console, console.progress("pages", len(folders)) as progress:
        pages = []
        for number, folder in enumerate(folders, start=1):
            if is_comparison(folder):
                page = make_compare_page(folder, out)
            else:
                page = make_run_page(folder, out, conf=arguments.conf, tell=console.on_message)
            console.on_message(f"report: {page}")
            pages.append({"folder": str(folder), "report": str(page), "bytes": page.stat().st_size})
            progress(number)
    return {"pages": pages, "report": pages[0]["report"]}


def _checked(folder: Path) -> Path:
    """The folder, if there is something in it to report on; any file of a run stands for its folder."""
    if folder.is_file():
        folder = folder.parent.parent if folder.parent.name == "weights" else folder.parent
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    if not (is_run(folder) or is_comparison(folder)):
        raise UserError(
            f"{folder} is neither a run folder, as `train` makes it, nor that of a comparison; `yolo-accum status "
            f"{folder}` lists the runs below a folder"
        )
    return folder
