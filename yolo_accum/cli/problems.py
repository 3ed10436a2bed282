"""Pictures that turn out unreadable while they are used: each is named once, and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from yolo_accum.contracts import Batch


class ProblemReporter:
    """Passes batches on and reports what their pictures lack.

    Args:
        warn: is told one sentence a picture.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._reported: set[str] = set()

    def watch(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches."""
        for batch in batches:
            for problem in batch.problems:
                if problem not in self._reported:
                    self._reported.add(problem)
                    self._warn(f"warning: {problem}; a grey picture takes its place ({len(self._reported)} so far)")
            yield batch
