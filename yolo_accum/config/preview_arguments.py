"""The command line of `preview`: all options of `train`, and which of its pictures are shown."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from yolo_accum.config.arguments import EMBEDDED_RECIPE
from yolo_accum.config.load import TRAIN_PARTS, OptionParser, build, build_train_config, read_recipe
from yolo_accum.config.options import declared_options, title
from yolo_accum.config.schema import OutputConfig, StartConfig, TrainConfig
from yolo_accum.config.verb_schema import PreviewConfig

PREVIEW_DEFAULTS: dict[str, object] = {"project": "runs/preview"}


@dataclass(frozen=True, kw_only=True)
class PreviewArguments:
    """What `preview` was asked for."""

    config: TrainConfig
    """Of the run whose pictures are shown."""
    preview: PreviewConfig
    recipe: str | None
    """Name or file of the recipe that was applied."""
    json: bool
    debug: bool


def parse_preview(argv: Sequence[str]) -> PreviewArguments:
    """The options of a run of which some training pictures are shown.

    Raises:
        UserError: an option or recipe that does not exist, or a value that is not allowed.
    """
    given = _parser().read(argv)
    recipe, json, debug = given.pop("recipe", None), given.pop("json", False), given.pop("debug", False)
    if recipe is None and given.get("data") is None:
        recipe = EMBEDDED_RECIPE
    layer = read_recipe(recipe) if recipe is not None else {}
    return PreviewArguments(
        config=build_train_config({**layer, **PREVIEW_DEFAULTS, **given}),
        preview=build(PreviewConfig, given),
        recipe=recipe,
        json=json,
        debug=debug,
    )


@functools.cache
def _parser() -> OptionParser:
    """That of `train`, without what goes on with a run."""
    groups = {
        title(part): [
            replace(option, default=PREVIEW_DEFAULTS.get(option.name, option.default))
            for option in declared_options(part)
            if option.name != "resume"
        ]
        for part in (PreviewConfig, StartConfig, *TRAIN_PARTS.values(), OutputConfig)
    }
    return OptionParser(
        "preview",
        "Show training pictures as the network sees them, augmented and with their boxes; takes all options of train.",
        groups,
    )
