"""Every picture decoded once, in worker processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import cv2
import numpy as np

from yolo_accum.data.check.fingerprints import Fingerprints
from yolo_accum.data.images import UnreadableImageError, read_working_image
from yolo_accum.errors import TrainingError

PICTURES_PER_TASK = 16
TASKS_AHEAD = 4
"""Tasks that wait for every worker, so that none runs dry and 100,000 of them do not fill the memory."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PicturePass:
    """What decoding n pictures showed."""

    problems: dict[int, str]
    """Number of the picture -> one sentence, for those that cannot be used."""
    prints: Fingerprints
    """Of all n; those of pictures with a problem say nothing."""


def decode_pictures(
    paths: Sequence[str],
    widths_px: np.ndarray,
    heights_px: np.ndarray,
    *,
    size_px: int,
    workers: int,
    progress: Callable[[int], None],
) -> PicturePass:
    """Decodes pictures as a training would, tells which cannot be, and takes the fingerprints of the others.

    Args:
        paths: n files.
        widths_px: [n], as the index knows them.
        heights_px: [n].
        size_px: side of the network input.
        workers: processes; 0 decodes in this one.
        progress: is told how many pictures are done.
    Raises:
        TrainingError: a worker was killed, by a lack of memory or a picture that breaks the decoder.
    """
    starts = range(0, len(paths), PICTURES_PER_TASK)
    tasks = (
        (
            start,
            [paths[number] for number in range(start, min(start + PICTURES_PER_TASK, len(paths)))],
            widths_px[start : start + PICTURES_PER_TASK],
            heights_px[start : start + PICTURES_PER_TASK],
            size_px,
        )
        for start in starts
    )
    problems: dict[int, str] = {}
    prints = Fingerprints.empty(len(paths))
    done = 0
    for start, sentences, some_prints in _results(tasks, workers):
        problems.update({start + place: text for place, text in enumerate(sentences) if text is not None})
        prints.put(start, some_prints)
        done += len(sentences)
        progress(done)
    return PicturePass(problems=dict(sorted(problems.items())), prints=prints)


_Task = tuple[int, list[str], np.ndarray, np.ndarray, int]
_Result = tuple[int, list[str | None], Fingerprints]


def _decode_some(task: _Task) -> _Result:
    start, paths, widths_px, heights_px, size_px = task
    prints = Fingerprints.empty(len(paths))
    sentences: list[str | None] = [None] * len(paths)
    for row, (path, width_px, height_px) in enumerate(zip(paths, widths_px, heights_px, strict=True)):
        try:
            image = read_working_image(path, int(width_px), int(height_px), size_px)
            prints.put_picture(row, image, Path(path).read_bytes())
        except (UnreadableImageError, OSError) as error:
            sentences[row] = str(error)
    return start, sentences, prints


def _results(tasks: Iterator[_Task], workers: int) -> Iterator[_Result]:
    """Results as they come, in any order, with a bounded number of tasks on their way."""
    if not workers:
        yield from map(_decode_some, tasks)
        return
    # Forked where that is possible: a fresh interpreter would first load torch for seconds.
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    context = multiprocessing.get_context(method)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker)
    try:
        waiting: set[Future[_Result]] = {
            pool.submit(_decode_some, task) for task in islice(tasks, workers * TASKS_AHEAD)
        }
        while waiting:
            ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            waiting |= {pool.submit(_decode_some, task) for task in islice(tasks, len(ready))}
            yield from (future.result() for future in ready)
    except BrokenProcessPool as error:
        raise TrainingError(
            "a process that decodes pictures was killed, by a lack of memory or by a picture that breaks the decoder; "
            "--workers 1 needs less memory, --no-pictures decodes none"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    """One thread a worker; interruptions are the main process's business."""
    cv2.setNumThreads(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
