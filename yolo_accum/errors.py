"""The kinds of failure that a person is told about in one sentence, and what makes such a sentence printable."""


def printable(text: str) -> str:
    """Text that can be written as UTF-8: the bytes of a file name that are none become escapes (as JSON has them)."""
    return text.encode("utf-8", "backslashreplace").decode()


class UserError(ValueError):
    """The input (an option, a file, a data set, weights) cannot be used. The command line exits with code 2.

    The message names the culprit (option, file, line or id) and says what is allowed.
    """


class TrainingError(RuntimeError):
    """Training started and could not go on. The command line exits with code 3.

    The message says what happened, where, and which checkpoint is the last good one.
    """


class Interrupted(Exception):  # noqa: N818 - a request, not an error
    """Somebody asked the run to end; it did so at a window's end, with its state saved.

    Args:
        signal_number: SIGINT or SIGTERM; the command line exits with 128 + this number.
        message: where the state lies and how to go on.
    """

    def __init__(self, signal_number: int, message: str) -> None:
        super().__init__(message)
        self.signal_number = signal_number
