"""`yolo-accum VERB ...`: finds the verb, runs it, and turns its outcome into output and an exit code.

A verb is a module of this package with ``run(argv) -> int | Mapping``: an exit code, or the result that ``--json``
prints; a verb that fails has the result ``{"error": ..., "exit_code": ...}``. A result with ``ok: False`` is a check
that did not hold; with ``exit_code`` it names the code itself. The options are read here first, so that a wrong one or
``--help`` is answered at once; then the module of the verb, and no other, is imported.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn, Protocol

import yolo_accum
from yolo_accum.cli.entry import answering, imports_end_at_once
from yolo_accum.cli.failures import (
    BAD_INPUT,
    BROKEN_PIPE,
    CHECK_FAILED,
    DONE,
    FAILED,
    describe_failure,
    exit_code,
)
from yolo_accum.cli.output import to_json, wants_json
from yolo_accum.config.arguments import parse_predict, parse_train, parse_val
from yolo_accum.config.benchmark_arguments import parse_data_benchmark
from yolo_accum.config.check_arguments import parse_check
from yolo_accum.config.compare_arguments import parse_compare
from yolo_accum.config.convert_arguments import parse_convert
from yolo_accum.config.options import as_typed, closest
from yolo_accum.config.plan_arguments import parse_plan
from yolo_accum.config.preview_arguments import parse_preview
from yolo_accum.config.report_arguments import parse_report
from yolo_accum.config.status_arguments import parse_status
from yolo_accum.config.verify_arguments import parse_verify
from yolo_accum.errors import UserError


class Arguments(Protocol):
    """What the options of every verb have in common."""

    @property
    def json(self) -> bool: ...


class Verb(NamedTuple):
    """A module of this package, by what it does and what it understands."""

    summary: str
    parse: Callable[[Sequence[str]], Arguments]


def _parse_benchmark(words: Sequence[str]) -> Arguments:
    """What is to be measured, then its options; the verb itself knows what it can measure, and its help."""
    is_help = list(words[:1]) in (["-h"], ["--help"])
    if list(words[:1]) == ["data"]:
        return parse_data_benchmark(list(itertools.dropwhile(lambda word: not word.startswith("-"), words)))
    return parse_train([] if is_help else list(itertools.dropwhile(lambda word: not word.startswith("-"), words)))


VERBS = {
    "train": Verb("train a detector; without options on the embedded data set", parse_train),
    "plan": Verb("show the updates of a run before it starts", parse_plan),
    "preview": Verb("show training pictures as the network sees them, with their boxes", parse_preview),
    "check": Verb("look a data set over: what is odd, and what follows for training", parse_check),
    "convert": Verb("write a data set of any known kind as COCO JSON", parse_convert),
    "compare": Verb("train with micro-batches and with the large batch, and compare", parse_compare),
    "verify": Verb("compare gradients of micro-batches with the large batch's", parse_verify),
    "report": Verb("make the page of a run or comparison again, from its files", parse_report),
    "status": Verb("show where runs are: while they train, or afterwards", parse_status),
    "val": Verb("measure a detector on a validation split: the COCO numbers", parse_val),
    "predict": Verb("detect objects in your pictures", parse_predict),
    "benchmark": Verb("measure training over a bare loop, its memory, and the data layer", _parse_benchmark),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb.

    Args:
        argv: the words after the program's name; those of the process by default.
    Returns:
        The exit code: 0 done, 1 a check did not hold, 2 bad input, 3 training failed, 130 or 143 interrupted.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us: what is said goes nowhere
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - it lives as long as the process
        if isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # file names need not be text in the terminal's encoding
    try:
        code = _exit_code(words)
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"error: standard output: {error.strerror}", file=sys.stderr)
            return FAILED
        # Whoever read our output has gone. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


def _exit_code(words: list[str]) -> int:
    """Run a verb and tell what went wrong, if something did."""
    try:
        with answering(signal.SIGTERM, _unwind):  # a replica on its way out ignores it to the end
            return _run(words)
    except BrokenPipeError:
        raise
    except _Terminated as ending:
        code = exit_code(ending)
        _tell("interrupted: ended by SIGTERM", code, words)
        return code
    except SystemExit as ending:  # --help
        return exit_code(ending)
    except (Exception, KeyboardInterrupt) as error:
        code, sentence = describe_failure(error)
        if any(word.partition("=")[0] == "--debug" for word in words):
            traceback.print_exception(error)
        _tell(sentence, code, words)
        return code


def _tell(sentence: str, code: int, words: Sequence[str]) -> None:
    """Say why there is no result, to people and, if they wish so, to programs."""
    print(sentence, file=sys.stderr)
    if wants_json(words):
        print(to_json({"error": sentence.partition(": ")[2] or sentence, "exit_code": code}))


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return DONE
    if words[0] == "--version":
        print(yolo_accum.__version__)
        return DONE
    verb, *rest = words
    if verb not in VERBS:
        raise UserError(f"{verb}: there is no such verb{closest(verb, VERBS)}; there are: {', '.join(VERBS)}")
    as_json = _parse(verb, rest).json
    with imports_end_at_once():
        module = importlib.import_module(f"yolo_accum.cli.{verb}")
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        outcome = module.run(rest)
    if not isinstance(outcome, Mapping):
        return int(outcome)
    if as_json:
        print(to_json(outcome))
    return int(outcome.get("exit_code", CHECK_FAILED if outcome.get("ok") is False else DONE))


def _parse(verb: str, words: Sequence[str]) -> Arguments:
    """The options. All replicas read the same ones, so the first alone tells what is wrong with them."""
    try:
        return VERBS[verb].parse(words)
    except UserError as error:
        if os.environ.get("RANK", "0") != "0":
            raise SystemExit(BAD_INPUT) from None
        raise UserError(as_typed(str(error), words)) from error


def _overview() -> str:
    lines = [
        "usage: yolo-accum VERB [--option value ...]",
        "",
        "Trains object detectors; gradient accumulation is planned, exact and recorded.",
        "",
        *(f"  {name:<11}{verb.summary}" for name, verb in VERBS.items()),
        "",
        "yolo-accum VERB --help lists the options of a verb.",
    ]
    return "\n".join(lines)


class _Terminated(SystemExit):
    """SIGTERM has come; ``code`` is the exit code."""


def _unwind(number: int, frame: FrameType | None) -> NoReturn:
    """End the program through its ``finally`` clauses: worker processes stop, the terminal is put in order."""
    raise _Terminated(128 + number)
