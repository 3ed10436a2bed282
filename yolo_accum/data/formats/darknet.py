"""Darknet's data file, which CVAT's "YOLO 1.1" export has too: ``key = value`` lines and files of lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from yolo_accum.data.classes import Classes
from yolo_accum.data.formats.data_yaml import split_name
from yolo_accum.errors import UserError


@dataclass(frozen=True, kw_only=True)
class DarknetData:
    """What a data file says."""

    lists: Mapping[str, Path]
    """An existing list file for each split."""
    classes: Classes


def darknet_splits(path: Path) -> DarknetData:
    """Reads a data file. Its paths are relative to it, or to the folder above where they begin with its folder.

    Raises:
        UserError: names what is missing.
    """
    values = {}
    for line in _lines(path):
        key, equals, value = line.partition("=")
        if equals:
            values[key.strip()] = value.strip()
    if "names" not in values:
        raise UserError(f"{path} is no Darknet data file: it has no line such as 'names = obj.names'")
    lists = {
        split: _existing(path, key, value)
        for key, value in values.items()
        if key != "names" and value and (split := split_name(key)) is not None
    }
    if not lists:
        raise UserError(f"{path} names no split; a line such as 'train = train.txt' is needed")
    return DarknetData(lists=lists, classes=names_in_lines(_existing(path, "names", values["names"])))


def names_in_lines(path: Path) -> Classes:
    """The classes of a file with one name a line, numbered from 0.

    Raises:
        UserError: it has no names, or one twice.
    """
    names = _lines(path)
    if not names:
        raise UserError(f"{path} is empty; it must hold one class name a line")
    if len(set(names)) < len(names):
        again = next(name for place, name in enumerate(names) if name in names[:place])
        raise UserError(f"{path} has {again!r} more than once; every class needs a name of its own")
    return Classes(names=tuple(names), ids=tuple(range(len(names))))


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def _existing(path: Path, key: str, value: str) -> Path:
    # An export writes data/train.txt for what lies beside the data file: "data" was its folder elsewhere.
    relative = PurePosixPath(value.replace("\\", "/"))
    tried = [path.parent / relative, path.parent / PurePosixPath(*relative.parts[1:])]
    for candidate in tried:
        if candidate.is_file():
            return candidate
    raise UserError(f"{path}: {key} = {value!r} does not exist (tried {' and '.join(map(str, tried))})")
