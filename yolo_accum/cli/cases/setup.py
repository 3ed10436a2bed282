"""A case of a faulty data set, copied to a place of its own and made ready to run."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolo_accum.cli.cases.file import read_case_file
from yolo_accum.errors import UserError

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
    content = read_case_file(target / "case.json")
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
        _require_inside(case, words)
        done = subprocess.run(words, cwd=case.folder, check=False, capture_output=True, text=True)
        if done.returncode:
            raise UserError(f"setup {step!r} failed: {' '.join(done.stderr.split()) or f'exit code {done.returncode}'}")
        return
    if not isinstance(step, Mapping):
        raise UserError(f"setup {step!r} is not understood")
    links = step.get("symlinks") or step.get("links") or {}
    link = next((step[key] for key in ("symlink", "link") if key in step), None)
    target = next((step[key] for key in ("target", "to", "points_to") if key in step), None)
    if link is not None and target is not None:
        links = {link: target}
    for name, place in dict(links).items():
        path = _inside(case, name)
        _inside(case, place, path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(place)
    if "file" in step and "content" in step:
        apply_edit(case, step)
    elif not links:
        raise UserError(f"setup {step!r} is not understood")


def apply_edit(case: Case, edit: Mapping[str, Any]) -> None:
    """Gives a file of the case other content, with its old time where ``keep_mtime`` says so."""
    path = _inside(case, edit["file"])
    before = path.stat() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(edit["content"], encoding="utf-8", newline="")
    if edit.get("keep_mtime") and before is not None:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _require_inside(case: Case, words: Sequence[str]) -> None:
    """Refuses a command with a path that leaves the copy."""
    command, *rest = words
    options, names = [word for word in rest if word.startswith("-")], [word for word in rest if word[:1] != "-"]
    if any("/" in word for word in options):
        raise UserError(f"setup {shlex.join(words)!r}: options with a path are not understood")
    base = case.folder
    if command == "ln" and options and names:  # a symbolic link leads on from where it lies
        link = _inside(case, names.pop())
        base = link if link.is_dir() else link.parent
    for name in names:
        _inside(case, name, base)


def _inside(case: Case, name: str, base: Path | None = None) -> Path:
    """A path of the copy, which it may not leave, not by a link either."""
    path = (base or case.folder) / name
    if not path.resolve().is_relative_to(case.folder.resolve()):
        raise UserError(f"setup and edits stay within the case; {name} leads out of it")
    return path


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
