"""The arms of a comparison: options that differ from those of the base run, from words or a YAML file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from yolo_accum.config.load import from_mapping, to_mapping
from yolo_accum.config.schema import TrainConfig
from yolo_accum.config.verb_schema import CompareConfig
from yolo_accum.config.yaml_file import read_yaml
from yolo_accum.errors import UserError

ACCUMULATION = "accumulation"
LARGE = "large"
SHARED = frozenset(
    {"data", "val_data", "images", "val_images", "classes", "single_cls", "fraction", "balance", "seed", "calibrate_bn"}
    | {"val_batch", "conf", "iou", "max_det", "evaluator", "patience"}
    | {"project", "window_batch", "save_gradients", "memory", "log", "callbacks"}
)
"""Options that are the same in all arms: what is compared is how the same data are trained on."""
SEPARATOR = "\n"
"""Between the words of several ``--arms``, once the command line is read."""
_IS_NAME = re.compile(r"[A-Za-z0-9][\w.+=-]{0,79}")


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to train."""

    name: str
    """Also of its folder."""
    changes: Mapping[str, Any]
    """Options that differ from those of the base run, by name."""
    config: TrainConfig
    """All of its options."""


def read_arms(base: TrainConfig, compare: CompareConfig) -> tuple[Arm, ...]:
    """All arms of a comparison, the two default ones first.

    Raises:
        UserError: an option that does not exist or may not differ, a value that is not allowed, two arms of one name,
            fewer than two arms, or a reference that is none of them.
    """
    batch, nbs = base.accumulation.batch, base.accumulation.nbs
    if batch == "auto":
        raise UserError("--batch auto: the windows that all arms follow are planned from a number of images")
    arms = []
    if compare.default_arms:
        window_length = max(1, round(nbs / batch))  # as the plan has it
        arms = [_arm(base, ACCUMULATION if window_length > 1 else "base", {}, "the base options")]
        if window_length > 1:
            arms.append(_arm(base, LARGE, {"batch": batch * window_length}, "the large batch"))
    for source, name, changes in _described(compare.arms) if compare.arms is not None else ():
        arms.append(_arm(base, name or _generated_name(changes), changes, source))
    names = [arm.name for arm in arms]
    folders = [name.lower() for name in names]  # some file systems do not tell A from a
    double = next((name for name in names if folders.count(name.lower()) > 1), None)
    if double is not None:
        raise UserError(f"--arms: two arms are named {double}; name=OTHER gives one another name")
    own_device = next((arm.name for arm in arms if "device" in arm.changes), None)
    if compare.devices is not None and own_device is not None:
        raise UserError(f"--devices spreads the runs, and {own_device} names a device of its own; give one of them")
    if len(arms) < 2:
        large = f"--batch {batch} is the large batch already (--nbs {nbs}); " if compare.default_arms else ""
        raise UserError(f"{large}a comparison needs two arms: name another one with --arms, such as batch=4,norm=gn")
    if compare.reference is not None and compare.reference not in names:
        raise UserError(f"--reference {compare.reference}: there is no such arm; there are: {', '.join(names)}")
    return tuple(arms)


def arms_again(base: TrainConfig, changes_by_name: Mapping[str, Mapping[str, Any]]) -> tuple[Arm, ...]:
    """The arms of a comparison that goes on, from what `read_arms` made of them.

    Raises:
        UserError: an option or value that this version of the program does not have.
    """
    return tuple(_arm(base, name, changes, f"arm {name}") for name, changes in changes_by_name.items())


def reference_of(arms: Sequence[Arm], compare: CompareConfig) -> str:
    """Name of the arm that the others are compared with: as asked, else the large batch, else the first."""
    names = [arm.name for arm in arms]
    return compare.reference or (LARGE if LARGE in names else names[0])


def _described(text: str) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """Where it stands, name (None: to be generated) and changes of every arm."""
    for word in (word.strip() for word in text.split(SEPARATOR)):
        if not word:
            raise UserError("--arms: options such as batch=4,norm=gn or a YAML file are needed")
        if "=" in word and not Path(word).is_file():
            changes = dict(_change(part, word) for part in word.split(","))
            name = changes.pop("name", None)
            yield f"--arms {word}", None if name is None else str(name), changes
        else:
            yield from _from_file(Path(word))


def _change(part: str, word: str) -> tuple[str, Any]:
    option, equals, value = part.strip().partition("=")
    if not equals or not option or not value:
        raise UserError(f"--arms {word}: {part!r} is not of the form option=value; options are separated by commas")
    try:
        return option.removeprefix("--").replace("-", "_"), yaml.safe_load(value)
    except yaml.YAMLError:
        return option.removeprefix("--").replace("-", "_"), value


def _from_file(path: Path) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    allowed = "a mapping from names to options, such as 'small: {batch: 4, norm: gn}', or a list of options, is needed"
    content = read_yaml(path, f"--arms {path}", "; options such as batch=4,norm=gn or a YAML file are needed")
    entries: list[tuple[Any, Any]]
    if isinstance(content, dict):
        entries = list(content.items())
    elif isinstance(content, list):
        entries = [(None, entry) for entry in content]
    else:
        entries = []
    if not entries:
        raise UserError(f"--arms {path}: {allowed}")
    for number, (name, options) in enumerate(entries, start=1):
        where = f"--arms {path}, {name if name is not None else f'arm {number}'}"
        if not isinstance(options, dict):
            raise UserError(f"{where}: {allowed}")
        changes = {str(key).replace("-", "_"): value for key, value in options.items()}
        own = changes.pop("name", None)
        name = name if name is not None else own
        yield where, None if name is None else str(name), changes


def _arm(base: TrainConfig, name: str, changes: Mapping[str, Any], where: str) -> Arm:
    """An arm with its options typed and checked."""
    if not _IS_NAME.fullmatch(name):
        raise UserError(f"{where}: {name!r} cannot be a name; letters, digits and . + = _ - are allowed, at most 80")
    shared = next((option for option in changes if option in SHARED), None)
    if shared is not None:
        raise UserError(f"{where}: {shared} is the same in all arms; give --{shared.replace('_', '-')} itself")
    if changes.get("batch") == "auto":
        raise UserError(f"{where}: batch auto would not be the same on every machine; a number is needed")
    values = to_mapping(base)
    try:
        config = from_mapping({**values, **changes}, where)
    except UserError as error:
        text = str(error)
        raise UserError(text if text.startswith(where) else f"{where}: {text}") from error
    typed = to_mapping(config)
    return Arm(name=name, changes={option: typed[option] for option in changes}, config=config)


def _generated_name(changes: Mapping[str, Any]) -> str:
    """``batch4-norm-gn`` for batch=4,norm=gn."""
    parts = []
    for option, value in changes.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        parts.append(re.sub(r"[^\w.+]+", "-", f"{option}{text}" if is_number else f"{option}-{text}"))
    return "-".join(parts)[:80].rstrip("-") or "base"
