"""Files that appear under their name only when they are complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file to write to; it takes the place of ``path`` at the end, and none is left where that fails.

    Raises:
        OSError: the file cannot be written (names it).
    """
    temporary = path.with_name(f"{path.name}.part")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            yield file
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        # A full disk is noticed by write(), which does not know the name.
        raise OSError(error.errno, error.strerror, str(path)) from error
