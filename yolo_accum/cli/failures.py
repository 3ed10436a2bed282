"""What a person is told when a verb fails, and with which exit code: the one place that decides this."""

from __future__ import annotations

import signal

from yolo_accum.errors import Interrupted, TrainingError, UserError

DONE = 0
CHECK_FAILED = 1
BAD_INPUT = 2
FAILED = 3
BROKEN_PIPE = 128 + 13
"""As the shell reports a program that SIGPIPE ended."""

_UNUSABLE_FILE = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)


def exit_code(error: BaseException) -> int:
    """The exit code of a program that ends with ``error``, as ``describe_failure`` has it."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else DONE
    return BROKEN_PIPE if isinstance(error, BrokenPipeError) else describe_failure(error)[0]


def describe_failure(error: BaseException) -> tuple[int, str]:
    """Exit code and one sentence for what went wrong.

    Codes: 2 bad input, 3 training failed or the program did, 130 and 143 interrupted by SIGINT and SIGTERM.
    """
    if isinstance(error, UserError):
        return BAD_INPUT, f"error: {error}"
    if isinstance(error, TrainingError):
        return FAILED, f"error: {error}"
    if isinstance(error, Interrupted):
        return 128 + error.signal_number, f"interrupted: {error}"
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT, "interrupted"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error):
        # torch's own class by name, and its CPU allocator by what it says: verbs without torch must not load it.
        first_line = (str(error) or "memory ran out").splitlines()[0]
        return FAILED, f"error: {first_line} (a smaller --batch needs less; the images per update stay those of --nbs)"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        code = BAD_INPUT if isinstance(error, _UNUSABLE_FILE) else FAILED
        return code, f"error: {where}{error.strerror or error}"
    kind = type(error).__name__
    return FAILED, f"error: this is a bug, {kind}: {' '.join(str(error).split())} (--debug shows where it happened)"
