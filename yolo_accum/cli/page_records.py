"""What `train` writes for the page of its run, while it runs: nothing that the page shows hangs on this process."""

from __future__ import annotations

from pathlib import Path

from yolo_accum.cli.output import write_json
from yolo_accum.contracts import Batch, DetectionIndex, EpochRecord, Observer, RunEnded, RunStarted
from yolo_accum.metrics.evaluate import Evaluation
from yolo_accum.metrics.predictions import write_predictions
from yolo_accum.metrics.truth import write_truth
from yolo_accum.report.messages import MessageLog
from yolo_accum.report.page_data import data_record
from yolo_accum.report.run_notes import DATA_FILE, SAMPLES_FILE, STARTUP_FILE, sample_records, write_note

TRUTH_FILE = "truth.json"
PREDICTIONS_FILE = "predictions.json"
METRICS_FILE = "metrics.json"
PAGE_FILE = "report.html"


class PageRecords(Observer):
    """Start-up table, figures and truth of the data; and, whenever an epoch is the best so far, what it found.

    Args:
        train: the training split.
        val: the validation split, if there is one.
        imgsz: side of the network input in pixels.
        messages: where the last word of a run is kept.
    """

    def __init__(self, train: DetectionIndex, val: DetectionIndex | None, imgsz: int, messages: MessageLog) -> None:
        self._splits = {"train": train} | ({"val": val} if val is not None else {})
        self._imgsz = imgsz
        self._messages = messages
        self._folder = Path()
        self.evaluation: Evaluation | None = None
        """The last one; whoever evaluates puts it here."""

    def on_run_start(self, event: RunStarted) -> None:
        """Write what is known before the first update.

        Raises:
            OSError: a file cannot be written, here and below (names it).
        """
        self._folder = event.folder
        train = self._splits["train"]
        startup = {"settings": dict(event.settings), "class_names": train.class_names, "num_epochs": event.num_epochs}
        write_note(event.folder / STARTUP_FILE, startup)
        write_json(
            event.folder / DATA_FILE, {name: data_record(index, self._imgsz) for name, index in self._splits.items()}
        )
        if "val" in self._splits:
            write_truth(event.folder / TRUTH_FILE, self._splits["val"])

    def on_epoch(self, record: EpochRecord) -> None:
        """Keep what the best epoch so far found."""
        if record.is_best and record.metrics and self.evaluation is not None:
            write_evaluation(self._folder, self._splits["val"], self.evaluation)

    def on_run_end(self, event: RunEnded) -> None:
        """Keep why it ended before its time."""
        if event.outcome != "finished":
            self._messages(f"{'interrupted' if event.outcome == 'interrupted' else 'error'}: {event.message}")

    def keep_samples(self, batches: list[Batch]) -> None:
        """Write the first training pictures."""
        write_note(self._folder / SAMPLES_FILE, sample_records(batches))


def write_evaluation(folder: Path, index: DetectionIndex, evaluation: Evaluation) -> None:
    """Predictions and metrics of one evaluation.

    Raises:
        OSError: a file cannot be written (names it).
    """
    write_predictions(folder / PREDICTIONS_FILE, index, evaluation.detections)
    write_json(folder / METRICS_FILE, evaluation.metrics.to_json())
