"""`train`: train or fine-tune a detector, with the window of micro-batches as the unit of everything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from yolo_accum.cli.evaluation import SplitEvaluator, default_val_batch
from yolo_accum.cli.failures import DONE, FAILED, exit_code
from yolo_accum.cli.norms import estimate_statistics
from yolo_accum.cli.opening import embedded_data
from yolo_accum.cli.output import write_json
from yolo_accum.cli.plan_memory import measure_memory
from yolo_accum.cli.problems import ProblemReporter
from yolo_accum.cli.startup import counters_text, startup_notices, startup_rows
from yolo_accum.cli.training import Training, build_training, images_digest
from yolo_accum.cli.wiring import (
    absolute_paths,
    environment,
    make_run_folder,
    named_devices,
)
from yolo_accum.config.arguments import TrainArguments, parse_train
from yolo_accum.config.load import from_mapping, to_mapping, to_yaml
from yolo_accum.config.schema import TrainConfig
from yolo_accum.contracts import Batch, DetectionIndex, Observer
from yolo_accum.data.augment import Photometric
from yolo_accum.data.description import DataSplits, open_data
from yolo_accum.data.images import read_image
from yolo_accum.engine.checkpoint import RUN_STATE, read_checkpoint, save_checkpoint
from yolo_accum.engine.distributed import Replicas, join_replicas, launch_replicas, replicas_in_environment
from yolo_accum.engine.trainer import Trainer, TrainingResult
from yolo_accum.errors import TrainingError, UserError
from yolo_accum.metrics.evaluate import Evaluation
from yolo_accum.metrics.predictions import write_predictions
from yolo_accum.model.weights import load_weights, read_weights
from yolo_accum.report.console import Console
from yolo_accum.report.plots import plot_batches, plot_labels, plot_results, plot_val_predictions
from yolo_accum.report.records import CsvRecords

CHANGEABLE_ON_RESUME = frozenset(
    {"batch", "memory", "workers", "device", "threads", "val_batch", "checkpoint_activations"}
    | {"data", "val_data", "images", "val_images", "save_minutes", "plots"}
)
"""How the work is cut and where the data lie; anything else would make it another run."""
NUM_PICTURED_BATCHES = 2
"""Training batches that are drawn with their boxes."""
FILES = {
    "best": "weights/best.pt",
    "last": "weights/last.pt",
    "config": "config.yaml",
    "updates": "updates.csv",
    "epochs": "epochs.csv",
    "metrics": "metrics.json",
    "predictions": "predictions.json",
    "card": "run_card.json",
    "results": "results.png",
    "labels": "labels.png",
    "train_batch": "train_batch.png",
    "val_predictions": "val_predictions.png",
}
"""What a run folder holds."""


@dataclass(frozen=True, kw_only=True)
class _Start:
    """A new run, or one to go on with."""

    config: TrainConfig
    folder: Path | None = None
    """Of the run to go on with."""
    checkpoint: Mapping[str, Any] | None = None


def run(argv: Sequence[str]) -> int | Mapping[str, Any]:
    """Train as the options say; returns the run folder, the best metrics, the counters and the files.

    Several devices mean a replica each: this process then only starts them and returns their exit code. Every
    replica comes here, too; all but the first return the exit code alone.
    """
    arguments = parse_train(argv)
    if replicas_in_environment().size == 1:
        num_devices = len(named_devices(_start(arguments).config.run.device))
        if num_devices > 1:
            return launch_replicas(num_devices, ["train", *argv], failed=FAILED)
    with (
        join_replicas(exit_code) as replicas,
        Console(as_json=arguments.json, quiet=not replicas.is_first) as console,
    ):
        result = _train(arguments, replicas, console)
    return result if replicas.is_first else DONE


def _train(arguments: TrainArguments, replicas: Replicas, console: Console) -> Mapping[str, Any]:
    """What every replica does; the result is complete on the first one."""
    if arguments.recipe is not None:
        console.on_message(f"recipe {arguments.recipe}: its options apply where the command line says nothing")
    start = replicas.decide(lambda: _start(arguments))
    splits = _open_data(start, replicas, console)
    start = replace(start, config=absolute_paths(start.config))
    if start.config.accumulation.batch == "auto":
        start = replace(start, config=_with_batch(start.config, splits.train, replicas, console))
    strength = start.config.augment.photometric
    training = build_training(
        start.config,
        splits.train,
        checkpoint=start.checkpoint,
        photometric=Photometric(strength) if strength else None,
        replicas=replicas,
    )
    if training.summary is not None:
        console.on_message(str(training.summary))
    evaluator = _evaluator(training, splits, console)
    folder = start.folder or replicas.decide(lambda: make_run_folder(start.config.run))
    run = _Run(training, evaluator, folder, start, console)
    return run.carry_out() if replicas.is_first else run.take_part()


def _with_batch(config: TrainConfig, index: DetectionIndex, replicas: Replicas, console: Console) -> TrainConfig:
    """The same with the micro-batch that the memory holds in place of ``--batch auto``.

    Raises:
        UserError: not even the smallest fits.
    """

    def choose() -> tuple[int, str]:
        recompute = config.model.checkpoint_activations
        report = measure_memory(config, index, replicas.size, replicas, modes=(recompute,))
        batch = report.batch(recompute)
        return batch, report.sentence(batch, recompute)

    batch, sentence = replicas.decide(choose)
    console.on_message(sentence)
    return replace(config, accumulation=replace(config.accumulation, batch=batch))


def _start(arguments: TrainArguments) -> _Start:
    """What is asked for: a new run, or one to go on with."""
    return _resumed(arguments) if arguments.resume is not None else _Start(config=arguments.config)


def _resumed(arguments: TrainArguments) -> _Start:
    """The run to go on with; what may be changed comes from the command line."""
    folder = Path(str(arguments.resume))
    if folder.suffix == ".pt":  # its checkpoint says just as clearly which run is meant
        folder = folder.parent.parent
    last = folder / "weights" / "last.pt"
    if not folder.is_dir():
        raise UserError(f"--resume {arguments.resume}: no such run folder")
    refused = sorted(arguments.explicit - CHANGEABLE_ON_RESUME)
    if refused:
        allowed = ", ".join("--" + name.replace("_", "-") for name in sorted(CHANGEABLE_ON_RESUME))
        raise UserError(
            f"--{refused[0].replace('_', '-')} cannot be changed when a run is resumed, only {allowed}; "
            f"for another course start a new run from its weights: yolo-accum train --weights {last} ..."
        )
    checkpoint = read_checkpoint(last, RUN_STATE)
    if checkpoint["progress"].get("finished") and (folder / FILES["card"]).is_file():
        raise UserError(
            f"--resume {arguments.resume}: this run is finished after {checkpoint['progress']['epochs_done']} epochs; "
            f"to train on, start a new run from its weights: yolo-accum train --weights {last} --epochs N ..."
        )
    config = from_mapping({**checkpoint["config"], **arguments.given}, str(last))
    return _Start(config=config, folder=folder, checkpoint=checkpoint)


def _open_data(start: _Start, replicas: Replicas, console: Console) -> DataSplits:
    """Read the data set (drawing the embedded one if it is missing) and say what was found."""
    default = replicas.decide(lambda: embedded_data(console)) if start.config.data.data is None else None
    splits = open_data(start.config.data, default_data=default)
    for finding in splits.findings:
        console.on_message(f"{finding.kind.severity}: {finding}")
    checkpoint, train = start.checkpoint, splits.train
    if checkpoint is not None and list(checkpoint["class_names"]) != list(train.class_names):
        raise UserError(
            f"--resume: {train.source} has the classes {', '.join(train.class_names)}, the run was started with "
            f"{', '.join(checkpoint['class_names'])}"
        )
    if checkpoint is not None and checkpoint["images_digest"] != images_digest(train):
        raise UserError(
            f"--resume: the images of {train.source} ({len(train)} now) are not those that the run was started with, "
            "or stand in another order, so it cannot go on where it was; start a new run from its weights"
        )
    return splits


def _evaluator(training: Training, splits: DataSplits, console: Console) -> SplitEvaluator | None:
    if splits.val is None:
        return None
    config = training.config
    return SplitEvaluator(
        splits.val,
        size_px=config.data.imgsz,
        batch=default_val_batch(config.eval, config.accumulation.micro_batch),
        workers=training.workers,
        config=config.eval,
        device=training.device,
        channels_last=training.channels_last,
        warn=console.warn,
        replicas=training.loop.stepper.replicas,
    )


class _Run:
    """A run folder from its first file to its last."""

    def __init__(
        self, training: Training, evaluator: SplitEvaluator | None, folder: Path, start: _Start, console: Console
    ) -> None:
        self.training = training
        self.evaluator = evaluator
        self.folder = folder
        self.checkpoint = start.checkpoint
        self.console = console
        self.replicas = training.loop.stepper.replicas
        self.plots = training.config.run.plots and self.replicas.is_first

    def carry_out(self) -> Mapping[str, Any]:
        """Head of the folder, training, final evaluation, pictures, run card."""
        records = CsvRecords(self.folder)
        trainer = self._trainer([records, self.console])
        if self.checkpoint is not None:  # before anything in the folder is written anew: it may be refused
            updates, epochs = trainer.state.clock.updates_attempted, trainer.progress.epochs_done
            records.truncate_after(updates=updates, epochs=epochs)
        (self.folder / "weights").mkdir(exist_ok=True)
        (self.folder / FILES["config"]).write_text(to_yaml(self.training.config), encoding="utf-8")
        rows = {"run folder": str(self.folder), **startup_rows(self.training)}
        self.console.startup_table(rows)
        for notice in startup_notices(self.training):
            self.console.on_message(f"notice: {notice}")
        if self.evaluator is None:
            self.console.on_message("notice: there is no validation split, so the last epoch counts as the best")
        if self.plots:
            plot_labels(self.training.index, self.folder / FILES["labels"], self.training.config.data.imgsz)
        result = self._train(trainer)
        evaluation = self._evaluate_best()
        if evaluation is not None and self.evaluator is not None:
            self._write(evaluation, self.evaluator.index)
        if self.plots:
            plot_results(self.folder)
        return self._close(rows, result, evaluation)

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
        try:
            result = trainer.run(self._watched(self.training.batches()))
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
        if result.stopped_early:
            patience = self.training.config.run.patience
            self.console.on_message(f"ended after epoch {result.epochs_done}: no better AP for {patience} epochs")
        return result

    def _validate(self, model: nn.Module, epoch: int) -> Mapping[str, float]:
        assert self.evaluator is not None
        with self.console.progress(f"evaluation {epoch + 1}", self.evaluator.num_images) as progress:
            return self.evaluator(model, progress).metrics.defined()

    def _watched(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches; the first are drawn, and pictures that could not be read are reported once each."""
        pictured: list[Batch] = []
        num_pictured = min(NUM_PICTURED_BATCHES, self.training.plan.num_micro_batches)
        for batch in ProblemReporter(self.console.warn).watch(batches):
            if self.plots and self.checkpoint is None and len(pictured) < num_pictured:
                pictured.append(batch)
                if len(pictured) == num_pictured:
                    plot_batches(pictured, self.training.index.class_names, self.folder / FILES["train_batch"])
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
        estimate_statistics(training.model, training.config, training.index, training.photometric)
        if self.replicas.is_first:
            content = read_checkpoint(path)
            save_checkpoint({**content, "model": training.model.state_dict()}, path)
        num_images = min(training.config.norm.precise_bn, len(training.index))
        before = self.replicas.decide(lambda: read_checkpoint(path)["progress"]["best_metrics"].get("AP"))
        with_ap = f"; AP before: {before:.4f}" if before is not None else ""
        self.console.on_message(f"running statistics of the best weights measured on {num_images} images{with_ap}")

    def _write(self, evaluation: Evaluation, index: DetectionIndex) -> None:
        """What the evaluation of the best weights found, for people and programs."""
        write_predictions(self.folder / FILES["predictions"], index, evaluation.detections)
        write_json(self.folder / FILES["metrics"], evaluation.metrics.to_json())
        if self.plots:
            picture = self.folder / FILES["val_predictions"]
            plot_val_predictions(index, evaluation.detections, picture, read_image=read_image)

    def _close(
        self, startup: Mapping[str, str], result: TrainingResult, evaluation: Evaluation | None
    ) -> Mapping[str, Any]:
        """Metrics table, run card and the paths, for people and as a result."""
        metrics = evaluation.metrics if evaluation is not None else None
        values = metrics.to_json() if metrics is not None else {}
        counters = result.clock.as_dict()
        peaks = {"memory_mib": round(result.peak_memory_mib, 1), "images_per_s": round(result.images_per_s, 2)}
        common = {
            "counters": counters,
            "epochs": result.epochs_done,
            "stopped_early": result.stopped_early,
            "peaks": peaks,
        }
        write_json(
            self.folder / FILES["card"],
            {
                "settings": startup,
                **common,
                "best": {"epoch": result.best_epoch + 1, **values},
                "train_s": round(result.train_s, 1),
                "environment": environment(self.training.device),
            },
        )
        files = {name: str(self.folder / file) for name, file in FILES.items() if (self.folder / file).exists()}
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
                **{FILES[name]: path for name, path in files.items()},
            }
        )
        return {
            "run": str(self.folder),
            "best": {"epoch": result.best_epoch + 1, **values},
            **common,
            "files": files,
        }


def _last_good(trainer: Trainer) -> str:
    there = trainer.last_path.is_file()
    return f"the last good checkpoint is {trainer.last_path}" if there else "nothing was saved yet"
