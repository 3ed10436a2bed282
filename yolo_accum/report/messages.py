"""What a person was told during a run, kept in its folder."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path

MESSAGES_FILE = "messages.jsonl"
TOLD = ("warning:", "notice:", "error:", "interrupted:")
"""How the messages begin that people should see again."""


class MessageLog:
    """Keeps what a person was told, in ``messages.jsonl`` as soon as there is a run folder.

    Args:
        clock: seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._path: Path | None = None
        self._early: list[str] = []

    def __call__(self, message: str) -> None:
        """Keep a message if it begins with one of `TOLD`. One that cannot be written does not end the run."""
        if message.startswith(TOLD):
            line = json.dumps({"time": round(self._clock(), 1), "text": message}) + "\n"
            if self._path is None:
                self._early.append(line)
            else:
                with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as file:
                    file.write(line)

    def open(self, folder: Path) -> None:
        """From now on the messages belong to the run of this folder, those so far included.

        Raises:
            OSError: the file cannot be written.
        """
        self._path = folder / MESSAGES_FILE
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(self._early)
        self._early = []


def read_messages(folder: Path) -> list[str]:
    """The messages of a run in order, each once with how often it came; a last line cut short is left out."""
    path = folder / MESSAGES_FILE
    if not path.is_file():
        return []
    counts: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            text = str(json.loads(line)["text"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        counts[text] = counts.get(text, 0) + 1
    return [text if number == 1 else f"{text} ({number} times)" for text, number in counts.items()]
