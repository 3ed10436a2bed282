"""`train`: train or fine-tune a detector, with the window of micro-batches as the unit of everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from yolo_accum.cli.embedded import embedded_data
from yolo_accum.cli.evaluation import SplitEvaluator, default_val_batch
from yolo_accum.cli.failures import DONE, FAILED, exit_code
from yolo_accum.cli.followers import open_followers
from yolo_accum.cli.picture_caching import cached_pictures
from yolo_accum.cli.planning.memory import measure_memory
from yolo_accum.cli.run_folder import make_run_folder
from yolo_accum.cli.training.build import Training, build_training, images_digest
from yolo_accum.cli.training.data import try_augmentations
from yolo_accum.cli.training.run import TrainingRun
from yolo_accum.cli.training.starting import Start, find_start
from yolo_accum.cli.wiring import absolute_paths, named_devices
from yolo_accum.config.arguments import TrainArguments, parse_train
from yolo_accum.config.schema import TrainConfig
from yolo_accum.contracts import DetectionIndex, Observer
from yolo_accum.data.description import DataSplits, open_data
from yolo_accum.engine.distributed import Replicas, join_replicas, launch_replicas, replicas_in_environment
from yolo_accum.errors import UserError
from yolo_accum.report.console import Console


def run(argv: Sequence[str]) -> int | Mapping[str, Any]:
    """Train as the options say; returns the run folder, the best metrics, the counters and the files.

    Several devices mean a replica each: this process then only starts them and returns their exit code. Every
    replica comes here, too; all but the first return the exit code alone.
    """
    arguments = parse_train(argv)
    num_devices = num_replicas_to_launch(arguments)
    if num_devices > 1:
        return launch_replicas(num_devices, ["train", *argv], failed=FAILED)
    return carry_out(arguments) or DONE


def num_replicas_to_launch(arguments: TrainArguments) -> int:
    """How many replicas this process has to start; 1 when it is to train itself."""
    if replicas_in_environment().size > 1:
        return 1
    return len(named_devices(find_start(arguments).config.run.device))


def carry_out(arguments: TrainArguments, callbacks: Sequence[Observer] = ()) -> Mapping[str, Any]:
    """Train in this process, as the only replica or as the one that its environment describes.

    Args:
        callbacks: who else follows the run; the first replica tells them.
    Returns:
        the run folder, the best metrics, the counters and the files; nothing on all replicas but the first.
    """
    with (
        join_replicas(exit_code) as replicas,
        Console(as_json=arguments.json, quiet=not replicas.is_first) as console,
    ):
        return _train(arguments, callbacks, replicas, console)


def _train(
    arguments: TrainArguments, callbacks: Sequence[Observer], replicas: Replicas, console: Console
) -> Mapping[str, Any]:
    """What every replica does; the result is complete on the first one."""
    if arguments.recipe is not None:
        console.on_message(f"recipe {arguments.recipe}: its options apply where the command line says nothing")
    start = replicas.decide(lambda: find_start(arguments))
    followers = open_followers(start.config.run, callbacks, console.on_message) if replicas.is_first else []
    splits = _open_data(start, replicas, console)
    start = replace(start, config=absolute_paths(start.config))
    if start.config.accumulation.batch == "auto":
        start = replace(start, config=_with_batch(start.config, splits.train, replicas, console))
    training = build_training(
        start.config,
        splits.train,
        checkpoint=start.checkpoint,
        replicas=replicas,
    )
    replicas.decide(lambda: try_augmentations(training.dataset, start.config))
    if training.summary is not None:
        console.on_message(str(training.summary))
    evaluator = _evaluator(training, splits, console)
    with cached_pictures(start.config.data, training.index, replicas, console) as pictures:
        training.dataset.pictures = pictures
        folder = start.folder or replicas.decide(lambda: make_run_folder(start.config.run))
        run = TrainingRun(training, evaluator, folder, start, console, followers)
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


def _open_data(start: Start, replicas: Replicas, console: Console) -> DataSplits:
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
