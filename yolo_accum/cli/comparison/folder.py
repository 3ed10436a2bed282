"""The folder of a comparison: what was asked for, who works in it, and where one goes on."""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import yaml

from yolo_accum.cli.run_folder import make_run_folder
from yolo_accum.cli.training.build import images_digest
from yolo_accum.config.arms import Arm, arms_again
from yolo_accum.config.compare_arguments import CHANGEABLE_ON_RESUME, CompareArguments
from yolo_accum.config.load import build, from_mapping, to_mapping
from yolo_accum.config.schema import TrainConfig
from yolo_accum.config.verb_schema import CompareConfig
from yolo_accum.data.description import DataSplits
from yolo_accum.errors import UserError
from yolo_accum.report.comparison_status import COMPARISON_FILE, LOCK_FILE

OF_THE_RUN = ("device", "threads", "workers")
"""Changeable options of `train`; the others are those of the comparison."""
SETUP_FILE = "compare.yaml"
WAIT_FOR_RUNS_S = 60.0
"""Until the runs of a comparison that was killed have noticed it, finished their window and saved."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a comparison was started with."""

    config: TrainConfig
    compare: CompareConfig
    arms: tuple[Arm, ...]


def read_setup(folder: Path) -> tuple[Setup, Mapping[str, Any]]:
    """What stands in a folder, and the fingerprints of its data.

    Raises:
        UserError: there is no comparison, or what is written there is not usable.
    """
    path = folder / SETUP_FILE
    if not path.is_file():
        raise UserError(f"--resume {folder}: there is no comparison ({SETUP_FILE} is missing)")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        options, compare, arms, images = (content[key] for key in ("options", "compare", "arms", "images"))
        config = from_mapping(options, str(path))
        setup = Setup(config=config, compare=build(CompareConfig, compare), arms=arms_again(config, arms))
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({' '.join(str(error).split())})") from error
    return setup, images


def changed(setup: Setup, arguments: CompareArguments) -> Setup:
    """The same with what a command line may change when a comparison goes on."""
    given: dict[str, Any] = {name: arguments.given[name] for name in CHANGEABLE_ON_RESUME if name in arguments.given}
    config = from_mapping({**to_mapping(setup.config), **{name: given[name] for name in OF_THE_RUN if name in given}})
    compare = replace(setup.compare, **{name: value for name, value in given.items() if name not in OF_THE_RUN})
    changes = {arm.name: arm.changes for arm in setup.arms}
    if compare.reference is not None and compare.reference not in changes:
        raise UserError(f"--reference {compare.reference}: there is no such arm; there are: {', '.join(changes)}")
    return Setup(config=config, compare=compare, arms=arms_again(config, changes))


def check_images(folder: Path, images: Mapping[str, Any], splits: DataSplits) -> None:
    """Raises:
    UserError: the data are not those that the comparison was started with.
    """
    if images != _digests(splits):
        raise UserError(
            f"--resume {folder}: the images of {splits.train.source} are not those that the comparison was started "
            "with, or stand in another order"
        )


@contextlib.contextmanager
def locked_folder(setup: Setup, splits: DataSplits, resume: Path | None) -> Iterator[tuple[Path, TextIO, bool]]:
    """The folder to work in, for nobody else as long as this lasts.

    Without ``resume``, an unfinished comparison of the same name that was started with the same options and images is
    gone on with; else a new folder is made.

    Yields:
        the folder; the open lock file, which the runs inherit: it stays locked as long as one of them lives; and
        whether something was there already.
    Raises:
        UserError: somebody else works in the folder that ``resume`` names.
    """
    with contextlib.ExitStack() as stack:
        if resume is not None:
            lock = _lock(stack, resume, WAIT_FOR_RUNS_S)
            if lock is None:
                raise UserError(f"--resume {resume}: this comparison is still running, or a run of it is")
            yield resume, lock, True
            return
        found = _unfinished(stack, setup, splits)
        if found is not None:
            yield *found, True
            return
        folder = make_run_folder(setup.config.run).absolute()
        lock = _lock(stack, folder, 0.0)
        assert lock is not None
        (folder / SETUP_FILE).write_text(
            yaml.safe_dump(_as_mapping(setup, splits), sort_keys=False, allow_unicode=True), encoding="utf-8"
        )
        yield folder, lock, False


def _unfinished(stack: contextlib.ExitStack, setup: Setup, splits: DataSplits) -> tuple[Path, TextIO] | None:
    """A comparison of this name and these options that is not at its end and that nobody works at."""
    run, number = setup.config.run, 1
    while True:
        folder = Path(run.project).absolute() / (run.name if number == 1 else f"{run.name}{number}")
        if not folder.is_dir():
            return None
        with contextlib.suppress(OSError, yaml.YAMLError):
            same = yaml.safe_load((folder / SETUP_FILE).read_text(encoding="utf-8")) == _as_mapping(setup, splits)
            if same and not _is_complete(folder):
                lock = _lock(stack, folder, WAIT_FOR_RUNS_S)
                if lock is not None:
                    return folder, lock
        number += 1


def _is_complete(folder: Path) -> bool:
    try:
        content = json.loads((folder / COMPARISON_FILE).read_text(encoding="utf-8"))
        return bool(content["finished"] and content["ok"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _lock(stack: contextlib.ExitStack, folder: Path, wait_s: float) -> TextIO | None:
    """The lock file, held; None when somebody else still holds it after a while."""
    file = stack.enter_context((folder / LOCK_FILE).open("w"))
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except OSError:
            if time.monotonic() >= deadline_s:
                return None
            time.sleep(0.2)


def _as_mapping(setup: Setup, splits: DataSplits) -> dict[str, Any]:
    """Plain content, as it comes back from the file."""
    content = {
        "options": to_mapping(setup.config),
        "compare": asdict(setup.compare),
        "arms": {arm.name: dict(arm.changes) for arm in setup.arms},
        "images": _digests(splits),
    }
    plain: dict[str, Any] = json.loads(json.dumps(content))
    return plain


def _digests(splits: DataSplits) -> dict[str, str]:
    both = {"train": splits.train, "val": splits.val}
    return {name: images_digest(index) for name, index in both.items() if index is not None}
