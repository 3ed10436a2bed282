"""Gathers a run's files into its page. The process that trained may be gone, or still be at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum import __version__
from yolo_accum.cli.page_records import METRICS_FILE, PAGE_FILE, PREDICTIONS_FILE, TRUTH_FILE
from yolo_accum.cli.training.starting import RUN_CARD
from yolo_accum.config.report_arguments import DEFAULT_CONF
from yolo_accum.contracts import DetectionIndex, Detections
from yolo_accum.data.images import read_image
from yolo_accum.errors import UserError
from yolo_accum.metrics.confusion import confusion_matrix
from yolo_accum.metrics.costly_images import costly_images
from yolo_accum.metrics.curves import CONFIDENCES, curves, mean_of_defined
from yolo_accum.metrics.matching import RECALLS, ClassMatches, match
from yolo_accum.metrics.predictions import read_predictions
from yolo_accum.metrics.truth import read_truth
from yolo_accum.report.messages import read_messages
from yolo_accum.report.page_data import data_charts, data_rows
from yolo_accum.report.page_pictures import PagePicture, page_boxes, page_picture
from yolo_accum.report.page_quality import Quality, class_bars
from yolo_accum.report.page_run import (
    Gallery,
    PicturePair,
    RunContent,
    TrainingPicture,
    flat,
    metric_rows,
    write_run_page,
)
from yolo_accum.report.records import read_epochs, read_updates
from yolo_accum.report.run_notes import DATA_FILE, SAMPLES_FILE, STARTUP_FILE, read_note
from yolo_accum.report.status import RunStatus, read_status
from yolo_accum.report.style import shorten

NUM_COSTLY = 24
"""Validation images that are shown for what they cost."""
NUM_FALSE_ALARMS = 12
"""Images without objects that are shown for what was found in them."""
TITLE_LENGTH = 60
_COUNTS = ("images", "boxes", "crowd_regions", "detections", "max_det")
"""Whole numbers in ``metrics.json``."""


def make_run_page(
    folder: Path, out: Path | None = None, *, conf: float = DEFAULT_CONF, tell: Callable[[str], None] = print
) -> Path:
    """Make the page of a run from its files.

    Args:
        folder: of the run, finished or not.
        out: the file to write; ``report.html`` in the folder by default.
        conf: lowest score of a detection in pictures and in the confusion matrix.
        tell: is told of files that cannot be used; the page is made without them.
    Returns:
        the file that was written.
    Raises:
        OSError: it cannot be written.
    """
    reader = _Reader(tell)
    status = read_status(folder)
    settings, class_names = reader.read(folder / STARTUP_FILE, lambda: _startup(folder / STARTUP_FILE), ({}, []))
    metrics = reader.read(folder / METRICS_FILE, lambda: read_note(folder / METRICS_FILE), {}, _draw_metrics)
    measured = reader.read(folder / PREDICTIONS_FILE, lambda: _measured(folder), None)
    quality, costly, false_alarms, text = None, None, None, _why_not_measured(folder)
    if measured is not None:
        index, found = measured
        matches = match(index, found, max_det=metrics.get("max_det", 100))
        quality = _quality(index, found, matches, metrics, conf)
        costly = _costly(index, found, matches, conf)
        false_alarms = _false_alarms(index, found, conf)
        text = _what_was_measured(status, metrics)
    content = RunContent(
        name=folder.resolve().name,
        state=_state(status),
        version=__version__,
        made_at=time.strftime("%Y-%m-%d %H:%M"),
        warnings=[*read_messages(folder), *status.problems, *reader.problems],
        settings=settings,
        card=reader.read(folder / RUN_CARD, lambda: _card(read_note(folder / RUN_CARD)), {}, flat),
        updates=reader.read(folder / "updates.csv", lambda: read_updates(folder), {}),
        epochs=reader.read(folder / "epochs.csv", lambda: read_epochs(folder), {}),
        data=reader.read(folder / DATA_FILE, lambda: read_note(folder / DATA_FILE), {}, _draw_data),
        samples=reader.read(folder / SAMPLES_FILE, lambda: _samples(read_note(folder / SAMPLES_FILE), class_names), []),
        quality=quality,
        quality_text=text,
        costly=costly,
        false_alarms=false_alarms,
    )
    return write_run_page(out or folder / PAGE_FILE, content)


_OTHER_CONTENT = (LookupError, TypeError, ValueError, AttributeError)
"""What comes of using a file that holds something else than a run writes."""


class _Reader:
    """Reads files of which any may be missing or damaged."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self.problems: list[str] = []

    def read(
        self, path: Path, read: Callable[[], Any], otherwise: Any, draw: Callable[[Any], object] | None = None
    ) -> Any:
        """What ``read`` returns, or ``otherwise`` where the file is missing or cannot be used.

        Args:
            draw: tries whether the page can show it.
        """
        if not path.exists():
            return otherwise
        try:
            content = read()
            if draw is not None:
                draw(content)
            return content
        except (UserError, OSError) as error:
            problem = str(error)
        except _OTHER_CONTENT as error:
            problem = f"{path}: not a file that a run has written ({type(error).__name__}: {error})"
        self.problems.append(problem)
        self._tell(f"warning: {problem}; the page is made without it")
        return otherwise


def _startup(path: Path) -> tuple[Mapping[str, str], list[str]]:
    """The start-up table, and the names of the classes."""
    content = read_note(path)
    return dict(content["settings"]), list(content["class_names"])


def _draw_data(splits: Mapping[str, Mapping[str, Any]]) -> None:
    if splits:
        data_charts(splits)
    data_rows(splits)


def _draw_metrics(metrics: Mapping[str, Any]) -> None:
    metric_rows(metrics)
    class_bars(metrics)
    odd = [name for name in _COUNTS if not isinstance(metrics.get(name, 0), int)]
    if odd:
        raise TypeError(f"{odd[0]} is no whole number")


def _measured(folder: Path) -> tuple[DetectionIndex, list[Detections]] | None:
    if not (folder / TRUTH_FILE).is_file():
        return None
    index = read_truth(folder / TRUTH_FILE)
    return index, read_predictions(folder / PREDICTIONS_FILE, index)


def _state(status: RunStatus) -> str:
    epochs = f"{status.epochs_done} of {status.num_epochs}" if status.num_epochs else str(status.epochs_done)
    said = {"running": "In progress", "finished": "Finished", "killed": "Not finished", "unknown": "Not finished"}
    reason = "" if status.state in ("finished", "running") else f": {status.reason}"
    return f"{said.get(status.state, status.state.capitalize())}, {epochs} epochs done{reason}."


def _why_not_measured(folder: Path) -> str:
    if (folder / STARTUP_FILE).is_file() and not (folder / TRUTH_FILE).is_file():
        return "There is no validation split, so nothing was measured."
    return "No epoch has been evaluated yet."


def _what_was_measured(status: RunStatus, metrics: Mapping[str, Any]) -> str:
    weights = "the best weights" if status.state == "finished" else "the best epoch so far"
    epoch = f" (epoch {status.best_epoch + 1})" if status.best_epoch is not None else ""
    counts = f"{metrics['images']:,} images with {metrics['boxes']:,} objects" if "images" in metrics else "the images"
    crowd = f" and {metrics['crowd_regions']} crowd regions" if metrics.get("crowd_regions") else ""
    found = f"; {metrics['detections']:,} detections" if "detections" in metrics else ""
    return f"Measured with {weights}{epoch} on {counts}{crowd} of the validation split{found}."


def _card(card: Mapping[str, Any]) -> dict[str, Any]:
    """What the start-up table and the COCO numbers do not say already."""
    best = {"best epoch": card["best"].get("epoch")} if "best" in card else {}
    return {name: value for name, value in card.items() if name not in ("settings", "best")} | best


def _quality(
    index: DetectionIndex,
    found: Sequence[Detections],
    matches: Sequence[ClassMatches],
    metrics: Mapping[str, Any],
    conf: float,
) -> Quality:
    drawn = curves(matches)

    def with_mean(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, mean_of_defined(values)[None]])

    return Quality(
        metrics=metrics,
        class_names=index.class_names,
        recalls=RECALLS,
        confidences=CONFIDENCES,
        precision_at_recall=with_mean(drawn.precision_at_recall),
        precision=with_mean(drawn.precision),
        recall=with_mean(drawn.recall),
        f1=with_mean(drawn.f1),
        best_confidence=drawn.best_confidence,
        confusion=confusion_matrix(index, found, conf=conf),
        conf=conf,
    )


def _costly(
    index: DetectionIndex, found: Sequence[Detections], matches: Sequence[ClassMatches], conf: float
) -> Gallery:
    costs = costly_images(matches, NUM_COSTLY)
    if not costs:
        return Gallery(intro="No image costs anything: every object is found and nothing else, or there is no object.")
    pairs = [
        _pair(index, found, cost.image, conf, key=f"costly-{place}", detail=f"costs {cost.ap:.4f} AP")
        for place, cost in enumerate(costs, start=1)
    ]
    return Gallery(
        intro=f"The {len(pairs)} validation images that cost the most: AP would be higher by so much if everything in "
        f"the image were found with certainty, and nothing false. Truth beside detections with a score of at least "
        f"{conf:g}; point at a box for its name.",
        pairs=pairs,
    )


def _false_alarms(index: DetectionIndex, found: Sequence[Detections], conf: float) -> Gallery:
    is_empty = np.diff(index.box_starts) == 0
    best = {item.image_index: float(item.scores.max(initial=0)) for item in found if is_empty[item.image_index]}
    alarmed = sorted((row for row, score in best.items() if score >= conf), key=lambda row: -best[row])
    if not is_empty.any():
        return Gallery(intro="Every validation image has objects.")
    count = int(is_empty.sum())
    intro = (
        f"{len(alarmed)} of {count} validation images without objects have detections with a score of at least {conf:g}"
    )
    if len(alarmed) > NUM_FALSE_ALARMS:
        intro += f"; the {NUM_FALSE_ALARMS} with the surest ones are shown"
    pairs = [
        _pair(index, found, row, conf, key=f"alarm-{place}", detail=f"score {best[row]:.2f}")
        for place, row in enumerate(alarmed[:NUM_FALSE_ALARMS], start=1)
    ]
    return Gallery(intro=f"{intro}.", pairs=pairs)


def _pair(
    index: DetectionIndex, found: Sequence[Detections], row: int, conf: float, *, key: str, detail: str
) -> PicturePair:
    picture, remark = _picture(index, row)
    rows = index.rows(row)
    objects = ~index.is_crowd[rows]
    mine = next((item for item in found if item.image_index == row), None)
    shown = mine.scores >= conf if mine is not None else np.zeros(0, dtype=bool)
    num_hidden = len(shown) - int(shown.sum())
    return PicturePair(
        key=key,
        title=f"{shorten(str(index.image_ids[row]), TITLE_LENGTH)}: {detail}{remark}",
        left_text=f"truth: {int(objects.sum())} objects",
        right_text=f"found: {int(shown.sum())}, and {num_hidden} below {conf:g}",
        picture=picture,
        truth=page_boxes(
            picture.scale, index.boxes_xyxy_px[rows][objects], index.labels[rows][objects], index.class_names
        ),
        found=page_boxes(
            picture.scale, mine.boxes_xyxy_px[shown], mine.labels[shown], index.class_names, mine.scores[shown]
        )
        if mine is not None
        else [],
    )


def _picture(index: DetectionIndex, row: int) -> tuple[PagePicture, str]:
    """The picture, or a grey one where its file is not there any more, with a remark."""
    path = index.image_paths[row]
    try:
        return page_picture(read_image(path)), ""
    except UserError:
        height, width = int(index.heights_px[row]), int(index.widths_px[row])
        return page_picture(np.full((height, width, 3), 160, dtype=np.uint8)), "; its file cannot be read"


def _samples(records: Sequence[Mapping[str, Any]], class_names: Sequence[str]) -> list[TrainingPicture]:
    samples = []
    for record in records:
        boxes = np.array(record["boxes_xyxy_px"], dtype=float).reshape(-1, 4)
        labels = np.array(record["labels"], dtype=np.int64)
        unnamed = range(len(class_names), labels.max(initial=-1) + 1)
        names = [*class_names, *(f"class {label}" for label in unnamed)]
        picture = PagePicture(
            uri=f"data:image/jpeg;base64,{record['jpeg']}", width=record["width"], height=record["height"], scale=1.0
        )
        samples.append(
            TrainingPicture(picture=picture, boxes=page_boxes(1.0, boxes, labels, names), text=f"{len(labels)} objects")
        )
    return samples
