"""Callbacks of a user's own: what they are told, how they are named, what happens when they fail."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_data import write_data

from yolo_accum.api import Observer, UserError, train
from yolo_accum.cli.callbacks import checked, open_callbacks
from yolo_accum.cli.main import main
from yolo_accum.report.loggers import BACKENDS

ROOT = Path(__file__).parents[2]
OPTIONS = {"imgsz": 64, "batch": 2, "nbs": 4, "workers": 0, "amp": "off", "plots": False, "threads": 1, "epochs": 2}
WORDS = ["--imgsz", "64", "--batch", "2", "--nbs", "4", "--workers", "0", "--amp", "off", "--no-plots", "--threads"]
WORDS += ["1", "--epochs", "1", "--warmup-epochs", "0"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


class Everything(Observer):
    """Notes every event."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *payload: self.told.append((name, payload[0] if payload else None))
        return super().__getattribute__(name)

    def events(self, *names: str) -> list[Any]:
        return [payload for name, payload in self.told if name in names]


def test_what_happens_in_a_run_is_told_in_order(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from yolo_accum.engine.update import Stepper

    apply, calls = Stepper.apply, []

    def third_is_refused(self: Stepper, factor: float, *, finite: bool, **others: Any) -> Any:
        calls.append(1)
        return apply(self, factor, finite=finite and len(calls) != 3, **others)

    monkeypatch.setattr(Stepper, "apply", third_is_refused)
    everything = Everything()
    result = train(data=data, project=tmp_path, warmup_epochs=0, callbacks=[everything], **OPTIONS)

    # 11 images an epoch: micro-batches 2 2 | 2 2 | 2 1
    window = ["on_window_open", "on_micro_batch", "on_micro_batch", "on_update"]
    applied, refused, end = (
        [*window, "on_update_applied"],
        [*window, "on_update_refused"],
        ["on_epoch", "on_checkpoint"],
    )
    assert [name for name, _ in everything.told] == [
        "on_run_start", *applied, *applied, *refused, *end, *applied, *applied, *applied, *end,
        "on_training_end", "on_run_end",
    ]  # fmt: skip
    (started,), (ended,) = everything.events("on_run_start"), everything.events("on_run_end")
    assert started.folder == Path(result["run"])
    assert (started.num_epochs, started.num_micro_batches, started.start_micro_batch) == (2, 12, 0)
    assert started.config["nbs"] == 4 and "updates" in started.settings
    windows, updates = everything.events("on_window_open"), everything.events("on_update")
    assert [(item.update, item.first_micro_batch, item.last_micro_batch) for item in windows] == [
        (item.update, item.first_micro_batch, item.last_micro_batch) for item in updates
    ]
    assert [item.num_images for item in windows] == [item.images for item in updates] == [4, 4, 3, 4, 4, 3]
    assert [item.lr for item in windows] == [item.lr for item in updates]
    assert [item.micro_batches_done for item in everything.events("on_checkpoint")] == [6, 12]
    assert everything.events("on_checkpoint")[0].best_path == started.folder / "weights" / "best.pt"
    assert (ended.outcome, ended.exit_code, ended.epochs_done) == ("finished", 0, 2)
    assert ended.counters == result["counters"] and ended.card["best"]["AP"] == result["best"]["AP"]
    assert ended.files["last"].is_file() and result["switched_off"] == []


def test_a_run_that_fails_says_so_at_its_end(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from yolo_accum.engine.update import Stepper
    from yolo_accum.errors import TrainingError

    apply = Stepper.apply
    monkeypatch.setattr(Stepper, "apply", lambda self, factor, *, finite, **others: apply(self, factor, finite=False))
    everything = Everything()
    with pytest.raises(TrainingError):
        train(data=data, project=tmp_path, callbacks=[everything], max_skipped=2, **OPTIONS)

    (ended,) = everything.events("on_run_end")
    assert (ended.outcome, ended.exit_code) == ("failed", 3)
    assert ended.message.startswith("2 updates in a row were refused")
    assert ended.counters["updates_skipped"] == 2 and not ended.card


def test_one_that_raises_is_reported_and_the_run_ends_well(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(
        "from yolo_accum.api import Observer\n\n"
        "class Mine(Observer):\n"
        "    def on_update_applied(self, record):\n"
        "        assert record.update < 2, 'enough seen'\n"
    )
    place = f"{tmp_path / 'mine.py'}:Mine"
    argv = ["train", "--data", str(data), "--project", str(tmp_path / "runs"), "--callbacks", place, *WORDS, "--json"]
    assert main(argv) == 0

    output = capfd.readouterr()
    result = json.loads(output.out)
    assert result["switched_off"] == [
        {
            "name": f"--callbacks {place}",
            "event": "on_update_applied",
            "error": "AssertionError: enough seen",
            "events_missed": 9,  # window, two micro-batches, update, applied; epoch, checkpoint; both ends
        }
    ]
    assert f"--callbacks {place} failed in on_update_applied (AssertionError: enough seen)" in output.err
    assert output.err.count("Traceback") == 1 and 'mine.py", line 5, in on_update_applied' in output.err
    assert "has missed" in output.err
    assert json.loads(Path(result["files"]["card"]).read_text())["switched_off"][0]["event"] == "on_update_applied"


def test_a_module_of_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_watch.py").write_text(
        "from yolo_accum.api import Observer\n\nclass Watch(Observer): pass\n\ndef make():\n    return Watch()\n"
    )
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    opened = open_callbacks(["my_watch:Watch", "my_watch:make", "my_watch.py:make"])
    assert [(name, type(item).__name__) for name, item in opened] == [
        ("--callbacks my_watch:Watch", "Watch"),
        ("--callbacks my_watch:make", "Watch"),
        ("--callbacks my_watch.py:make", "Watch"),
    ]
    assert sys.path == before


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("bad", "--callbacks bad: module:NAME or path/to/file.py:NAME is needed"),
        ("bad:", "--callbacks bad:: module:NAME or path/to/file.py:NAME is needed"),
        ("no_such_module:X", "no_such_module cannot be imported (ModuleNotFoundError: No module named"),
        ("absent.py:X", "absent.py cannot be imported (FileNotFoundError: there is no such file)"),
        ("bad.py:Wach", "bad.py has no Wach (did you mean Watch?)"),
        ("bad.py:Other", "is of type Other; a callback is derived from yolo_accum.api.Observer"),
        ("bad.py:Misspelt", "on_update_aplied, which would never be called (did you mean on_update_applied?)"),
        ("bad.py:Needy", "the class, called without arguments, failed (TypeError: "),
        ("bad.py:NUMBER", "NUMBER is neither a class nor a function that makes a callback"),
        ("broken.py:X", "broken.py cannot be imported (ZeroDivisionError: division by zero)"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named_before_anything_is_made(
    place: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "bad.py").write_text(
        "from yolo_accum.api import Observer\nNUMBER = 3\nclass Other: pass\nclass Watch(Observer): pass\n"
        "class Misspelt(Observer):\n    def on_update_aplied(self, record): pass\n"
        "class Needy(Observer):\n    def __init__(self, threshold): pass\n"
    )
    assert main(["train", "--callbacks", place]) == 2
    assert sentence in capfd.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_class_in_place_of_an_object_is_told() -> None:
    with pytest.raises(UserError, match=r"is a class; an object of it is needed: Everything\(\.\.\.\)"):
        checked(Everything, "callback")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"epoch": 3}, "train: epoch is not an option (did you mean epochs?)"),
        ({"nbs": "many"}, "train: nbs many: a whole number is needed"),
        ({"batch": 0}, "--batch 0: at least one image"),
        ({"device": "cpu,cpu"}, "start this program with torchrun --nproc-per-node 2"),
        ({"callbacks": [print]}, "a callback is derived from yolo_accum.api.Observer"),
    ],
)
def test_bad_input_of_a_program_is_named(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)):
        train(**options)


def test_the_example_of_the_document_runs(data: Path, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "callbacks.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    assert len(example.splitlines()) <= 12
    small = ", ".join(f"{name}={value!r}" for name, value in OPTIONS.items())
    changed = example.replace('data="mine/data.yaml"', f"data={str(data)!r}").replace("epochs=30", small)
    assert changed != example
    (tmp_path / "example.py").write_text(changed)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^update \d+: gradient norm \d", done.stdout, re.MULTILINE)
    assert re.search(r"^AP 0\.\d+", done.stdout, re.MULTILINE)


def test_a_logger_without_its_package_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["train", "--log", "wandb"]) == 2
    message = capfd.readouterr().err
    assert message.startswith("error: --log wandb needs a package that cannot be imported here")
    assert message.endswith("pip install 'yolo-accum[wandb]'\n") and message.count("\n") == 1
    assert main(["train", "--log", "wandb,comet"]) == 2
    assert "--log comet: some of tensorboard, wandb, mlflow are needed" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_logger_that_fails_in_mid_run_is_told_in_one_line(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Full:
        def open(self, event: Any) -> None:
            pass

        def log(self, values: Any, *, update: int, images_seen: int) -> None:
            raise OSError(28, "No space left on device")

        def close(self, event: Any) -> None:
            raise AssertionError("not reached")

    monkeypatch.setitem(BACKENDS, "tensorboard", Full)
    argv = ["train", "--data", str(data), "--project", str(tmp_path), "--log", "tensorboard", *WORDS]
    assert main(argv) == 0
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith("warning: --log tensorboard")]
    assert lines == [
        "warning: --log tensorboard failed in on_update_applied (OSError: [Errno 28] No space left on device) and is "
        "switched off; the run goes on",
        "warning: --log tensorboard was switched off in on_update_applied (OSError: [Errno 28] No space left on "
        "device) and has missed 14 events",
    ]
