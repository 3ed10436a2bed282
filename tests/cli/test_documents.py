"""What the documents say is what the program does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from yolo_accum.cli.main import VERBS
from yolo_accum.config.arguments import parse_predict, parse_train, parse_val
from yolo_accum.config.check_arguments import parse_check
from yolo_accum.config.compare_arguments import parse_compare
from yolo_accum.config.load import TRAIN_PARTS
from yolo_accum.config.options import declared_options
from yolo_accum.config.paths import cfg_folder
from yolo_accum.config.plan_arguments import parse_plan
from yolo_accum.config.preview_arguments import parse_preview
from yolo_accum.config.schema import OutputConfig, StartConfig
from yolo_accum.config.verify_arguments import parse_verify
from yolo_accum.data.findings import FindingLog
from yolo_accum.data.formats.data_yaml import load_data_yaml

ROOT = Path(__file__).parents[2]


def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_option_table_of_the_readme_is_the_schema() -> None:
    declared = [
        option for part in (StartConfig, *TRAIN_PARTS.values(), OutputConfig) for option in declared_options(part)
    ]
    rows = re.findall(r"^\| `(--[\w-]+)` \| *(?:`([^`]*)`)? *\| (.*) \|$", readme(), re.MULTILINE)

    assert [(flag, default) for flag, default, _ in rows] == [(option.flag, option.default_text) for option in declared]
    for (flag, _, meaning), option in zip(rows, declared, strict=True):
        assert meaning.startswith(option.help), flag
        assert all(choice in meaning for choice in option.choices), flag


def test_the_commands_of_the_readme_are_understood() -> None:
    parsers: dict[str, Callable[[list[str]], object]] = {
        "train": parse_train,
        "plan": parse_plan,
        "verify": parse_verify,
        "val": parse_val,
        "predict": parse_predict,
        "check": parse_check,
        "preview": parse_preview,
        "compare": parse_compare,
    }
    commands = re.findall(
        r"yolo-accum (train|plan|verify|val|predict|check|preview|compare) (-[^`\n]*|[\w/]+ -[^`\n]*)", readme()
    )

    assert {verb for verb, _ in commands} == set(parsers) <= set(VERBS)
    for verb, words in commands:
        if "--help" not in words:
            parsers[verb](words.split())


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "data/README.md",
        "docs/accumulation.md",
        "docs/augmentation.md",
        "docs/norms.md",
        "docs/callbacks.md",
        "docs/check.md",
        "docs/compare.md",
    ],
)
def test_links_and_folders_that_a_document_names_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]

    assert [target for target in targets if not (ROOT / document).parent.joinpath(target).exists()] == []


def test_modules_that_the_contract_names_exist() -> None:
    text = (ROOT / "docs" / "accumulation.md").read_text(encoding="utf-8")
    modules = re.findall(r"`(\w+/\w+\.py)`", text)

    assert modules and [module for module in modules if not (ROOT / "yolo_accum" / module).is_file()] == []


@pytest.mark.parametrize("example", ["coco.yaml", "yolo.yaml"])
def test_the_example_descriptions_of_data_sets_can_be_read(example: str) -> None:
    described = load_data_yaml(cfg_folder() / "data" / example, FindingLog())

    assert set(described.entries) == {"train", "val"}
