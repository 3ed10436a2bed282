"""Event files for TensorBoard: ``tensorboard --logdir RUN/tensorboard``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2

from yolo_accum.contracts import RunEnded, RunStarted
from yolo_accum.report.log_values import card_rows, final_values, logger_package, pictures

FLUSH_S = 10
"""After so long, what was recorded can be seen."""


class TensorBoardFiles:
    """Two series of events, as TensorBoard knows one axis of counts only: by update, and by images seen.

    Raises:
        UserError: the package is not installed.
    """

    def __init__(self) -> None:
        self._package = logger_package("torch.utils.tensorboard", "tensorboard")
        self._by_update: Any = None
        self._by_images: Any = None

    def open(self, event: RunStarted) -> None:
        """Events after the checkpoint that the run goes on from are void."""
        folder = event.folder / "tensorboard"
        self._by_update = self._writer(folder / "by update", event.updates_applied)
        self._by_images = self._writer(folder / "by images seen", event.images_seen)
        self._by_update.add_text("options", _table({name: str(value) for name, value in event.config.items()}))
        self._by_update.add_text("settings", _table(event.settings))

    def _writer(self, folder: Path, last_valid: int) -> Any:
        purge = last_valid + 1 if last_valid else None
        return self._package.SummaryWriter(str(folder), purge_step=purge, flush_secs=FLUSH_S)

    def log(self, values: Mapping[str, float], *, update: int, images_seen: int) -> None:
        """The second series has names of its own, so that no chart mixes both axes."""
        for name, value in values.items():
            group, _, rest = name.partition("/")
            self._by_update.add_scalar(name, value, update)
            self._by_images.add_scalar(f"{group} by images seen/{rest}", value, images_seen)

    def close(self, event: RunEnded) -> None:
        """Pictures and run card, at the last update."""
        last = event.counters.get("updates_applied", 0)
        for name, value in final_values(event).items():
            self._by_update.add_scalar(name, value, last)
        for name, path in pictures(event).items():
            picture = cv2.imread(str(path), cv2.IMREAD_COLOR_RGB)
            self._by_update.add_image(name, picture, last, dataformats="HWC")
        self._by_update.add_text("run card", _table(card_rows(event)), last)
        self._by_update.close()
        self._by_images.close()


def _table(rows: Mapping[str, str]) -> str:
    """Markdown; a bar within a text would end its cell."""
    lines = [f"| {label} | {text.replace('|', '&#124;')} |" for label, text in rows.items()]
    return "\n".join(["| | |", "|---|---|", *lines])
