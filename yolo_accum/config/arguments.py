"""The command lines of `train`, `val` and `predict`: defaults < recipe < command line."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolo_accum.config.load import OptionParser, build, build_train_config, read_recipe, train_parser
from yolo_accum.config.options import declared_options, selected, title
from yolo_accum.config.schema import DataConfig, EvalConfig, ModelConfig, OutputConfig, RunConfig, TrainConfig
from yolo_accum.config.verb_schema import ScoreConfig
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


def parse_val(argv: Sequence[str]) -> EvalArguments:
    """The options of an evaluation.

    Raises:
        UserError: an option that does not exist, or a value that is not allowed.
    """
    return _eval_arguments(_val_parser().read(argv), VAL_DEFAULTS)


def parse_predict(argv: Sequence[str]) -> EvalArguments:
    """The options of a detection on pictures, at least one picture or folder among them.

    Raises:
        UserError: an option that does not exist, a value that is not allowed, or no picture.
    """
    arguments = _eval_arguments(_predict_parser().read(argv), PREDICT_DEFAULTS)
    if not arguments.sources:
        raise UserError("predict needs at least one picture or folder of pictures")
    return arguments


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


@functools.cache
def _val_parser() -> OptionParser:
    groups = selected(EVAL_OPTIONS, VAL_DEFAULTS)
    return OptionParser(
        "val",
        "Measure a detector on a validation split; without --data on that of the embedded data set.",
        {**groups, title(OutputConfig): declared_options(OutputConfig)},
    )


@functools.cache
def _predict_parser() -> OptionParser:
    groups = selected(PREDICT_OPTIONS, PREDICT_DEFAULTS)
    return OptionParser(
        "predict",
        "Detect objects in pictures; draws them and writes them down.",
        {**groups, title(OutputConfig): declared_options(OutputConfig)},
        sources="pictures and folders of pictures",
    )
