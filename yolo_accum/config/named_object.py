"""Objects of the user's own Python code, by where they are: ``module:NAME`` or ``path/to/file.py:NAME``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from yolo_accum.config.options import closest
from yolo_accum.errors import UserError


def is_named_object(place: str) -> bool:
    """Whether a text names a Python object, and not a file."""
    source, colon, name = place.rpartition(":")
    return bool(colon and source) and name.isidentifier()


def named_object(place: str, option: str) -> object:
    """Import the code and return what is called NAME there.

    Args:
        place: ``module:NAME`` (looked for in the working directory, too) or ``path/to/file.py:NAME``.
        option: that the place was given to, for messages.
    Raises:
        UserError: there is no such module, file or name, or importing it fails.
    """
    where = f"{option} {place}"
    if not is_named_object(place):
        raise UserError(f"{where}: module:NAME or path/to/file.py:NAME is needed")
    source, _, name = place.rpartition(":")
    try:
        module = _from_file(Path(source)) if source.endswith(".py") else _from_path(source)
    except (Exception, SystemExit) as error:  # whatever their code does when it is imported
        raise UserError(f"{where}: {source} cannot be imported ({type(error).__name__}: {error})") from error
    if not hasattr(module, name):
        known = [item for item, value in vars(module).items() if callable(value) and not item.startswith("_")]
        raise UserError(f"{where}: {source} has no {name}{closest(name, known)}")
    return getattr(module, name)


def _from_path(name: str) -> ModuleType:
    """A module by its name; an installed program does not look into the working directory by itself."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(here)


def _from_file(path: Path) -> ModuleType:
    name = f"code_in_{path.stem}"  # its own name may be that of a module in use
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError("there is no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses of their code look themselves up there
    spec.loader.exec_module(module)
    return module


def absolute_place(place: str) -> str:
    """The same file or object, found from any working directory; modules stay names."""
    source, colon, name = place.rpartition(":")
    if not is_named_object(place):
        return str(Path(place).absolute())
    return f"{Path(source).absolute()}{colon}{name}" if source.endswith(".py") else place
