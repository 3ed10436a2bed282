"""The command line of `compare`: all options of `train`, which are those of the base run, and what is compared."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from yolo_accum.config.arguments import EMBEDDED_RECIPE
from yolo_accum.config.arms import SEPARATOR, Arm, read_arms
from yolo_accum.config.load import TRAIN_PARTS, OptionParser, build, build_train_config, read_recipe
from yolo_accum.config.options import Option, declared_options, title
from yolo_accum.config.schema import OutputConfig, StartConfig, TrainConfig
from yolo_accum.config.verb_schema import CompareConfig
from yolo_accum.errors import UserError

COMPARE_DEFAULTS: dict[str, object] = {"project": "runs/compare", "plots": False}
CHANGEABLE_ON_RESUME = ("devices", "device", "threads", "workers", "margin", "reference", "verify")
"""Where a comparison goes on, and what is said about it; anything else would make it another one."""
NOT_HERE = ("save_gradients", "window_batch")
"""Options of `train` that a comparison sets itself."""


@dataclass(frozen=True, kw_only=True)
class CompareArguments:
    """What `compare` was asked for."""

    config: TrainConfig
    """Of the base run. On resuming, of no meaning but for what was given."""
    compare: CompareConfig
    arms: tuple[Arm, ...]
    """None when a comparison goes on: they stand in its folder."""
    given: Mapping[str, object]
    """Options that stand on the command line, with their values."""
    resume: str | None
    """Folder of a comparison to go on with."""
    json: bool
    debug: bool


def parse_compare(argv: Sequence[str]) -> CompareArguments:
    """The options of a comparison.

    Raises:
        UserError: an option, recipe or arm that does not exist, or a value that is not allowed.
    """
    given = _parser().read(_one_arms_option(argv))
    recipe, resume = given.pop("recipe", None), given.pop("resume", None)
    json, debug = given.pop("json", False), given.pop("debug", False)
    refused = [name for name in given if resume is not None and name not in CHANGEABLE_ON_RESUME]
    if resume is not None and (refused or recipe is not None):
        if not Path(resume).is_dir():
            raise UserError(f"--resume {resume}: no such folder")
        allowed = ", ".join("--" + name for name in CHANGEABLE_ON_RESUME)
        raise UserError(
            f"--{(refused or ['recipe'])[0].replace('_', '-')} cannot be changed when a comparison is resumed, only "
            f"{allowed}"
        )
    if recipe is None and resume is None and given.get("data") is None:
        recipe = EMBEDDED_RECIPE
    layer = read_recipe(recipe) if recipe is not None else {}
    config = build_train_config({**COMPARE_DEFAULTS, **layer, **given})
    compare = build(CompareConfig, given)
    if compare.devices is not None and "device" in given:
        raise UserError("--device and --devices exclude each other: --devices names one device for each run at a time")
    return CompareArguments(
        config=config,
        compare=compare,
        arms=read_arms(config, compare) if resume is None else (),
        given=given,
        resume=resume,
        json=json,
        debug=debug,
    )


def _one_arms_option(argv: Sequence[str]) -> list[str]:
    """The command line with all words of every ``--arms`` in one, since a later option would replace an earlier one."""
    words: list[str] = []
    arms: list[str] = []
    takes_arms = False
    for word in argv:
        if word == "--arms" or word.startswith("--arms="):
            takes_arms = True
            arms += [word.partition("=")[2]] if "=" in word else []
        elif takes_arms and not word.startswith("-"):
            arms.append(word)
        else:
            takes_arms = False
            words.append(word)
    asked = any(word.partition("=")[0] == "--arms" for word in argv)
    return [*words, "--arms", *([SEPARATOR.join(arms)] if arms else [])] if asked else words


@functools.cache
def _parser() -> OptionParser:
    parts: dict[type, tuple[Option, ...]] = {
        part: declared_options(part) for part in (CompareConfig, StartConfig, *TRAIN_PARTS.values(), OutputConfig)
    }
    return OptionParser(
        "compare",
        "Train in several ways with the same images in the same windows, and say what the difference is; takes all "
        "options of train. Without --data: on the embedded data set, with the recipe 'embedded'.",
        {
            title(part): [
                replace(option, default=COMPARE_DEFAULTS.get(option.name, option.default))
                for option in options
                if option.name not in NOT_HERE
            ]
            for part, options in parts.items()
        },
    )
