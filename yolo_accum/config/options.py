"""The declarations of `schema` as a list that parsers, help texts and documentation read."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, kw_only=True)
class Option:
    """One field of a configuration dataclass."""

    name: str
    """As in Python and YAML, with underscores."""
    type: Any
    """The annotation, evaluated."""
    default: object
    help: str
    """The attribute's docstring."""

    @property
    def flag(self) -> str:
        """As people type it, with dashes."""
        return "--" + self.name.replace("_", "-")

    @property
    def kind(self) -> Any:
        """The type without ``| None``."""
        if get_origin(self.type) in (Union, UnionType):
            return next(part for part in get_args(self.type) if part is not type(None))
        return self.type

    @property
    def words(self) -> tuple[str, ...]:
        """Words that are allowed in place of a number."""
        parts = get_args(self.type) if get_origin(self.type) in (Union, UnionType) else ()
        return tuple(word for part in parts if part is not self.kind for word in get_args(part))

    @property
    def is_optional(self) -> bool:
        return type(None) in get_args(self.type)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that are allowed, none for an open range."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def is_switch(self) -> bool:
        return self.kind is bool

    @property
    def is_list(self) -> bool:
        return get_origin(self.kind) is tuple

    @property
    def default_text(self) -> str:
        """As people would type it; empty where the default is not a value of its own."""
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return "" if self.default in (None, ()) else str(self.default)

    @property
    def allowed(self) -> str:
        """What may be written, for messages."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.is_list:
            return "a list of names"
        kinds = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
        return " or ".join((kinds[self.kind], *self.words))


def declared_options(config_class: type) -> tuple[Option, ...]:
    """The options that a configuration dataclass declares, in order."""
    hints = get_type_hints(config_class)
    texts = _attribute_docstrings(config_class)
    return tuple(
        Option(name=field.name, type=hints[field.name], default=field.default, help=texts[field.name])
        for field in dataclasses.fields(config_class)
    )


def title(config_class: type) -> str:
    """Headline of a configuration dataclass: the first sentence of its docstring, without the full stop."""
    return (inspect.getdoc(config_class) or "").split(".")[0]


def closest(word: str, known: Iterable[str]) -> str:
    """`` (did you mean X?)`` for a misspelt word, nothing when no known word is near."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def as_typed(message: str, words: Sequence[str]) -> str:
    """A message about an option, with its number as it stands on the command line: 1e10, not 10000000000.

    Args:
        message: begins with the option and its value.
        words: of the command line.
    """
    told = re.match(r"(--[\w-]+) (\S+): ", message)
    if told is None:
        return message
    flag, number = told.groups()
    for word, following in itertools.pairwise((*words, "")):
        name, equals, value = word.partition("=")
        typed = value if equals else following
        if name.replace("_", "-") == flag and _is_same_number(typed, number):
            message = f"{flag} {typed}{message[told.end(2) :]}"  # the last one counts
    return message


def _is_same_number(one: str, two: str) -> bool:
    try:
        return float(one) == float(two)
    except ValueError:
        return False


def _attribute_docstrings(config_class: type) -> dict[str, str]:
    """The string below each annotated attribute; Python itself throws these away, so they come from the source."""
    definition = ast.parse(textwrap.dedent(inspect.getsource(config_class))).body[0]
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    for attribute, below in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(attribute, ast.AnnAssign)
            and isinstance(attribute.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            texts[attribute.target.id] = " ".join(str(below.value.value).split())
    return texts


def selected(names: Mapping[type, Sequence[str]], defaults: Mapping[str, object]) -> dict[str, list[Option]]:
    """Options by headline.

    Args:
        names: which options of each class.
        defaults: where they differ from those of `train`.
    """
    return {
        title(config_class): [
            dataclasses.replace(option, default=defaults.get(option.name, option.default))
            for option in declared_options(config_class)
            if option.name in wanted
        ]
        for config_class, wanted in names.items()
    }
