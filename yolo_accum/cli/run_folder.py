"""Where the files of a run go."""

from __future__ import annotations

from pathlib import Path

from yolo_accum.config.schema import RunConfig
from yolo_accum.errors import UserError


def make_run_folder(config: RunConfig) -> Path:
    """A new folder ``project/name``, with a number behind the name when that exists.

    Raises:
        UserError: it cannot be made.
    """
    number = 1
    while True:
        folder = Path(config.project) / (config.name if number == 1 else f"{config.name}{number}")
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError as error:
            if not Path(config.project).is_dir():
                raise UserError(f"--project {config.project} is a file; a folder is needed") from error
            number += 1
        except OSError as error:
            raise UserError(f"--project {config.project}: cannot make {folder}: {error.strerror}") from error
