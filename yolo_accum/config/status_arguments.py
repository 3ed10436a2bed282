"""The command line of `status`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from yolo_accum.config.load import OptionParser
from yolo_accum.config.options import declared_options, title
from yolo_accum.config.schema import OutputConfig


@dataclass(frozen=True, kw_only=True)
class StatusArguments:
    """What `status` was asked for."""

    folders: tuple[str, ...]
    """Run folders, folders of these, and comparisons."""
    json: bool
    debug: bool


def parse_status(argv: Sequence[str]) -> StatusArguments:
    """The runs to look at; without any, those below ``runs``.

    Raises:
        UserError: an option that does not exist.
    """
    given = _parser().read(argv)
    return StatusArguments(
        folders=given.get("sources") or ("runs",), json=given.get("json", False), debug=given.get("debug", False)
    )


@functools.cache
def _parser() -> OptionParser:
    return OptionParser(
        "status",
        "Show where runs are, from their folders alone: while they train, or afterwards.",
        {title(OutputConfig): declared_options(OutputConfig)},
        sources="run folders, folders of runs, and comparisons; by default runs",
        source="FOLDER",
    )
