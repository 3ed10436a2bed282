"""The command line of `verify`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from yolo_accum.config.load import OptionParser, build
from yolo_accum.config.options import declared_options, selected, title
from yolo_accum.config.schema import (
    AccumulationConfig,
    AugmentConfig,
    DataConfig,
    LossConfig,
    ModelConfig,
    OutputConfig,
    RunConfig,
)
from yolo_accum.config.verb_schema import VerifyConfig

VERIFY_OPTIONS: dict[type, tuple[str, ...]] = {
    VerifyConfig: tuple(option.name for option in declared_options(VerifyConfig)),
    DataConfig: ("data", "images", "imgsz"),
    ModelConfig: ("model", "weights", "freeze"),
    AccumulationConfig: ("nbs",),
    AugmentConfig: tuple(
        option.name for option in declared_options(AugmentConfig) if option.name not in ("close_mosaic", "multi_scale")
    ),
    LossConfig: ("box_gain", "obj_gain", "cls_gain"),
    RunConfig: ("device", "channels_last", "threads", "seed", "project", "name", "plots"),
}

VERIFY_DEFAULTS: dict[str, object] = {"project": "runs/verify", "imgsz": 320, "close_mosaic": 0}
"""A size at which all gradients of a small network are there in two minutes; one window knows no end of mosaic."""


@dataclass(frozen=True, kw_only=True)
class VerifyArguments:
    """What `verify` was asked for."""

    verify: VerifyConfig
    data: DataConfig
    augment: AugmentConfig
    model: ModelConfig
    accumulation: AccumulationConfig
    loss: LossConfig
    run: RunConfig
    json: bool
    debug: bool


def parse_verify(argv: Sequence[str]) -> VerifyArguments:
    """The options of a comparison of gradients.

    Raises:
        UserError: an option that does not exist, or a value that is not allowed.
    """
    given = _parser().read(argv)
    json, debug = given.pop("json", False), given.pop("debug", False)
    values = {**VERIFY_DEFAULTS, **given}
    return VerifyArguments(
        verify=build(VerifyConfig, values),
        data=build(DataConfig, values),
        augment=build(AugmentConfig, values),
        model=build(ModelConfig, values),
        accumulation=build(AccumulationConfig, values),
        loss=build(LossConfig, values),
        run=build(RunConfig, values),
        json=json,
        debug=debug,
    )


@functools.cache
def _parser() -> OptionParser:
    groups = selected(VERIFY_OPTIONS, VERIFY_DEFAULTS)
    return OptionParser(
        "verify",
        "Compare the gradients of micro-batches with those of the large batch, on your model, weights and data; "
        "without --data on the embedded data set.",
        {**groups, title(OutputConfig): declared_options(OutputConfig)},
    )
