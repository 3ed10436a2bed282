"""From words on the command line to output and exit code."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from small_sets import coco_content, write_coco

from yolo_accum.cli.failures import describe_failure
from yolo_accum.cli.main import VERBS, Verb, main
from yolo_accum.cli.output import to_json
from yolo_accum.config.arguments import parse_val
from yolo_accum.errors import Interrupted, TrainingError, UserError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[list[str]], object]], None]:
    """Installs a verb `probe` that does what the test wants to see handled."""

    def install(run: Callable[[list[str]], object]) -> None:
        monkeypatch.setitem(VERBS, "probe", Verb("a verb of this test", parse_val))
        monkeypatch.setitem(sys.modules, "yolo_accum.cli.probe", SimpleNamespace(run=run))  # type: ignore[arg-type]

    return install


def fail_with(error: BaseException) -> Callable[[list[str]], object]:
    def run(words: list[str]) -> object:
        raise error

    return run


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_alone_it_lists_the_verbs(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0

    lines = capsys.readouterr().out.splitlines()
    for name, verb in VERBS.items():
        assert any(line.split() == [name, *verb.summary.split()] for line in lines)
    assert max(map(len, lines)) <= 80


def test_an_unknown_verb_suggests_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian"]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    verbs = ", ".join(VERBS)
    assert captured.err == f"error: trian: there is no such verb (did you mean train?); there are: {verbs}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_can_be_imported_and_helps(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(importlib.import_module(f"yolo_accum.cli.{verb}").run)
    assert main([verb, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"usage: yolo-accum {verb}")


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (UserError("--batch 0: at least one"), 2, "error: --batch 0: at least one"),
        (TrainingError("20 updates refused"), 3, "error: 20 updates refused"),
        (Interrupted(signal.SIGINT, "the state is in last.pt"), 130, "interrupted: the state is in last.pt"),
        (Interrupted(signal.SIGTERM, "the state is in last.pt"), 143, "interrupted: the state is in last.pt"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (FileNotFoundError(2, "No such file or directory", "a.json"), 2, "error: a.json: No such file or directory"),
        (PermissionError(13, "Permission denied", "a.json"), 2, "error: a.json: Permission denied"),
        (OSError(28, "No space left on device", "last.pt"), 3, "error: last.pt: No space left on device"),
        (OSError(28, "No space left on device"), 3, "error: No space left on device"),
        (KeyError("nbs"), 3, "error: this is a bug, KeyError: 'nbs' (--debug shows where it happened)"),
    ],
)
def test_failures_become_one_sentence_and_a_code(
    error: BaseException,
    code: int,
    sentence: str,
    probe: Callable[[object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    probe(fail_with(error))

    assert main(["probe"]) == code
    assert capsys.readouterr().err == sentence + "\n"


def test_memory_that_ran_out_is_no_bug_and_says_what_helps() -> None:
    class OutOfMemoryError(RuntimeError):  # torch's class has this name
        pass

    code, sentence = describe_failure(OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nmore"))

    assert code == 3
    assert sentence.startswith("error: CUDA out of memory. Tried to allocate 2 GiB. (a smaller --batch needs less")
    assert describe_failure(MemoryError())[1].startswith("error: memory ran out (a smaller --batch")


@pytest.mark.parametrize(("words", "shown"), [([], False), (["--debug"], True)])
def test_a_traceback_comes_with_debug_only(
    words: list[str], shown: bool, probe: Callable[[object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    probe(fail_with(UserError("no")))

    assert main(["probe", *words]) == 2
    assert ("Traceback" in capsys.readouterr().err) is shown


@pytest.mark.parametrize("words", [["--json"], ["--json=true"], ["--json", "true"], ["--no-json", "--json"]])
def test_json_puts_the_result_and_nothing_else_on_standard_output(
    words: list[str], probe: Callable[[object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def run(arguments: list[str]) -> object:
        print("for people")
        return {"AP": 0.25, "per_class": [{"AP": float("nan")}]}

    probe(run)

    assert main(["probe", *words]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"AP": 0.25, "per_class": [{"AP": None}]}
    assert captured.out.count("\n") == 1 and captured.err == "for people\n"


@pytest.mark.parametrize("words", [[], ["--json", "false"], ["--json=no"], ["--json", "--no-json"]])
def test_without_json_the_result_is_not_printed(
    words: list[str], probe: Callable[[object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    probe(lambda arguments: {"AP": 0.25})

    assert main(["probe", *words]) == 0
    assert capsys.readouterr().out == ""


BAD_INPUT = {
    "train": ["--data", "no.json"],
    "plan": ["--data", "no.json"],
    "preview": ["--data", "no.json"],
    "check": ["--data", "no.json", "--no-plots"],
    "convert": ["--data", "no.json", "--to", "new"],
    "compare": ["--data", "no.json"],
    "verify": ["--data", "no.json"],
    "report": ["nowhere"],
    "status": ["nowhere"],
    "val": ["--data", "no.json", "--weights", "no.pt"],
    "predict": ["nowhere", "--weights", "no.pt"],
    "benchmark": ["data", "--data", "no.json"],
}
"""By verb: a command line that can be read, and input that cannot."""


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("is_read", [True, False])
def test_a_refusal_with_json_is_one_object_on_standard_output(
    verb: str, is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("no.json").write_text('{"info": 1}')
    words = BAD_INPUT[verb] if is_read else ["--nonsense", "1"]

    assert main([verb, "--json", *words]) == 2

    captured = capsys.readouterr()
    refusal = json.loads(captured.out)
    assert captured.out.count("\n") == 1 and refusal["exit_code"] == 2
    if verb == "check" and is_read:  # tells all faults of the data, in its own result
        assert "lacks images, annotations, categories" in refusal["findings"][0]["message"]
    else:
        assert set(refusal) == {"error", "exit_code"} and captured.err.endswith(f"error: {refusal['error']}\n")


@pytest.mark.parametrize("words", [["--json", "--no-json"], ["--json=false"], ["--json", "no"], []])
def test_a_refusal_without_json_prints_nothing_on_standard_output(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["val", *words, "--nonsense"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (TrainingError("20 updates: refused"), {"error": "20 updates: refused", "exit_code": 3}),
        (Interrupted(signal.SIGINT, "saved"), {"error": "saved", "exit_code": 130}),
        (KeyboardInterrupt(), {"error": "interrupted", "exit_code": 130}),
    ],
)
def test_every_failure_has_an_object_with_json(
    error: BaseException,
    refusal: dict[str, object],
    probe: Callable[[object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    probe(fail_with(error))

    assert main(["probe", "--json"]) == refusal["exit_code"]
    assert json.loads(capsys.readouterr().out) == refusal


def test_the_outcome_of_a_verb_decides_the_code(probe: Callable[[object], None]) -> None:
    for outcome, code in [(0, 0), (1, 1), ({"ok": True}, 0), ({"ok": False}, 1), ({}, 0)]:
        probe(lambda arguments, outcome=outcome: outcome)
        assert main(["probe"]) == code


def test_json_of_numbers_paths_and_nested_values() -> None:
    result = {"a": np.float32(0.5), "b": np.int64(3), "c": Path("runs/x"), "d": (1, float("inf")), 7: "é", "e": None}

    assert json.loads(to_json(result)) == {"a": 0.5, "b": 3, "c": "runs/x", "d": [1, None], "7": "é", "e": None}


def python(*words: str, cwd: Path, **keywords: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **keywords,  # type: ignore[call-overload]
    )


def test_help_and_refusals_are_answered_before_torch_is_loaded(tmp_path: Path) -> None:
    program = """
import sys
from yolo_accum.cli.main import main
codes = [main(words) for words in ([], ["x"], ["train", "--help"], ["train", "--batch", "0"], ["val", "--lr0", "1"])]
print(codes, "torch" in sys.modules)
"""
    output, _ = python("-c", program, cwd=tmp_path).communicate()

    assert output.splitlines()[-1] == "[0, 2, 0, 2, 2] False"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("check --data set/train.json --val-data set/val.json", 0),
        ("convert --data set/train.json --to coco --copy", 0),
        ("plan --data set/train.json --epochs 4", 0),
        ("status set", 2),
    ],
)
def test_verbs_that_compute_nothing_with_tensors_do_without_torch(words: str, code: int, tmp_path: Path) -> None:
    objects = [(0, 10, 20, 30, 40), (1, 1, 2, 3, 4)]
    write_coco(tmp_path / "set", coco_content({"a.png": objects}))
    write_coco(tmp_path / "set", coco_content({"b.jpg": objects}), "val.json")
    program = """
import sys
from yolo_accum.cli.main import main
print(main(sys.argv[1:]), "torch" in sys.modules)
"""
    output, errors = python("-c", program, *words.split(), cwd=tmp_path).communicate()

    assert output.splitlines()[-1] == f"{code} False", errors


def test_the_package_can_be_run_as_a_module(tmp_path: Path) -> None:
    process = python("-m", "yolo_accum", "--version", cwd=tmp_path)

    assert process.communicate() == ("0.1.0\n", "") and process.returncode == 0


@pytest.mark.parametrize("verb", VERBS)
def test_the_thin_entries_work_from_anywhere_without_an_installation(verb: str, tmp_path: Path) -> None:
    hide_installed = {**os.environ, "PYTHONPATH": "", "PYTHONSAFEPATH": ""}
    starter = (
        "import runpy, sys; sys.meta_path[:] = [f for f in sys.meta_path if 'Editable' not in str(f)];"
        f"sys.argv = ['x', '--help']; runpy.run_path({str(ROOT / 'tools' / f'{verb}.py')!r}, run_name='__main__')"
    )
    process = python("-c", starter, cwd=tmp_path, env=hide_installed)
    output, errors = process.communicate()

    assert process.returncode == 0, errors
    assert output.startswith(f"usage: yolo-accum {verb}")


def test_a_reader_that_goes_away_is_no_error_with_a_traceback(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [sys.executable, "-m", "yolo_accum", "--help"], cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    _, errors = process.communicate()

    assert (process.returncode, errors) == (141, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_run_the_clean_up_and_give_their_code(number: signal.Signals, code: int, tmp_path: Path) -> None:
    program = """
import sys, time, types
from yolo_accum.cli import main as m
def run(words):
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("clean", flush=True)
m.VERBS["probe"] = m.VERBS["val"]
sys.modules["yolo_accum.cli.probe"] = types.SimpleNamespace(run=run)
sys.exit(m.main(["probe", "--json"]))
"""
    process = python("-c", program, cwd=tmp_path)
    assert process.stderr is not None and process.stderr.readline() == "ready\n"  # where --json puts what a verb prints
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)

    assert json.loads(output)["exit_code"] == process.returncode == code
    assert errors.splitlines()[0] == "clean"
    assert errors.splitlines()[1].startswith("interrupted")
    assert "Traceback" not in errors
