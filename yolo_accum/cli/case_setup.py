"""A case of a faulty data set, copied to a place of its own and made ready to run."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolo_accum.errors import UserError

ACCEPT, WARN, REJECT = "accept", "accept_with_warning", "reject"
"""The verdicts."""

_SETUP_COMMANDS = ("ln", "chmod", "mkdir", "cp", "mv", "touch", "rm")
"""A case may ask for these before it runs, in its copy; nothing else is run."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One ``case.json`` and the copy of its folder."""

    name: str
    folder: Path
    content: Mapping[str, Any]

    @property
    def expect(self) -> Mapping[str, Any]:
        """What must come out."""
        return self.content.get("expect") or {}

    @property
    def allowed(self) -> set[str]:
        """Verdicts that pass."""
        return {self.content["verdict"], *self.content.get("also_ok", ())}

    @property
    def stage(self) -> str:
        """When it must show: load, train or evaluate."""
        return str(self.content.get("stage", "load"))

    @property
    def working_folder(self) -> Path:
        """Where its commands are run: ``run_from`` within the case; a folder outside of it where that is none."""
        folder = self.folder / str(self.content.get("run_from") or "")
        return folder if folder.is_dir() else self.folder.parent

    def path(self, name: str) -> str:
        """A path of the case as a user in the working folder writes it."""
        return os.path.relpath(self.folder / name, self.working_folder)


def find_cases(folder: Path) -> list[Path]:
    """Folders with a ``case.json``, sorted.

    Raises:
        UserError: there are none.
    """
    cases = sorted(path.parent for path in folder.glob("*/case.json"))
    if not cases and (folder / "case.json").is_file():
        cases = [folder]
    if not cases:
        raise UserError(f"{folder}: no folder with a case.json is in it")
    return cases


def prepare_case(source: Path, target: Path) -> Case:
    """Copies a case and does what it asks for beforehand.

    Raises:
        UserError: its ``case.json`` or one of its steps cannot be understood.
    """
    shutil.copytree(source, target, symlinks=True)
    try:
        content = json.loads((target / "case.json").read_bytes().decode("utf-8-sig"))
    except ValueError as error:
        raise UserError(f"{source}: case.json cannot be read: {error}") from error
    case = Case(name=source.name, folder=target, content=content)
    steps = content.get("setup") or []
    for step in steps if isinstance(steps, list) else [steps]:
        _set_up(case, step)
    return case


def _set_up(case: Case, step: Any) -> None:
    if isinstance(step, str | list):
        words = shlex.split(step) if isinstance(step, str) else list(map(str, step))
        if not words or words[0] not in _SETUP_COMMANDS:
            raise UserError(f"setup {step!r} is not understood; known are {', '.join(_SETUP_COMMANDS)}")
        subprocess.run(words, cwd=case.folder, check=True)
        return
    links = step.get("symlinks") or step.get("links") or {}
    link = next((step[key] for key in ("symlink", "link") if key in step), None)
    target = next((step[key] for key in ("target", "to", "points_to") if key in step), None)
    if link is not None and target is not None:
        links = {link: target}
    for name, place in dict(links).items():
        path = case.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(place)
    if "file" in step and "content" in step:
        apply_edit(case, step)
    elif not links:
        raise UserError(f"setup {step!r} is not understood")


def apply_edit(case: Case, edit: Mapping[str, Any]) -> None:
    """Gives a file of the case other content, with its old time where ``keep_mtime`` says so."""
    path = case.folder / edit["file"]
    before = path.stat() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(edit["content"], encoding="utf-8", newline="")
    if edit.get("keep_mtime") and before is not None:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def tree_digest(folder: Path) -> str:
    """Changes when any file, its content, a folder or a link below ``folder`` does."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(os.fsencode(path.relative_to(folder)))
        if path.is_symlink():
            digest.update(os.fsencode(path.readlink()))
        elif path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()
