"""A run folder from its first file to its last: training, final evaluation, pictures, run card, page."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from yolo_accum.cli.evaluation import SplitEvaluator
from yolo_accum.cli.norms import estimate_statistics
from yolo_accum.cli.output import write_json
from yolo_accum.cli.page_records import (
    METRICS_FILE,
    PAGE_FILE,
    PREDICTIONS_FILE,
    PageRecords,
    write_evaluation,
)
from yolo_accum.cli.problems import ProblemReporter
from yolo_accum.cli.run_page import make_run_page
from yolo_accum.cli.training.build import Training
from yolo_accum.cli.training.events import run_ended, run_started, switched_off
from yolo_accum.cli.training.starting import RUN_CARD, Start
from yolo_accum.cli.training.startup import counters_text, startup_notices, startup_rows
from yolo_accum.cli.wiring import environment
from yolo_accum.config.load import to_mapping, to_yaml
from yolo_accum.contracts import Batch, DetectionIndex, Observer
from yolo_accum.data.dataset import AugmentationError
from yolo_accum.data.images import read_image
from yolo_accum.engine.checkpoint import read_checkpoint, save_checkpoint
from yolo_accum.engine.gradient_files import GradientFiles
from yolo_accum.engine.interrupt import StopRequest
from yolo_accum.engine.trainer import Trainer, TrainingResult
from yolo_accum.errors import TrainingError, UserError
from yolo_accum.metrics.evaluate import Evaluation
from yolo_accum.model.weights import load_weights, read_weights
from yolo_accum.report.console import Console
from yolo_accum.report.guarded import Guarded
from yolo_accum.report.plots import plot_batches, plot_labels, plot_results, plot_val_predictions
from yolo_accum.report.records import CsvRecords

NUM_PICTURED_BATCHES = 2
"""Training batches that are drawn with their boxes."""
FILES = {
    "best": "weights/best.pt",
    "last": "weights/last.pt",
    "config": "config.yaml",
    "updates": "updates.csv",
    "epochs": "epochs.csv",
    "metrics": METRICS_FILE,
    "predictions": PREDICTIONS_FILE,
    "card": RUN_CARD,
    "results": "results.png",
    "labels": "labels.png",
    "train_batch": "train_batch.png",
    "val_predictions": "val_predictions.png",
    "report": PAGE_FILE,
}
"""What a run folder holds."""


class TrainingRun:
    """A run folder from its first file to its last."""

    def __init__(
        self,
        training: Training,
        evaluator: SplitEvaluator | None,
        folder: Path,
        start: Start,
        console: Console,
        followers: Sequence[Observer],
    ) -> None:
        self.training = training
        self.evaluator = evaluator
        self.folder = folder
        self.checkpoint = start.checkpoint
        self.console = console
        self.page = PageRecords(
            training.index, evaluator.index if evaluator else None, training.config.data.imgsz, console.messages
        )
        keeper = Guarded("what report.html is made of", self.page, console.on_message, with_traceback=False)
        self.followers = [keeper, *followers]
        self.replicas = training.loop.stepper.replicas
        self.plots = training.config.run.plots and self.replicas.is_first

    def carry_out(self) -> Mapping[str, Any]:
        """Head of the folder, training, final evaluation, pictures, run card."""
        records = CsvRecords(self.folder)
        observers = [records, self.console, *self.followers]
        trainer = self._trainer(observers)
        if self.checkpoint is not None:  # before anything in the folder is written anew: it may be refused
            updates, epochs = trainer.state.clock.updates_attempted, trainer.progress.epochs_done
            records.truncate_after(updates=updates, epochs=epochs)
        (self.folder / "weights").mkdir(exist_ok=True)
        self.console.messages.open(self.folder)
        self.training.loop.keeper = GradientFiles(self.folder, self.training.config.run.gradient_updates).keeper
        (self.folder / FILES["config"]).write_text(to_yaml(self.training.config), encoding="utf-8")
        rows = {"run folder": str(self.folder), **startup_rows(self.training)}
        self.console.startup_table(rows)
        for notice in startup_notices(self.training):
            self.console.on_message(f"notice: {notice}")
        if self.evaluator is None:
            self.console.on_message("notice: there is no validation split, so the last epoch counts as the best")
        started = run_started(self.training, trainer, self.folder, rows)
        for observer in observers:
            observer.on_run_start(started)
        try:
            card = self._follow_through(trainer, rows)
        except BaseException as error:
            ended = run_ended(trainer, self._files(), error=error)
            for observer in observers:
                observer.on_run_end(ended)
            if ended.outcome == "failed":
                self._make_page()
            raise
        ended = run_ended(trainer, self._files(), card=card)
        for observer in observers:
            observer.on_run_end(ended)
        self._make_page()
        told = {name: card[name] for name in ("best", "counters", "epochs", "stopped_early", "peaks")}
        files = {name: str(path) for name, path in self._files().items()}
        return {"run": str(self.folder), **told, "switched_off": switched_off(self.followers), "files": files}

    def _follow_through(self, trainer: Trainer, startup: Mapping[str, str]) -> Mapping[str, Any]:
        """From the first window to the run card, which is returned."""
        if self.plots:
            plot_labels(self.training.index, self.folder / FILES["labels"], self.training.config.data.imgsz)
        result = self._train(trainer)
        evaluation = self._evaluate_best()
        if evaluation is not None and self.evaluator is not None:
            self._write(evaluation, self.evaluator.index)
        if self.plots:
            plot_results(self.folder)
        return self._close(startup, result, evaluation)

    def _make_page(self) -> None:
        """Write ``report.html``; a run that is over is not lost by a fault in its page."""
        if self.plots:
            try:
                path = make_run_page(self.folder, tell=self.console.on_message)
                self.console.on_message(f"report: {path}")
            except Exception as error:
                self.console.warn(
                    f"warning: {PAGE_FILE} cannot be made ({type(error).__name__}: {error}); all else of the run "
                    f"is there, and yolo-accum report {self.folder} tries again"
                )

    def _files(self) -> dict[str, Path]:
        """What the run folder holds by now."""
        return {name: self.folder / file for name, file in FILES.items() if (self.folder / file).exists()}

    def take_part(self) -> Mapping[str, Any]:
        """The work of a replica that writes nothing: training and its share of the evaluations."""
        self._train(self._trainer([self.console]))
        self._evaluate_best()
        return {}

    def _trainer(self, observers: Sequence[Observer]) -> Trainer:
        """At the start of the run, or where its checkpoint was written.

        Raises:
            UserError: the state in the checkpoint is not complete.
        """
        trainer = self.training.trainer(
            weights_folder=self.folder / "weights",
            validate=self._validate if self.evaluator is not None else None,
            observers=observers,
            description={"config": to_mapping(self.training.config)},
        )
        if self.checkpoint is not None:
            try:
                trainer.load(self.checkpoint)
            except (KeyError, TypeError, ValueError) as error:
                raise UserError(f"{trainer.last_path} is damaged: its state does not fit this run ({error})") from error
        return trainer

    def _train(self, trainer: Trainer) -> TrainingResult:
        if self.checkpoint is not None:
            updates = trainer.state.clock.updates_attempted
            self.console.on_message(
                f"going on after update {updates}, in epoch {self.checkpoint['next_epoch'] + 1} after "
                f"{self.checkpoint['next_position']} images"
            )
        batches = self._watched(self.training.batches())
        try:
            result = trainer.run(batches)
        except AugmentationError as error:
            raise TrainingError(f"{error}; {_last_good(trainer)}") from error
        except OSError as error:
            raise TrainingError(
                f"{error.filename or self.folder}: {error.strerror or error}; {_last_good(trainer)}"
            ) from error
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise TrainingError(
                f"a loader process was killed, most often because memory ran out; fewer --workers than "
                f"{self.training.workers} need less; {_last_good(trainer)}"
            ) from error
        with StopRequest() as stop:  # Python drops what is raised while the loader is taken down
            batches.close()
        stop.check(f"stopped before the final evaluation; {_last_good(trainer)}")
        if result.stopped_early:
            patience = self.training.config.run.patience
            self.console.on_message(f"ended after epoch {result.epochs_done}: no better AP for {patience} epochs")
        return result

    def _validate(self, model: nn.Module, epoch: int) -> Mapping[str, float]:
        assert self.evaluator is not None
        with self.console.progress(f"evaluation {epoch + 1}", self.evaluator.num_images) as progress:
            self.page.evaluation = self.evaluator(model, progress)
        return self.page.evaluation.metrics.defined()

    def _watched(self, batches: Iterable[Batch]) -> Generator[Batch, None, None]:
        """The same batches; the first are drawn, and pictures that could not be read are reported once each."""
        pictured: list[Batch] = []
        num_pictured = min(NUM_PICTURED_BATCHES, self.training.plan.num_micro_batches)
        for batch in ProblemReporter(self.console.warn).watch(batches):
            if self.plots and self.checkpoint is None and len(pictured) < num_pictured:
                pictured.append(batch)
                if len(pictured) == num_pictured:
                    plot_batches(pictured, self.training.index.class_names, self.folder / FILES["train_batch"])
                    self.page.keep_samples(pictured)
            yield batch

    def _evaluate_best(self) -> Evaluation | None:
        """Measure the file ``best.pt`` itself, so that the final numbers are those of the weights a person gets."""
        best = self.replicas.decide(lambda: read_weights(self.folder / FILES["best"]))
        load_weights(self.training.model, best, self.training.index.class_names)
        if self.training.config.norm.precise_bn:
            self._estimate_statistics()
        if self.evaluator is None:
            return None
        with self.console.progress("evaluation of the best weights", self.evaluator.num_images) as progress:
            return self.evaluator(self.training.model, progress)

    def _estimate_statistics(self) -> None:
        """Measure the running statistics of the best weights anew, also in their file."""
        training, path = self.training, self.folder / FILES["best"]
        estimate_statistics(training.model, training.config, training.dataset)
        if self.replicas.is_first:
            content = read_checkpoint(path)
            save_checkpoint({**content, "model": training.model.state_dict()}, path)
        num_images = min(training.config.norm.precise_bn, len(training.index))
        before = self.replicas.decide(lambda: read_checkpoint(path)["progress"]["best_metrics"].get("AP"))
        with_ap = f"; AP before: {before:.4f}" if before is not None else ""
        self.console.on_message(f"running statistics of the best weights measured on {num_images} images{with_ap}")

    def _write(self, evaluation: Evaluation, index: DetectionIndex) -> None:
        """What the evaluation of the best weights found, for people and programs."""
        write_evaluation(self.folder, index, evaluation)
        if self.plots:
            picture = self.folder / FILES["val_predictions"]
            plot_val_predictions(index, evaluation.detections, picture, read_image=read_image)

    def _close(
        self, startup: Mapping[str, str], result: TrainingResult, evaluation: Evaluation | None
    ) -> Mapping[str, Any]:
        """Metrics table and run card, for people and as a file; returns the card."""
        metrics = evaluation.metrics if evaluation is not None else None
        peaks = {"memory_mib": round(result.peak_memory_mib, 1), "images_per_s": round(result.images_per_s, 2)}
        counters = result.clock.as_dict()
        failed = switched_off(self.followers)
        card = {
            "settings": startup,
            "counters": counters,
            "epochs": result.epochs_done,
            "stopped_early": result.stopped_early,
            "peaks": peaks,
            "best": {"epoch": result.best_epoch + 1, **(metrics.to_json() if metrics is not None else {})},
            "switched_off": failed,
            "train_s": round(result.train_s, 1),
            "environment": environment(self.training.device),
        }
        write_json(self.folder / FILES["card"], card)
        if metrics is not None:
            self.console.metrics_table(
                metrics.values, [(item.name, item.num_boxes, item.ap, item.ap50) for item in metrics.per_class]
            )
        self.console.run_card(
            {
                **startup,
                "counters": counters_text(counters),
                "epochs": f"{result.epochs_done}, the best is number {result.best_epoch + 1}",
                "time": f"{result.train_s / 60:.1f} min, {peaks['images_per_s']} images/s in training",
                "peak memory": f"{peaks['memory_mib']:.0f} MiB",
                **({"switched off": ", ".join(item["name"] for item in failed)} if failed else {}),
                **{FILES[name]: str(path) for name, path in self._files().items()},
            }
        )
        return card


def _last_good(trainer: Trainer) -> str:
    there = trainer.last_path.is_file()
    return f"the last good checkpoint is {trainer.last_path}" if there else "nothing was saved yet"
