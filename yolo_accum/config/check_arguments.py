"""The command line of `check`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from yolo_accum.config.load import OptionParser, build
from yolo_accum.config.options import declared_options, selected, title
from yolo_accum.config.schema import AccumulationConfig, DataConfig, EvalConfig, OutputConfig, RunConfig
from yolo_accum.config.verb_schema import CheckConfig

CHECK_OPTIONS: dict[type, tuple[str, ...]] = {
    DataConfig: ("data", "val_data", "images", "val_images", "imgsz", "workers"),
    CheckConfig: tuple(option.name for option in declared_options(CheckConfig)),
    AccumulationConfig: ("batch", "nbs"),
    EvalConfig: ("max_det",),
    RunConfig: ("project", "name", "plots"),
}
"""What a training would be run with is there for the advice."""

CHECK_DEFAULTS: dict[str, object] = {"project": "runs/check"}


@dataclass(frozen=True, kw_only=True)
class CheckArguments:
    """What `check` was asked for."""

    data: DataConfig
    check: CheckConfig
    accumulation: AccumulationConfig
    eval: EvalConfig
    run: RunConfig
    json: bool
    debug: bool


def parse_check(argv: Sequence[str]) -> CheckArguments:
    """The options of a check of a data set.

    Raises:
        UserError: an option that does not exist, or a value that is not allowed.
    """
    given = _parser().read(argv)
    json, debug = given.pop("json", False), given.pop("debug", False)
    values = {**CHECK_DEFAULTS, **given}
    return CheckArguments(
        data=build(DataConfig, values),
        check=build(CheckConfig, values),
        accumulation=build(AccumulationConfig, values),
        eval=build(EvalConfig, values),
        run=build(RunConfig, values),
        json=json,
        debug=debug,
    )


@functools.cache
def _parser() -> OptionParser:
    groups = selected(CHECK_OPTIONS, CHECK_DEFAULTS)
    return OptionParser(
        "check",
        "Look a data set over before training: everything odd about it, and what follows for the options; without "
        "--data the embedded data set.",
        {**groups, title(OutputConfig): declared_options(OutputConfig)},
    )
