"""Options from where people write them: the command line, recipes (YAML), saved configurations.

Parsers are made from the declarations in `schema`; this is the only file that knows the parsing library.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from jsonargparse import ArgumentParser

from yolo_accum.config.options import Option, closest, declared_options, title
from yolo_accum.config.paths import cfg_folder
from yolo_accum.config.schema import OutputConfig, StartConfig, TrainConfig
from yolo_accum.config.yaml_file import read_yaml
from yolo_accum.errors import UserError

TRAIN_PARTS: dict[str, type] = get_type_hints(TrainConfig)
"""The parts of TrainConfig by attribute name, in order."""


def read_recipe(recipe: str) -> dict[str, object]:
    """The options that a recipe sets, typed.

    Args:
        recipe: a YAML file, or the name of one under cfg/train.
    Raises:
        UserError: there is no such recipe, or it holds an option that does not exist or a value that is not allowed.
    """
    path = Path(recipe)
    if not path.is_file():
        shipped = {file.stem: file for file in sorted((cfg_folder() / "train").glob("*.yaml"))}
        if recipe not in shipped:
            raise UserError(
                f"--recipe {recipe}: no such file, nor a recipe that comes with the package"
                f"{closest(recipe, shipped)}; these are: {', '.join(shipped)}"
            )
        path = shipped[recipe]
    return _read_yaml(path)


def read_config(path: Path) -> TrainConfig:
    """The configuration in a YAML file, such as `to_yaml` writes; what is missing gets its default.

    Raises:
        UserError: the file is missing, is no YAML mapping, or holds an option or value that is not allowed.
    """
    return build_train_config(_read_yaml(path))


def from_mapping(values: Mapping[str, object], source: str = "options") -> TrainConfig:
    """The configuration that flat names and values describe; what is missing gets its default.

    Args:
        values: such as `to_mapping` returns.
        source: where they come from, for messages.
    Raises:
        UserError: an option that does not exist, or a value that is not allowed.
    """
    return build_train_config(_config_parser().typed(values, source))


def to_mapping(config: TrainConfig) -> dict[str, Any]:
    """All options of a configuration, flat, as plain numbers, texts and lists."""
    flat = {}
    for part_name in TRAIN_PARTS:
        part = getattr(config, part_name)
        for item in fields(part):
            value = getattr(part, item.name)
            flat[item.name] = list(value) if isinstance(value, tuple) else value
    return flat


def to_yaml(config: TrainConfig) -> str:
    """The configuration as YAML text; `read_config` and ``--recipe`` read it back unchanged."""
    return yaml.safe_dump(to_mapping(config), sort_keys=False, allow_unicode=True)


def build_train_config(values: Mapping[str, object]) -> TrainConfig:
    """The configuration of typed values; the dataclasses check the ranges.

    Raises:
        UserError: a value outside the range of its option.
    """
    return TrainConfig(**{name: build(part, values) for name, part in TRAIN_PARTS.items()})


def build(config_class: type, values: Mapping[str, object]) -> Any:
    """One part of a configuration from those of ``values`` that are its own."""
    return config_class(**{item.name: values[item.name] for item in fields(config_class) if item.name in values})


def _read_yaml(path: Path) -> dict[str, object]:
    values = read_yaml(path)
    if not isinstance(values or {}, dict):
        raise UserError(f"{path}: lines of the form 'option: value' are needed")
    typed = _config_parser().typed(values or {}, str(path))
    try:
        build_train_config(typed)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return typed


class OptionParser:
    """Reads a command line, or a mapping, into typed values of declared options; only what was given is returned.

    Args:
        verb: the word after ``yolo-accum``.
        summary: one sentence for the help text.
        groups: options by headline.
        sources: help text for what stands without an option, where the verb takes any.
        source: what one of these is called.
    """

    def __init__(
        self,
        verb: str,
        summary: str,
        groups: Mapping[str, Sequence[Option]],
        sources: str = "",
        source: str = "PICTURE",
    ) -> None:
        self._options = {option.flag: option for options in groups.values() for option in options}
        self._takes_sources = bool(sources)
        self._parser = ArgumentParser(
            prog=f"yolo-accum {verb}",
            usage=f"yolo-accum {verb}{f' {source} ...' if sources else ''} [--option value ...]",
            description=summary,
            epilog="Switches may be written --plots, --no-plots or --plots false.",
            formatter_class=_HelpFormatter,
            exit_on_error=False,
            allow_abbrev=False,
        )
        if sources:
            self._parser.add_argument("sources", nargs="*", type=str, metavar=source, help=sources)
        for headline, options in groups.items():
            group = self._parser.add_argument_group(headline)
            for option in options:
                _add(group, option)

    def read(self, argv: Sequence[str]) -> dict[str, Any]:
        """What stands on the command line; prints the help text and exits on ``--help``.

        Raises:
            UserError: an option that does not exist, or a value of the wrong type.
        """
        try:
            given = vars(self._parser.parse_args(list(self._plain(argv)), defaults=False))
        except argparse.ArgumentError as error:
            raise UserError(self._explain(error)) from error
        except OverflowError as error:  # the library turns whole numbers into floats
            longest = max(argv, key=len)
            raise UserError(f"{longest:.80}: this number is too large") from error
        for option in self._options.values():
            if option.name in given:
                given[option.name] = _finished(option, given[option.name], option.flag)
        if "sources" in given:
            given["sources"] = tuple(given["sources"])
        return given

    def typed(self, values: Mapping[str, object], source: str) -> dict[str, object]:
        """Values of a mapping in the types of their options, one by one, so that the culprit can be named.

        Raises:
            UserError: an option that does not exist, or a value of the wrong type.
        """
        typed: dict[str, object] = {}
        for key, value in values.items():
            option = self._options.get("--" + str(key).replace("_", "-"))
            if option is None:
                known = [known.name for known in self._options.values()]
                raise UserError(f"{source}: {key} is not an option{closest(str(key), known)}")
            typed[option.name] = self._typed_value(option, value, f"{source}: {option.name}")
        return typed

    def _typed_value(self, option: Option, value: object, where: str) -> object:
        if option.kind is str and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)  # `device: 0` and `name: 2` are texts that YAML takes for numbers
        if value is False and "off" in option.choices:
            value = "off"  # YAML takes a bare `off` for false
        if option.is_list and isinstance(value, str | int) and not isinstance(value, bool):
            value = [value]
        if option.is_list and isinstance(value, list):  # `classes: [0, 2]`
            value = [str(item) if isinstance(item, int) and not isinstance(item, bool) else item for item in value]
        try:
            parsed = self._parser.parse_object({option.name: value}, defaults=False)
        except (argparse.ArgumentError, OverflowError) as error:
            raise UserError(_refusal(option, value, where)) from error
        return _finished(option, parsed[option.name], where)

    def _plain(self, argv: Sequence[str]) -> list[str]:
        """The command line with one spelling for every option: dashes, and switches with a value."""
        plain: list[str] = []
        is_joined = False
        for word, following in itertools.zip_longest(argv, argv[1:], fillvalue="-"):
            if is_joined:
                is_joined = False
                continue
            flag, equals, value = word.partition("=")
            flag = flag.replace("_", "-")
            if not word.startswith("-") or flag in ("-h", "--help") or _is_number(word):
                plain.append(word)
                continue
            if flag.startswith("--no-") and not equals and self._is_switch("--" + flag[5:]):
                plain.append(f"--{flag[5:]}=false")
                continue
            if flag not in self._options:
                known = [*self._options, *("--no-" + known[2:] for known in self._options if self._is_switch(known))]
                raise UserError(f"{word}: there is no such option{closest(flag, known)}")
            if self._is_switch(flag) and not equals and not self._is_switch_value(following):
                flag, equals, value = flag, "=", "true"
            if not equals and following.startswith("-") and _is_number(following):
                equals, value, is_joined = "=", following, True  # argparse takes -1e-3 for an option
            plain.append(flag + equals + value)
        return plain

    def _is_switch(self, flag: str) -> bool:
        return flag in self._options and self._options[flag].is_switch

    def _is_switch_value(self, word: str) -> bool:
        if self._takes_sources:
            return word.lower() in ("true", "false", "yes", "no")
        return not word.startswith("-")

    def _explain(self, error: argparse.ArgumentError) -> str:
        """One sentence for what the library says about a command line."""
        text = str(error)
        if stray := re.match(r"unrecognized arguments: (.*)", text, re.DOTALL):
            return f"{stray[1]}: not expected here; options are written --name value"
        if key := re.match(r'Parser key "(\w+)"', text):
            option = self._options["--" + key[1].replace("_", "-")]
            value = re.findall(r"(?:Got|Given) value: (.*)", text)
            return _refusal(option, value[-1] if value else "", option.flag)
        if missing := re.match(r"argument (--[\w-]+): expected", text):
            return f"{missing[1]}: a value is missing, {self._options[missing[1]].allowed} is needed"
        return " ".join(text.split())


class _HelpFormatter(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=80)


def _add(group: Any, option: Option) -> None:
    notes = [", ".join(option.choices)] if option.choices else []
    notes += [f"default: {option.default_text}"] if option.default_text else []
    text = option.help + (f" ({'; '.join(notes)})" if notes else "")
    keywords: dict[str, Any] = {"default": option.default, "help": text.replace("%", "%%")}
    if option.is_list:
        group.add_argument(option.flag, type=str, nargs="+", metavar="NAME", **keywords)
    elif option.kind is int:
        # 1e6 is a whole number too
        group.add_argument(option.flag, type=option.type | float | None, metavar="N", **keywords)
    elif option.is_switch:
        bare = option.default is False
        group.add_argument(option.flag, type=option.type, metavar="" if bare else "true|false", **keywords)
    else:
        metavar = {float: "X", str: "TEXT"}.get(option.kind, "WORD")
        group.add_argument(option.flag, type=option.type, metavar=metavar, **keywords)


def _refusal(option: Option, value: object, where: str) -> str:
    shown = json.dumps(value, default=str) if isinstance(value, bool | list | dict | None) else value  # as in YAML
    is_taken = any(isinstance(item, bool) for item in (value if isinstance(value, list) else [value]))
    is_word = option.kind not in (int, float)
    hint = "; YAML takes yes, no, on and off for true and false, unless they are quoted" if is_taken and is_word else ""
    return f"{where} {shown}: {option.allowed} is needed{hint}"


def _finished(option: Option, value: Any, where: str) -> object:
    """What the library leaves open: commas in lists, floats that are whole or no number, null where it is no value."""
    if option.is_list:
        return tuple(name for item in value or () for name in item.split(",") if name)
    refused = value is None and not option.is_optional
    if isinstance(value, float):
        refused = not math.isfinite(value) or (option.kind is int and not value.is_integer())
    if refused:
        raise UserError(_refusal(option, value, where))
    return int(value) if option.kind is int and isinstance(value, float) else value


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _grouped(*config_classes: type) -> dict[str, tuple[Option, ...]]:
    return {title(config_class): declared_options(config_class) for config_class in config_classes}


@functools.cache
def _config_parser() -> OptionParser:
    """What a recipe may set: the configuration of a run, not what is done with it."""
    return OptionParser("train", "", _grouped(*TRAIN_PARTS.values()))


@functools.cache
def train_parser() -> OptionParser:
    """The parser of the command line of `train`."""
    return OptionParser(
        "train",
        "Train a detector. Without --data: on the embedded data set, with the recipe 'embedded'.",
        _grouped(StartConfig, *TRAIN_PARTS.values(), OutputConfig),
    )
