"""The declarations as a list."""

from __future__ import annotations

from dataclasses import fields
from typing import get_type_hints

import pytest

from yolo_accum.config.options import as_typed, closest, declared_options, title
from yolo_accum.config.schema import (
    AccumulationConfig,
    ModelConfig,
    OptimConfig,
    OutputConfig,
    StartConfig,
    TrainConfig,
)

ALL_CLASSES = (*get_type_hints(TrainConfig).values(), StartConfig, OutputConfig)


def test_an_option_knows_its_flag_default_help_and_what_is_allowed() -> None:
    options = {option.name: option for option in declared_options(AccumulationConfig)}

    assert list(options) == ["batch", "nbs", "ramp", "tail", "window_batch", "memory"]
    assert (options["batch"].flag, options["batch"].default, options["batch"].allowed) == (
        "--batch",
        8,
        "a whole number or auto",
    )
    assert options["batch"].help.startswith("Images of one micro-batch over all replicas; auto: ")
    assert options["tail"].choices == ("step", "carry", "drop")
    assert options["tail"].allowed == "one of step, carry, drop"
    assert options["ramp"].is_switch and options["ramp"].default_text == "true"


def test_optional_and_list_types_are_seen_through() -> None:
    lr0 = next(option for option in declared_options(OptimConfig) if option.name == "lr0")
    freeze = next(option for option in declared_options(ModelConfig) if option.name == "freeze")

    assert lr0.kind is float and lr0.allowed == "a number" and lr0.default_text == ""
    assert freeze.is_list and freeze.default_text == ""


def test_every_option_has_a_help_text_and_a_known_type() -> None:
    for config_class in ALL_CLASSES:
        for option in declared_options(config_class):
            assert option.help.endswith("."), option.name
            assert option.allowed, option.name


def test_names_are_unique_over_all_groups_because_they_are_flat_on_the_command_line() -> None:
    names = [field.name for config_class in ALL_CLASSES for field in fields(config_class)]

    assert len(names) == len(set(names))


def test_headlines_are_the_first_sentence() -> None:
    assert title(AccumulationConfig) == "How the images of an update are cut into micro-batches"


def test_the_closest_word_is_suggested_and_a_far_one_is_not() -> None:
    assert closest("--batchsize", ["--batch", "--nbs"]) == " (did you mean --batch?)"
    assert closest("--zzz", ["--batch", "--nbs"]) == ""


@pytest.mark.parametrize(
    ("message", "words", "told"),
    [
        ("--nbs 10000000000: too many", ["--nbs", "1e10"], "--nbs 1e10: too many"),
        ("--weight-decay 2.0: no", ["--weight_decay=2e0"], "--weight-decay 2e0: no"),
        ("--nbs 0: no", ["--nbs", "4", "--nbs", "0e0"], "--nbs 0e0: no"),
        ("--nbs 0: no", ["--nbs", "4"], "--nbs 0: no"),
        ("--nbs 0: no", ["--nbs"], "--nbs 0: no"),
        ("--name '1': no", ["--name", "1.0"], "--name '1': no"),
        ("cfg.yaml: --nbs 1000: no", ["--nbs", "1e3"], "cfg.yaml: --nbs 1000: no"),
    ],
)
def test_a_number_in_a_message_is_as_it_was_typed(message: str, words: list[str], told: str) -> None:
    assert as_typed(message, words) == told
