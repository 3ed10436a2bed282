"""`compare`: train in several ways on the same images in the same windows, and say what the difference is."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from yolo_accum.cli.comparison.folder import Setup, changed, check_images, locked_folder, read_setup
from yolo_accum.cli.comparison.page import make_compare_page
from yolo_accum.cli.comparison.result import FILES, build_result
from yolo_accum.cli.comparison.runs import Runs, RunState
from yolo_accum.cli.comparison.setup import (
    Comparison,
    PlannedRun,
    check_arms,
    check_weights,
    open_compared_data,
    plan_comparison,
)
from yolo_accum.cli.comparison.verify import read_verification, run_verification
from yolo_accum.cli.output import write_json
from yolo_accum.config.arms import arms_again, reference_of
from yolo_accum.config.compare_arguments import CompareArguments, parse_compare
from yolo_accum.errors import Interrupted, TrainingError
from yolo_accum.report.comparison_table import comparison_tables, write_comparison_csv
from yolo_accum.report.console import PLAIN_LINE_EVERY_S, Console
from yolo_accum.report.tables import columns


def run(argv: Sequence[str]) -> Mapping[str, Any]:
    """Compare as the options say; returns what compare.json holds. ``ok`` is whether no run failed.

    Raises:
        TrainingError: not one run came to its end.
        Interrupted: by SIGINT or SIGTERM; finished runs are kept, and the comparison can go on.
    """
    arguments = parse_compare(argv)
    with Console(as_json=arguments.json) as console:
        setup, images = _setup(arguments)
        config, splits = open_compared_data(setup.config, console)
        setup = Setup(
            config=config,
            compare=setup.compare,
            arms=arms_again(config, {arm.name: arm.changes for arm in setup.arms}),
        )
        resume = Path(arguments.resume).absolute() if arguments.resume is not None else None
        check_arms(setup.config, setup.compare, setup.arms)
        if resume is not None:
            check_images(resume, images, splits)
        else:
            check_weights(setup.arms)
        with locked_folder(setup, splits, resume) as (folder, lock, is_there):
            if is_there:
                console.on_message(f"going on with {folder}")
            comparison = plan_comparison(folder, setup.config, setup.compare, setup.arms, splits)
            return _carry_out(comparison, lock, console)


def _setup(arguments: CompareArguments) -> tuple[Setup, Mapping[str, Any]]:
    """What is compared, and the fingerprints of the images of a comparison that goes on."""
    if arguments.resume is None:
        return Setup(config=arguments.config, compare=arguments.compare, arms=arguments.arms), {}
    setup, images = read_setup(Path(arguments.resume))
    return changed(setup, arguments), images


def _carry_out(comparison: Comparison, lock: IO[str], console: Console) -> Mapping[str, Any]:
    console.terminal.print(_what_comes(comparison))

    def tell(run: PlannedRun, state: RunState) -> None:
        reason = f": {state.message}" if state.message else ""
        console.on_message(f"{'' if state.status == 'finished' else 'warning: '}{run.title}: {state.status}{reason}")
        _write(comparison, runs, [])

    runs = Runs(comparison, lock, tell)
    _write(comparison, runs, [])  # so that there is something to look at from the start
    progress = _Progress(runs, comparison, console)
    try:
        with progress:
            runs.carry_out(progress.look)
        warning = run_verification(comparison, lock) if comparison.compare.verify else None
    except (KeyboardInterrupt, SystemExit) as ending:
        number = signal.SIGINT if isinstance(ending, KeyboardInterrupt) else signal.SIGTERM
        _write(comparison, runs, [])
        raise Interrupted(
            number,
            f"what is finished is kept; to go on: yolo-accum compare --resume {shlex.quote(str(comparison.folder))}",
        ) from ending
    result = _write(comparison, runs, [warning] if warning is not None else [])
    _make_page(comparison, console)
    return _tell(comparison, result, console)


def _write(comparison: Comparison, runs: Runs, warnings: Sequence[str]) -> dict[str, Any]:
    """The report as far as it goes."""
    verify = read_verification(comparison.folder) if comparison.compare.verify else None
    result = build_result(comparison, runs.states, verify, warnings)
    path = comparison.folder / FILES["compare"]
    part = path.with_name(f"{path.name}.part")
    write_json(part, result)
    part.replace(path)
    write_comparison_csv(result, comparison.folder / FILES["table"])
    return result


def _make_page(comparison: Comparison, console: Console) -> None:
    """Write ``compare.html``; days of training are not lost by a fault in a page."""
    try:
        make_compare_page(comparison.folder)
    except Exception as error:
        console.warn(
            f"warning: {FILES['page']} cannot be made ({type(error).__name__}: {error}); all else is there, and "
            f"yolo-accum report {comparison.folder} tries again"
        )


def _tell(comparison: Comparison, result: dict[str, Any], console: Console) -> Mapping[str, Any]:
    """Tables and sentences for people.

    Raises:
        TrainingError: there is nothing to tell.
    """
    for table in comparison_tables(result):
        console.terminal.print(table)
    for arm in result["arms"]:
        for note in arm["notes"]:
            console.on_message(f"notice: {arm['name']}: {note}")
    for warning in result["warnings"]:
        console.on_message(f"warning: {warning}")
    for entry in result["comparisons"]:
        console.on_message(f"verdict: {entry['verdict']['sentence']}")
    files = {name: str(comparison.folder / file) for name, file in result["files"].items()}
    for name, path in files.items():
        console.on_message(f"{name}: {path}")
    runs = [run for arm in result["arms"] for run in arm["runs"]]
    if not any(run["status"] == "finished" for run in runs):
        raise TrainingError(f"not one run came to its end; the first says: {runs[0]['message']}")
    return {**result, "run": str(comparison.folder), "files": files}


def _what_comes(comparison: Comparison) -> Any:
    """The arms before they are trained."""
    base, reference = comparison.plan, reference_of(comparison.arms, comparison.compare)
    rows = []
    for arm in comparison.arms:
        plan, same = comparison.plans[arm.name], comparison.same_windows[arm.name]
        changes = ", ".join(f"{name} {value}" for name, value in arm.changes.items())
        rows.append(
            [
                arm.name + (" (reference)" if arm.name == reference else ""),
                f"{plan.batch} x {plan.window_length_nominal}",
                arm.config.norm.norm,
                f"{plan.num_updates}" + ("" if same else ", other windows"),
                changes or "the base options",
            ]
        )
    seeds = ", ".join(map(str, comparison.seeds))
    title = (
        f"{len(comparison.runs)} runs: {len(comparison.arms)} arms with seed {seeds}; "
        f"{base.num_images} images, epochs: {base.epochs}, in {comparison.folder}"
    )
    return columns(title, ("arm", "micro-batch x K", "norm", "updates", "what differs"), rows)


class _Progress:
    """A bar over the images of all runs with the time that is left; lines where there is no terminal.

    Args:
        runs: tell how far they are.
        comparison: knows how many images there are.
        console: to print on.
    """

    def __init__(self, runs: Runs, comparison: Comparison, console: Console) -> None:
        self._runs = runs
        self._console = console
        self._before = runs.images_done
        self._total = sum(run.num_images for run in comparison.runs) - self._before
        self._start_s = self._last_s = time.monotonic()
        self._bar = console.progress("comparison, images", self._total)

    def __enter__(self) -> _Progress:
        self._show = self._bar.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    def look(self) -> None:
        """Several times a second."""
        done = self._runs.images_done - self._before
        now_s = time.monotonic()
        if self._console.terminal.is_terminal:
            self._show(done)
            return
        if now_s - self._last_s < PLAIN_LINE_EVERY_S:
            return
        self._last_s = now_s
        left_s = (now_s - self._start_s) / done * (self._total - done) if done > 0 else None
        eta = "-" if left_s is None else time.strftime("%H:%M:%S", time.gmtime(left_s))
        names = "; ".join(run.title for run in self._runs.running)
        ended, runs = self._runs.num_ended, len(self._runs.states)
        self._console.on_message(
            f"comparison: {ended} of {runs} runs, {done} of {self._total} images, now {names}, ETA {eta}"
        )
