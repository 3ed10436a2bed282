"""Values from YAML and saved configurations."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from yolo_accum.config.load import from_mapping, read_config, read_recipe, to_mapping, to_yaml
from yolo_accum.config.paths import cfg_folder
from yolo_accum.errors import UserError


def value_of(yaml_line: str) -> object:
    (name,) = yaml.safe_load(yaml_line)
    return to_mapping(from_mapping(yaml.safe_load(yaml_line)))[name.replace("-", "_")]


@pytest.mark.parametrize(
    ("yaml_line", "value"),
    [
        ("lr0: 1e-3", 0.001),  # a text to a YAML 1.1 reader
        ("lr0: 1", 1.0),
        ("lr0:", None),
        ("epochs: '3'", 3),
        ("epochs: 1e1", 10),
        ("ramp: no", False),
        ("close-mosaic: 3", 3),
        ("device: 0", "0"),
        ("amp: off", "off"),  # false to a YAML 1.1 reader
        ("freeze: [backbone, head.stems]", ["backbone", "head.stems"]),
        ("freeze: backbone,head.stems", ["backbone", "head.stems"]),
        ("freeze:", []),
    ],
)
def test_values_are_read_as_people_mean_them(yaml_line: str, value: object) -> None:
    read = value_of(yaml_line)

    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("yaml_line", "sentence"),
    [
        ("batch: 2.5", "run.yaml: batch 2.5: a whole number or auto is needed"),
        ("batch: true", "run.yaml: batch true: a whole number or auto is needed"),
        ("batch:", "run.yaml: batch null: a whole number or auto is needed"),
        ("lr0: fast", "run.yaml: lr0 fast: a number is needed"),
        (f"warmup_epochs: {'9' * 400}", f"run.yaml: warmup_epochs {'9' * 400}: a number is needed"),
        ("lr0: .inf", "run.yaml: lr0 inf: a number is needed"),
        ("ramp: 1", "run.yaml: ramp 1: true or false is needed"),
        ("tail: stop", "run.yaml: tail stop: one of step, carry, drop is needed"),
        ("weights: [a.pt]", 'run.yaml: weights ["a.pt"]: a text is needed'),
        ("batch_size: 3", "run.yaml: batch_size is not an option (did you mean batch?)"),
        ("resume: runs/exp", "run.yaml: resume is not an option"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place_and_what_is_allowed(yaml_line: str, sentence: str) -> None:
    with pytest.raises(UserError) as refusal:
        from_mapping(yaml.safe_load(yaml_line), "run.yaml")

    assert str(refusal.value) == sentence


def test_the_range_check_of_a_recipe_names_the_file(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("batch: 0\n")

    with pytest.raises(UserError, match=r"mine\.yaml: --batch 0: at least one image"):
        read_recipe(str(recipe))


@pytest.mark.parametrize("text", ["- batch\n", "batch 8\n", "a: b: c\n", "\x00"])
def test_a_file_that_is_no_mapping_is_refused_by_name(tmp_path: Path, text: str) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(text)

    with pytest.raises(UserError, match=r"mine\.yaml: "):
        read_recipe(str(recipe))


def test_an_empty_recipe_changes_nothing(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("# nothing yet\n")

    assert read_recipe(str(recipe)) == {}


def test_an_unknown_recipe_names_the_ones_there_are() -> None:
    with pytest.raises(
        UserError, match=r"--recipe embeded: no such file.*did you mean embedded\?.*these are: .*embedded"
    ):
        read_recipe("embeded")


@pytest.mark.parametrize("recipe", sorted((cfg_folder() / "train").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_recipe_is_valid(recipe: Path) -> None:
    assert read_recipe(recipe.stem)


def test_a_missing_saved_configuration_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.yaml: No such file"):
        read_config(tmp_path / "config.yaml")


@settings(max_examples=30, deadline=None)
@given(
    lr0=st.one_of(st.none(), st.floats(1e-9, 10)),
    momentum=st.floats(0, 0.9999),
    nbs=st.integers(1, 10**9),
    freeze=st.lists(st.from_regex(r"[a-z]+(\.[a-z0-9]+)*", fullmatch=True), max_size=3),
    name=st.sampled_from(["off", "1e3", "007", "0.5", "true", "é ü", "a: b", "#1"]),
    channels_last=st.sampled_from([None, True, False]),
    amp=st.sampled_from(["auto", "fp16", "bf16", "off"]),
)
def test_a_configuration_survives_being_written_and_read(
    tmp_path_factory: pytest.TempPathFactory, **values: object
) -> None:
    config = from_mapping(values)
    path = tmp_path_factory.getbasetemp() / "config.yaml"
    path.write_text(to_yaml(config), encoding="utf-8")

    assert {name: to_mapping(config)[name] for name in values} == values
    assert read_config(path) == config
    assert from_mapping(to_mapping(config)) == config
