"""The results of verbs as JSON."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yolo_accum.errors import printable


def to_json(result: Mapping[str, Any]) -> str:
    """One JSON object on one line; numbers that are not finite become null, since JSON has no word for them."""
    return printable(json.dumps(_plain(result), allow_nan=False, ensure_ascii=False))


def wants_json(words: Sequence[str]) -> bool:
    """Whether a command line asks for ``--json``, also one that cannot be read because of something else."""
    wanted = False
    for word, following in itertools.pairwise((*words, "")):
        flag, equals, value = word.partition("=")
        if flag == "--json":
            wanted = (value if equals else following).lower() not in ("false", "no")
        elif word == "--no-json":
            wanted = False
    return wanted


def _plain(value: Any) -> Any:
    if type(value) is int:  # first, for lists of a million of them
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item"):  # a number of numpy or torch
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: Path, content: Any) -> None:
    """The same for a file, with a line an item.

    Raises:
        OSError: the file cannot be written.
    """
    text = json.dumps(_plain(content), allow_nan=False, ensure_ascii=False, indent=1)
    path.write_text(printable(text) + "\n", encoding="utf-8")
