"""The two kinds of failure that a person is told about in one sentence."""


class UserError(ValueError):
    """The input (an option, a file, a data set, weights) cannot be used. The command line exits with code 2.

    The message names the culprit (option, file, line or id) and says what is allowed.
    """


class TrainingError(RuntimeError):
    """Training started and could not go on. The command line exits with code 3.

    The message says what happened, where, and which checkpoint is the last good one.
    """
