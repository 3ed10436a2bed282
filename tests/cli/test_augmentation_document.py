"""What docs/augmentation.md and the recipes say is what the options do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from small_data import write_data

from yolo_accum.cli.training.build import build_training
from yolo_accum.config.load import from_mapping, read_recipe, to_mapping
from yolo_accum.config.options import declared_options
from yolo_accum.config.paths import cfg_folder
from yolo_accum.config.schema import AugmentConfig, DataConfig
from yolo_accum.data.description import open_data
from yolo_accum.engine.loop import LoopState
from yolo_accum.errors import UserError

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "augmentation.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `--([\w-]+)` \| *([^|]*?) *\| *([^|]*?) *\| *([^|]+?) *\| ([^|]+) \|$", DOCUMENT, re.MULTILINE)
RECIPES = sorted(path.stem for path in (cfg_folder() / "train").glob("*.yaml"))


def test_every_option_stands_there_with_its_default() -> None:
    declared = [(option.name, option.default_text) for option in declared_options(AugmentConfig)]
    assert [(name.replace("-", "_"), default) for name, default, *_ in ROWS] == [*declared, ("balance", "0.0")]


@pytest.mark.parametrize(("name", "limits"), [(row[0].replace("-", "_"), row[2]) for row in ROWS if row[2]])
def test_ranges_are_those_that_are_kept_to(name: str, limits: str) -> None:
    part: Any = DataConfig if name == "balance" else AugmentConfig
    kind = next(option.kind for option in declared_options(part) if option.name == name)
    low, high = limits.split("..")
    beyond = 1 if kind is int else 0.001
    assert getattr(part(**{name: kind(low)}), name) == kind(low)
    with pytest.raises(UserError, match=f"--{name.replace('_', '-')} "):
        part(**{name: kind(low) - beyond})
    if high:
        assert getattr(part(**{name: kind(high)}), name) == kind(high)
        with pytest.raises(UserError, match=f"--{name.replace('_', '-')} "):
            part(**{name: kind(high) + beyond})
    else:
        part(**{name: kind(1_000_000)})


def test_every_recipe_stands_there() -> None:
    assert sorted(re.findall(r"^\| `(\w+)` \|", DOCUMENT, re.MULTILINE)) == RECIPES


def test_without_augmentation_means_that_nothing_is_varied() -> None:
    """Every option that could vary a picture is set; a new one has to be added there."""
    recipe = read_recipe("no_augmentation")
    rules = {"min_visible", "min_box_px", "augmentations"}
    assert set(recipe) == {option.name for option in declared_options(AugmentConfig)} - rules
    assert set(recipe.values()) == {0}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"), num_train=6)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_trains(name: str, data: Path) -> None:
    """At a small size; what it says otherwise is in force."""
    recipe = read_recipe(name)
    small = {"imgsz": 64, "batch": 2, "nbs": 4, "epochs": 2, "workers": 0, "threads": 1, "amp": "off"}
    config = from_mapping({**recipe, **small, "data": str(data)})
    assert {key: value for key, value in to_mapping(config).items() if key in recipe and key not in small} == {
        key: value for key, value in recipe.items() if key not in small
    }
    training = build_training(config, open_data(config.data).train)
    finished = [next(iter(training.loop.run(training.batches(), LoopState())))]
    assert all(item.record is not None and item.record.applied for item in finished)
