"""Who follows a run besides its records and the console: status file, loggers, callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from yolo_accum.cli.callbacks import checked, open_callbacks
from yolo_accum.config.schema import RunConfig
from yolo_accum.contracts import Observer
from yolo_accum.report.guarded import Guarded
from yolo_accum.report.loggers import open_logger
from yolo_accum.report.status_file import StatusFile


def open_followers(config: RunConfig, objects: Sequence[Observer], tell: Callable[[str], None]) -> list[Guarded]:
    """Make all of them; none of them can end the run.

    Args:
        config: ``log`` and ``callbacks``.
        objects: callbacks that a program made itself.
        tell: is told when one fails.
    Raises:
        UserError: a package is missing, or a callback cannot be used.
    """
    callbacks = [*open_callbacks(config.callbacks)]
    callbacks += [(f"callback {type(item).__name__}", checked(item, f"callback {item!r:.80}")) for item in objects]
    return [
        Guarded("the status file", StatusFile(), tell, with_traceback=False),
        *(Guarded(f"--log {name}", open_logger(name), tell, with_traceback=False) for name in config.log),
        *(Guarded(name, callback, tell, with_traceback=True) for name, callback in callbacks),
    ]
