"""What is compared: the arms on their data, and the run that each arm makes with each seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from yolo_accum.cli.embedded import embedded_data
from yolo_accum.cli.evaluation import default_val_batch
from yolo_accum.cli.training.data import training_dataset
from yolo_accum.cli.training.plan import plan_of
from yolo_accum.cli.training.starting import RUN_CARD
from yolo_accum.cli.wiring import absolute_paths, choose_device, named_devices
from yolo_accum.cli.worker_count import available_cores
from yolo_accum.config.arms import Arm
from yolo_accum.config.schema import TrainConfig
from yolo_accum.config.verb_schema import CompareConfig
from yolo_accum.data.description import DataSplits, open_data
from yolo_accum.data.worker_count import default_workers
from yolo_accum.engine.plan import Plan, check_divisible
from yolo_accum.errors import UserError
from yolo_accum.report.console import Console


@dataclass(frozen=True, kw_only=True)
class Moment:
    """An update whose gradients are compared."""

    name: str
    update: int
    """From 1."""


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One arm with one seed."""

    arm: str
    seed: int
    config: TrainConfig
    """As it is trained, but for what depends on where: device, threads, workers, checkpointed activations."""
    num_images: int
    """Of all epochs."""

    @property
    def folder(self) -> Path:
        """The run folder."""
        return Path(self.config.run.project) / self.config.run.name

    @property
    def log(self) -> Path:
        """What the run prints."""
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def recipe(self) -> Path:
        """All options of the run."""
        return self.folder.with_name(f"{self.folder.name}.yaml")

    @property
    def title(self) -> str:
        return f"{self.arm}, seed {self.seed}"

    @property
    def is_finished(self) -> bool:
        """The run card is the last thing that a run writes."""
        return (self.folder / RUN_CARD).is_file()


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Everything that is known before the first run."""

    folder: Path
    config: TrainConfig
    """Of the base run; paths are absolute."""
    compare: CompareConfig
    arms: tuple[Arm, ...]
    splits: DataSplits
    plan: Plan
    """Of the base run: its windows are those of all arms that do not ask for others."""
    plans: Mapping[str, Plan]
    """By arm: the windows and how it cuts them."""
    same_windows: Mapping[str, bool]
    """By arm: whether each of its updates takes the images that the one of the base run takes."""
    moments: tuple[Moment, ...]
    runs: tuple[PlannedRun, ...]
    """All arms with the first seed, then with the second."""

    @property
    def devices(self) -> list[str]:
        """One for each run at a time."""
        return named_devices(self.compare.devices) if self.compare.devices else [self.config.run.device]

    @property
    def seeds(self) -> range:
        return range(self.config.run.seed, self.config.run.seed + self.compare.seeds)

    def runs_of(self, arm: Arm) -> list[PlannedRun]:
        """One a seed."""
        return [run for run in self.runs if run.arm == arm.name]


def open_compared_data(config: TrainConfig, console: Console) -> tuple[TrainConfig, DataSplits]:
    """The data of all arms, and the options with absolute paths to them.

    Raises:
        UserError: the data cannot be used, or have no validation split.
    """
    if config.data.data is None:
        config = replace(config, data=replace(config.data, data=str(embedded_data(console))))
    config = absolute_paths(config)
    splits = open_data(config.data)
    for finding in splits.findings:
        console.on_message(f"{finding.kind.severity}: {finding}")
    if splits.val is None:
        raise UserError(
            f"--data {config.data.data}: there is no validation split, so no AP could be compared; give --val-data, or "
            "val: in the data YAML"
        )
    return config, splits


def check_arms(config: TrainConfig, compare: CompareConfig, arms: Sequence[Arm]) -> None:
    """What can be known to fail is refused before there is a folder, not when its turn comes.

    Raises:
        UserError: an arm whose micro-batch does not divide over its replicas, or a device of ``--devices`` that is
            not there.
    """
    for device in named_devices(compare.devices) if compare.devices else ():
        choose_device(device, option="--devices")
    for arm in arms:
        check_divisible(arm.config.accumulation.micro_batch, len(_devices(compare, arm.config)))


def check_weights(arms: Sequence[Arm]) -> None:
    """Likewise what a run needs at its beginning only.

    Raises:
        UserError: an arm whose weights are not there.
    """
    for arm in arms:
        weights = arm.config.model.weights
        if weights is not None and not Path(weights).is_file():
            raise UserError(f"arm {arm.name}: --weights {weights}: no such file")


def _devices(compare: CompareConfig, config: TrainConfig) -> list[str]:
    """Of one run of an arm, one a replica."""
    return named_devices(compare.devices)[:1] if compare.devices else named_devices(config.run.device)


def plan_comparison(
    folder: Path, config: TrainConfig, compare: CompareConfig, arms: Sequence[Arm], splits: DataSplits
) -> Comparison:
    """The windows, the moments and the runs of arms that `check_arms` has passed.

    Raises:
        UserError: an arm whose plan leaves no window.
    """
    num_images = len(training_dataset(config, splits.train))
    plan = plan_of(config, num_images)
    moments = moments_of(plan)
    windows = list(plan.image_ranges())
    runs, plans = [], {}
    for arm in arms:
        arm_config = _on_windows_of(config, arm.config)
        plans[arm.name] = plan_of(arm_config, num_images)
        device = _devices(compare, arm_config)[0]
        runs += [
            PlannedRun(
                arm=arm.name,
                seed=seed,
                config=_run_config(config, arm_config, folder / arm.name, seed, moments, device),
                num_images=num_images * arm_config.optim.epochs,
            )
            for seed in range(config.run.seed, config.run.seed + compare.seeds)
        ]
    return Comparison(
        folder=folder,
        config=config,
        compare=compare,
        arms=tuple(arms),
        splits=splits,
        plan=plan,
        plans=plans,
        same_windows={name: list(found.image_ranges()) == windows for name, found in plans.items()},
        moments=moments,
        runs=tuple(sorted(runs, key=lambda run: run.seed)),
    )


def moments_of(plan: Plan) -> tuple[Moment, ...]:
    """First and last update, the first one after warm-up, and the one in the middle, as far as they differ."""
    num_updates = plan.num_updates
    warmup = sum(images.start < plan.warmup_images and not images.dropped for images in plan.image_ranges())
    named = {"first": 1, "after warm-up": warmup + 1, "middle": (num_updates + 1) // 2, "last": num_updates}
    by_update: dict[int, str] = {}
    for name, update in named.items():
        if 1 <= update <= num_updates:
            by_update.setdefault(update, name)
    return tuple(Moment(name=name, update=update) for update, name in sorted(by_update.items()))


def placed(run: PlannedRun, device: str, num_at_once: int) -> dict[str, int | str]:
    """Options that depend on where a run is carried out; runs at once share the cores of the machine."""
    options: dict[str, int | str] = {"device": device}
    if num_at_once > 1:
        cores = available_cores(num_at_once)
        options["threads"] = run.config.run.threads or cores
        workers = run.config.data.workers
        options["workers"] = workers if workers is not None else default_workers(cores)
    return options


def _on_windows_of(base: TrainConfig, config: TrainConfig) -> TrainConfig:
    """An arm that cuts windows as they are planned from the micro-batches of the base run."""
    return replace(config, accumulation=replace(config.accumulation, window_batch=base.accumulation.micro_batch))


def _run_config(
    base: TrainConfig, config: TrainConfig, project: Path, seed: int, moments: Sequence[Moment], device: str
) -> TrainConfig:
    """A run of an arm: evaluated as all others, at the same precision, and with its gradients kept.

    ``--amp auto`` measures what is faster on a CPU, so that it may decide differently from run to run.
    """
    amp = config.run.amp
    if amp == "auto":
        amp = "off" if choose_device(device).type == "cpu" else "fp16"
    return replace(
        config,
        eval=replace(config.eval, val_batch=default_val_batch(base.eval, base.accumulation.micro_batch)),
        run=replace(
            config.run,
            seed=seed,
            amp=amp,
            project=str(project),
            name=f"seed{seed}",
            save_gradients=",".join(str(moment.update) for moment in moments),
        ),
    )
