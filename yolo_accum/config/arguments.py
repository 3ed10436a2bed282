"""What each verb can be asked for: defaults < recipe < command line."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from yolo_accum.config.load import TRAIN_PARTS, OptionParser, build, build_train_config, read_recipe, train_parser
from yolo_accum.config.options import Option, declared_options, title
from yolo_accum.config.schema import (
    AccumulationConfig,
    AugmentConfig,
    CheckConfig,
    DataBenchmarkConfig,
    DataConfig,
    EvalConfig,
    LossConfig,
    ModelConfig,
    OutputConfig,
    PlanConfig,
    RunConfig,
    ScoreConfig,
    StartConfig,
    TrainConfig,
    VerifyConfig,
)
from yolo_accum.errors import UserError

EMBEDDED_RECIPE = "embedded"
"""Applied when a training names neither data nor recipe."""

EVAL_OPTIONS: dict[type, tuple[str, ...]] = {
    DataConfig: ("data", "images", "imgsz", "workers", "classes", "single_cls"),
    ModelConfig: ("model", "weights"),
    ScoreConfig: ("predictions",),
    EvalConfig: ("conf", "iou", "max_det", "evaluator", "val_batch", "rect"),
    RunConfig: ("device", "channels_last", "threads", "project", "name", "plots"),
}
PREDICT_OPTIONS: dict[type, tuple[str, ...]] = {
    DataConfig: ("imgsz",),
    ModelConfig: ("model", "weights"),
    EvalConfig: ("conf", "iou", "max_det", "val_batch"),
    RunConfig: ("device", "channels_last", "threads", "project", "name"),
}
CHECK_OPTIONS: dict[type, tuple[str, ...]] = {
    DataConfig: ("data", "val_data", "images", "val_images", "imgsz", "workers"),
    CheckConfig: tuple(option.name for option in declared_options(CheckConfig)),
    AccumulationConfig: ("batch", "nbs"),
    EvalConfig: ("max_det",),
    RunConfig: ("project", "name", "plots"),
}
"""What a training would be run with is there for the advice."""
CHECK_DEFAULTS: dict[str, object] = {"project": "runs/check"}
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
VAL_DEFAULTS: dict[str, object] = {"project": "runs/val"}
PREDICT_DEFAULTS: dict[str, object] = {"project": "runs/predict", "conf": 0.25}
"""A person looks at these detections: the low threshold that AP wants would cover the picture with boxes."""


@dataclass(frozen=True, kw_only=True)
class TrainArguments:
    """What `train` was asked for."""

    config: TrainConfig
    given: Mapping[str, object]
    """Options of ``config`` that stand on the command line, with their values; a resumed run takes these over."""
    recipe: str | None
    """Name or file of the recipe that was applied."""
    resume: str | None
    """Run folder to go on with."""
    json: bool
    debug: bool

    @property
    def explicit(self) -> frozenset[str]:
        """Names of the options of ``config`` that stand on the command line."""
        return frozenset(self.given)


@dataclass(frozen=True, kw_only=True)
class EvalArguments:
    """What `val` or `predict` was asked for."""

    data: DataConfig
    model: ModelConfig
    eval: EvalConfig
    run: RunConfig
    given: Mapping[str, object]
    """Options of these that stand on the command line, with their values."""
    score: ScoreConfig
    """For `val`."""
    sources: tuple[str, ...]
    """Pictures and folders, for `predict`."""
    json: bool
    debug: bool


@dataclass(frozen=True, kw_only=True)
class PlanArguments:
    """What `plan` was asked for."""

    config: TrainConfig
    """Of the run that is planned."""
    plan: PlanConfig
    recipe: str | None
    """Name or file of the recipe that was applied."""
    json: bool
    debug: bool


@dataclass(frozen=True, kw_only=True)
class DataBenchmarkArguments:
    """What `benchmark data` was asked for."""

    benchmark: DataBenchmarkConfig
    data: DataConfig
    """The pictures; without --data the embedded data set."""
    json: bool
    debug: bool


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


@dataclass(frozen=True, kw_only=True)
class StatusArguments:
    """What `status` was asked for."""

    folders: tuple[str, ...]
    """Run folders, and folders of these."""
    json: bool
    debug: bool


def parse_train(argv: Sequence[str]) -> TrainArguments:
    """The options of a training run.

    Raises:
        UserError: an option or recipe that does not exist, or a value that is not allowed.
    """
    return _train_arguments(train_parser().read(argv))


def train_arguments(options: Mapping[str, object]) -> TrainArguments:
    """The same from names and values, for programs; None means that an option is not given.

    Raises:
        UserError: an option or recipe that does not exist, or a value that is not allowed.
    """
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    given = {name: value for name, value in plain.items() if value is not None}
    return _train_arguments(train_parser().typed(given, "train"))


def _train_arguments(given: dict[str, Any]) -> TrainArguments:
    recipe, resume = given.pop("recipe", None), given.pop("resume", None)
    json, debug = given.pop("json", False), given.pop("debug", False)
    if recipe is not None and resume is not None:
        raise UserError("--recipe and --resume exclude each other: a resumed run keeps the options it was started with")
    if recipe is None and resume is None and given.get("data") is None:
        recipe = EMBEDDED_RECIPE
    layer = read_recipe(recipe) if recipe is not None else {}
    config = build_train_config({**layer, **given})
    return TrainArguments(config=config, given=given, recipe=recipe, resume=resume, json=json, debug=debug)


def parse_plan(argv: Sequence[str]) -> PlanArguments:
    """The options of a run that is only planned: those of `train`, and a number of images in place of data.

    Raises:
        UserError: an option or recipe that does not exist, or a value that is not allowed.
    """
    given = _plan_parser().read(argv)
    recipe, json, debug = given.pop("recipe", None), given.pop("json", False), given.pop("debug", False)
    if given.get("data") is None and given.get("images") is not None:
        count = str(given.pop("images"))
        if not count.isdecimal():
            raise UserError(f"--images {count}: without --data a whole number of training images is needed")
        if "num_images" in given:
            raise UserError(f"--images {count} and --num-images {given['num_images']} say the same; give one of them")
        given["num_images"] = int(count)
    if given.get("data") is not None and "num_images" in given:
        raise UserError("--num-images plans from numbers alone and --data counts for itself; give one of them")
    if recipe is None and given.get("data") is None and "num_images" not in given:
        recipe = EMBEDDED_RECIPE
    layer = read_recipe(recipe) if recipe is not None else {}
    return PlanArguments(
        config=build_train_config({**layer, **given}),
        plan=build(PlanConfig, given),
        recipe=recipe,
        json=json,
        debug=debug,
    )


def parse_val(argv: Sequence[str]) -> EvalArguments:
    """The options of an evaluation.

    Raises:
        UserError: an option that does not exist, or a value that is not allowed.
    """
    return _eval_arguments(_val_parser().read(argv), VAL_DEFAULTS)


def parse_check(argv: Sequence[str]) -> CheckArguments:
    """The options of a check of a data set.

    Raises:
        UserError: an option that does not exist, or a value that is not allowed.
    """
    given = _check_parser().read(argv)
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


def parse_data_benchmark(argv: Sequence[str]) -> DataBenchmarkArguments:
    """The options of `benchmark data`.

    Raises:
        UserError: an option that does not exist, or a value that is not allowed.
    """
    given = _data_benchmark_parser().read(argv)
    json, debug = given.pop("json", False), given.pop("debug", False)
    return DataBenchmarkArguments(
        benchmark=build(DataBenchmarkConfig, given), data=build(DataConfig, given), json=json, debug=debug
    )


def parse_verify(argv: Sequence[str]) -> VerifyArguments:
    """The options of a comparison of gradients.

    Raises:
        UserError: an option that does not exist, or a value that is not allowed.
    """
    given = _verify_parser().read(argv)
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


def parse_predict(argv: Sequence[str]) -> EvalArguments:
    """The options of a detection on pictures, at least one picture or folder among them.

    Raises:
        UserError: an option that does not exist, a value that is not allowed, or no picture.
    """
    arguments = _eval_arguments(_predict_parser().read(argv), PREDICT_DEFAULTS)
    if not arguments.sources:
        raise UserError("predict needs at least one picture or folder of pictures")
    return arguments


def parse_status(argv: Sequence[str]) -> StatusArguments:
    """The runs to look at; without any, those below ``runs``.

    Raises:
        UserError: an option that does not exist.
    """
    given = _status_parser().read(argv)
    return StatusArguments(
        folders=given.get("sources") or ("runs",), json=given.get("json", False), debug=given.get("debug", False)
    )


def _eval_arguments(given: dict[str, Any], defaults: Mapping[str, object]) -> EvalArguments:
    sources, json, debug = given.pop("sources", ()), given.pop("json", False), given.pop("debug", False)
    values = {**defaults, **given}
    return EvalArguments(
        data=build(DataConfig, values),
        model=build(ModelConfig, values),
        eval=build(EvalConfig, values),
        run=build(RunConfig, values),
        given=given,
        score=build(ScoreConfig, values),
        sources=sources,
        json=json,
        debug=debug,
    )


def _selected(names: Mapping[type, Sequence[str]], defaults: Mapping[str, object]) -> dict[str, list[Option]]:
    return {
        title(config_class): [
            replace(option, default=defaults.get(option.name, option.default))
            for option in declared_options(config_class)
            if option.name in wanted
        ]
        for config_class, wanted in names.items()
    }


@functools.cache
def _val_parser() -> OptionParser:
    groups = _selected(EVAL_OPTIONS, VAL_DEFAULTS)
    return OptionParser(
        "val",
        "Measure a detector on a validation split; without --data on that of the embedded data set.",
        {**groups, title(OutputConfig): declared_options(OutputConfig)},
    )


@functools.cache
def _check_parser() -> OptionParser:
    groups = _selected(CHECK_OPTIONS, CHECK_DEFAULTS)
    return OptionParser(
        "check",
        "Look a data set over before training: everything odd about it, and what follows for the options; without "
        "--data the embedded data set.",
        {**groups, title(OutputConfig): declared_options(OutputConfig)},
    )


@functools.cache
def _data_benchmark_parser() -> OptionParser:
    names = {DataBenchmarkConfig: ("parts", "rounds", "index_images"), DataConfig: ("data", "images")}
    return OptionParser(
        "benchmark data",
        "Measure the speed of the data layer: training pictures, the index of a large data set, evaluation.",
        {**_selected(names, {}), title(OutputConfig): declared_options(OutputConfig)},
    )


@functools.cache
def _verify_parser() -> OptionParser:
    groups = _selected(VERIFY_OPTIONS, VERIFY_DEFAULTS)
    return OptionParser(
        "verify",
        "Compare the gradients of micro-batches with those of the large batch, on your model, weights and data; "
        "without --data on the embedded data set.",
        {**groups, title(OutputConfig): declared_options(OutputConfig)},
    )


@functools.cache
def _status_parser() -> OptionParser:
    return OptionParser(
        "status",
        "Show where runs are, from their folders alone: while they train, or afterwards.",
        {title(OutputConfig): declared_options(OutputConfig)},
        sources="run folders and folders of runs; by default runs",
        source="FOLDER",
    )


@functools.cache
def _predict_parser() -> OptionParser:
    groups = _selected(PREDICT_OPTIONS, PREDICT_DEFAULTS)
    return OptionParser(
        "predict",
        "Detect objects in pictures; draws them and writes them down.",
        {**groups, title(OutputConfig): declared_options(OutputConfig)},
        sources="pictures and folders of pictures",
    )


@functools.cache
def _plan_parser() -> OptionParser:
    """That of `train`, without what goes on with a run."""
    parts: dict[type, tuple[Option, ...]] = {
        part: declared_options(part) for part in (PlanConfig, StartConfig, *TRAIN_PARTS.values(), OutputConfig)
    }
    parts[StartConfig] = tuple(option for option in parts[StartConfig] if option.name != "resume")
    return OptionParser(
        "plan",
        "Show the updates of a training run before anything is trained; takes all options of train.",
        {title(part): options for part, options in parts.items()},
    )
