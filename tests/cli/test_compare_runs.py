"""The runs of a comparison as processes: what each is asked for, and what becomes of its end. Nothing is trained."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest
from small_data import write_data

from yolo_accum.cli.comparison.runs import Runs, RunState
from yolo_accum.cli.comparison.setup import Comparison, open_compared_data, plan_comparison
from yolo_accum.cli.comparison.verify import verify_words
from yolo_accum.config.compare_arguments import parse_compare
from yolo_accum.config.verify_arguments import parse_verify
from yolo_accum.report.console import Console

FINISHES = (
    "import pathlib, sys; p = pathlib.Path(sys.argv[1]); p.mkdir(exist_ok=True); (p / 'run_card.json').write_text('{}')"
)
SHORT = "import sys; print('error: cannot allocate memory (a smaller --batch needs less; ...)'); sys.exit(3)"
KILLED = "import os; os.kill(os.getpid(), 9)"
SILENT = "import sys; print('Traceback ...\\nImportError: no such thing'); sys.exit(1)"


class Children:
    """Stands in for `start_child`: small programs in place of trainings.

    Args:
        scripts: by arm; another one when activations are checkpointed, under the arm's name and "checkpointed".
        free_bytes: what `plan` finds free; an image needs 100 bytes, 20 with checkpointed activations.
    """

    def __init__(self, scripts: dict[str, str], free_bytes: int) -> None:
        self.scripts = scripts
        self.free_bytes = free_bytes
        self.asked: list[list[str]] = []

    def __call__(
        self, words: Sequence[str], lock: IO[str], *, output: IO[Any], messages: IO[Any]
    ) -> subprocess.Popen[bytes]:
        self.asked.append(list(words))
        target = Path(words[2])
        folder = target if words[1] == "--resume" else target.with_suffix("")
        script = self.scripts.get(folder.parent.name, FINISHES)
        if "--checkpoint-activations" in words:
            script = self.scripts.get(f"{folder.parent.name} checkpointed", FINISHES)
        if words[0] == "plan":
            script = f"print('''{self._memory()}''')"
        return subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=output, stderr=messages)

    def _memory(self) -> str:
        measured = [
            {"checkpoint_activations": recompute, "images": images, "peak_bytes": images * each}
            for recompute, each in ((False, 100), (True, 20))
            for images in (1, 2)
        ]
        return json.dumps({"memory": {"device": "cpu", "memory_bytes": self.free_bytes, "measured": measured}})

    def of(self, arm: str) -> list[list[str]]:
        """What was asked for one arm's trainings."""
        return [words for words in self.asked if words[0] == "train" and Path(words[2]).parent.name == arm]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"), num_train=7, num_val=3)


def carry_out(
    data: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *words: str,
    scripts: dict[str, str] | None = None,
    free_bytes: int = 10**6,
) -> tuple[dict[tuple[str, int], RunState], Children, Comparison]:
    """All runs of a comparison of micro-batches of 2 with batches of 8."""
    arguments = parse_compare(["--data", str(data), "--batch", "2", "--nbs", "8", "--epochs", "1", *words])
    children = Children(scripts or {}, free_bytes)
    monkeypatch.setattr("yolo_accum.cli.comparison.runs.start_child", children)
    monkeypatch.setattr("yolo_accum.cli.comparison.runs.POLL_S", 0.01)
    config, splits = open_compared_data(arguments.config, Console(quiet=True))
    comparison = plan_comparison(folder, config, arguments.compare, arguments.arms, splits)
    folder.mkdir(exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        runs = Runs(comparison, lock, lambda run, state: None)
        runs.carry_out(lambda: None)
    return runs.states, children, comparison


def test_every_arm_runs_with_every_seed(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states, children, comparison = carry_out(data, tmp_path, monkeypatch, "--seeds", "2", "--seed", "5")

    assert {key: state.status for key, state in states.items()} == dict.fromkeys(
        [("accumulation", 5), ("large", 5), ("accumulation", 6), ("large", 6)], "finished"
    )
    recipes = [words[2].removeprefix(str(tmp_path)) for words in children.asked if words[0] == "train"]
    assert recipes == [f"/{arm}/seed{seed}.yaml" for seed in (5, 6) for arm in ("accumulation", "large")]
    assert sum(words[0] == "plan" for words in children.asked) == 1  # the memory of an arm is measured once
    config = comparison.runs[1].config
    assert (config.accumulation.batch, config.accumulation.window_batch, config.eval.val_batch) == (8, 2, 2)
    assert (config.run.amp, config.run.seed, config.run.save_gradients) == ("off", 5, "1")


def test_runs_are_spread_over_devices_and_share_the_cores(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--devices", "cpu,cpu", "--arms", "norm=gn"]
    states, children, _ = carry_out(data, tmp_path, monkeypatch, *words)

    assert [state.status for state in states.values()] == ["finished"] * 3
    assert all("--threads" in asked and "--workers" in asked for asked in children.of("accumulation"))


def test_what_is_finished_is_kept_and_what_is_not_goes_on(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "accumulation/seed0").mkdir(parents=True)
    (tmp_path / "accumulation/seed0/run_card.json").write_text("{}")
    (tmp_path / "large/seed0/weights").mkdir(parents=True)
    (tmp_path / "large/seed0/weights/last.pt").write_text("a checkpoint")
    (tmp_path / "norm-gn/seed0").mkdir(parents=True)
    (tmp_path / "norm-gn/seed0/updates.csv").write_text("killed before its first checkpoint")

    _, children, _ = carry_out(data, tmp_path, monkeypatch, "--arms", "norm=gn")

    assert children.of("accumulation") == []
    assert children.of("large")[0][1:3] == ["--resume", str(tmp_path / "large/seed0")]
    assert children.of("norm-gn")[0][1:3] == ["--recipe", str(tmp_path / "norm-gn/seed0.yaml")]
    assert (tmp_path / "norm-gn/seed0.interrupted1/updates.csv").is_file()


def test_ends_of_runs_are_told_apart(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = {"accumulation": KILLED, "large": SILENT}
    states, _, _ = carry_out(data, tmp_path, monkeypatch, "--arms", "norm=gn", scripts=scripts)

    assert states["accumulation", 0].status == "failed"
    assert states["accumulation", 0].message == "it was ended by SIGKILL, most often because memory ran out"
    assert states["large", 0] == RunState(status="failed", message="ImportError: no such thing")
    assert states["norm-gn", 0].status == "finished"


def test_a_large_batch_that_does_not_fit_is_checkpointed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, children, _ = carry_out(data, tmp_path, monkeypatch, "--seeds", "2", free_bytes=500)  # of 800 and 160

    assert {state.status for state in states.values()} == {"finished"}
    assert all("--checkpoint-activations" in words for words in children.of("large"))
    assert not any("--checkpoint-activations" in words for words in children.of("accumulation"))


def test_one_that_cannot_run_at_all_is_a_finding(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states, children, _ = carry_out(data, tmp_path, monkeypatch, free_bytes=150)

    assert states["large", 0].status == "does not fit"
    assert "8 images in one go need about" in str(states["large", 0].message)
    assert children.of("large") == [] and states["accumulation", 0].status == "finished"


def test_memory_that_runs_out_nevertheless_leads_to_checkpointing(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, children, _ = carry_out(data, tmp_path, monkeypatch, scripts={"large": SHORT})
    assert states["large", 0].status == "finished"
    assert ["--checkpoint-activations" in words for words in children.of("large")] == [False, True]

    both = {"large": SHORT, "large checkpointed": SHORT}
    states, _, _ = carry_out(data, tmp_path / "again", monkeypatch, scripts=both)
    assert states["large", 0].status == "does not fit"
    assert "cannot allocate memory" in str(states["large", 0].message)


def test_verify_is_asked_about_the_micro_batches_and_norms_of_the_arms(data: Path, tmp_path: Path) -> None:
    words = [
        "--norm",
        "gn",
        "--hsv-v",
        "0.25",
        "--weights",
        "w.pth",
        "--freeze",
        "backbone,head.stems",
        "--threads",
        "1",
    ]
    arms = ["--arms", "batch=4,norm=bn", "batch=8,name=large2"]
    arguments = parse_compare(["--data", str(data), "--batch", "2", "--nbs", "8", *words, *arms])
    config, splits = open_compared_data(arguments.config, Console(quiet=True))
    comparison = plan_comparison(tmp_path, config, arguments.compare, arguments.arms, splits)

    verb, *asked = verify_words(comparison) or []
    found = parse_verify(asked)

    assert verb == "verify"
    assert (found.verify.sizes, found.verify.norm_names) == ((2, 4), ("gn", "bn"))
    assert (found.model, found.loss, found.data.imgsz) == (config.model, config.loss, config.data.imgsz)
    assert found.augment == replace(config.augment, close_mosaic=found.augment.close_mosaic)
    assert found.model.freeze == ("backbone", "head.stems") and found.model.weights == str(Path("w.pth").absolute())
    assert (found.run.seed, found.run.threads, found.run.project) == (0, 1, str(tmp_path))


def test_without_a_smaller_micro_batch_there_is_nothing_to_verify(data: Path, tmp_path: Path) -> None:
    words = ["--batch", "8", "--nbs", "8", "--no-default-arms", "--arms", "norm=gn", "norm=bn"]
    arguments = parse_compare(["--data", str(data), *words])
    config, splits = open_compared_data(arguments.config, Console(quiet=True))

    assert verify_words(plan_comparison(tmp_path, config, arguments.compare, arguments.arms, splits)) is None
