"""Verbs as a user runs them, but inside this process: importing the libraries anew for each would take longer than
what most of them do."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolo_accum.cli.main import main
from yolo_accum.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a command left behind."""

    code: int
    text: str
    """Everything that was said on standard error, where ``--json`` puts what is for people."""
    result: dict[str, Any]
    """The object on standard output: that of a refusal where the command failed, empty where it left none."""

    @property
    def bare_traceback(self) -> bool:
        """Whether a person was shown a stack of Python's instead of a sentence."""
        return "Traceback (most recent call last)" in self.text or "this is a bug" in self.text


def run_verb(words: Sequence[str], working_folder: Path) -> Outcome:
    """Runs ``yolo-accum WORDS --json`` in a folder."""
    out, err = io.StringIO(), io.StringIO()
    with inside(working_folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*words, "--json"])
    return Outcome(code=code, text=err.getvalue(), result=_only_object(words[0], out.getvalue(), code))


def _only_object(verb: str, text: str, code: int) -> dict[str, Any]:
    """The result; a verb that was ended leaves none."""
    if not text and code:
        return {}
    try:
        result = json.loads(text)
    except ValueError:
        result = None
    if not isinstance(result, dict):
        raise UserError(f"{verb} --json wrote something else than one JSON object: {text.strip()[:200]!r}")
    return result


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """With another working folder, which is the process's until it is left."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
