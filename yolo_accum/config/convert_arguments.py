"""The command line of `convert`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from yolo_accum.config.load import OptionParser, build
from yolo_accum.config.options import declared_options, title
from yolo_accum.config.schema import DataConfig, OutputConfig
from yolo_accum.config.verb_schema import ConvertConfig
from yolo_accum.errors import UserError

_DATA_OPTIONS = ("data", "val_data", "images", "val_images")


@dataclass(frozen=True, kw_only=True)
class ConvertArguments:
    """What `convert` was asked for."""

    data: DataConfig
    to: str
    copy: bool
    json: bool
    debug: bool


def parse_convert(argv: Sequence[str]) -> ConvertArguments:
    """The options of a conversion.

    Raises:
        UserError: an option that does not exist or is missing, or a value that is not allowed.
    """
    given = _parser().read(argv)
    json, debug = given.pop("json", False), given.pop("debug", False)
    if given.get("data") is None:
        raise UserError("convert needs --data: a description of a data set, or its folder")
    config = build(ConvertConfig, given)
    if config.to is None:
        raise UserError("convert needs --to: a new folder for the COCO JSON")
    return ConvertArguments(data=build(DataConfig, given), to=config.to, copy=config.copy, json=json, debug=debug)


@functools.cache
def _parser() -> OptionParser:
    return OptionParser(
        "convert",
        "Write a data set of any known kind as COCO JSON; it is only read, and the new folder must not exist.",
        {
            title(DataConfig): [option for option in declared_options(DataConfig) if option.name in _DATA_OPTIONS],
            title(ConvertConfig): declared_options(ConvertConfig),
            title(OutputConfig): declared_options(OutputConfig),
        },
    )
