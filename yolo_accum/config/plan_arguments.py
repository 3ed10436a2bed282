"""The command line of `plan`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from yolo_accum.config.arguments import EMBEDDED_RECIPE
from yolo_accum.config.load import TRAIN_PARTS, OptionParser, build, build_train_config, read_recipe
from yolo_accum.config.options import Option, declared_options, title
from yolo_accum.config.schema import OutputConfig, StartConfig, TrainConfig
from yolo_accum.config.verb_schema import PlanConfig
from yolo_accum.errors import UserError


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


def parse_plan(argv: Sequence[str]) -> PlanArguments:
    """The options of a run that is only planned: those of `train`, and a number of images in place of data.

    Raises:
        UserError: an option or recipe that does not exist, or a value that is not allowed.
    """
    given = _parser().read(argv)
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


@functools.cache
def _parser() -> OptionParser:
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
