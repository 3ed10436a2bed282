"""One run on a GPU of what the tests can only try on a CPU: each check by itself, a table and JSON at the end.

Needs torch, numpy, OpenCV and PyYAML, no data and no weights.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from yolo_accum.cli.failures import BAD_INPUT, CHECK_FAILED, DONE
from yolo_accum.cli.gpu_checks import numbers, resources
from yolo_accum.cli.gpu_checks.setup import Outcome, Setup
from yolo_accum.cli.output import to_json, write_json

CHECKS: dict[str, Callable[[Setup], Outcome]] = {
    "accumulation": numbers.check_accumulation,
    "fp16": numbers.check_fp16,
    "bf16": numbers.check_bf16,
    "channels-last": numbers.check_channels_last,
    "norms": numbers.check_norms,
    "checkpointed": numbers.check_checkpointed,
    "memory": resources.check_memory,
    "speed": resources.check_speed,
    "compile": numbers.check_compile,
    "out-of-memory": resources.check_out_of_memory,
}
"""By name, in the order in which they run: what could spoil the others comes last."""
LIMIT_S = 420.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks.

    Args:
        argv: options; those of the process by default.
    Returns:
        The exit code: 0 all hold, 1 one does not, 2 bad input.
    """
    arguments = _parser().parse_args(argv)
    unknown = [name for name in arguments.only.split(",") if name and name not in CHECKS]
    if unknown:
        return _refuse(f"--only {unknown[0]}: there is no such check; there are: {', '.join(CHECKS)}")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        return _refuse("--device cuda: there is no CUDA GPU here; --device cpu carries the checks out in reduced form")
    is_cuda = arguments.device != "cpu" and torch.cuda.is_available()
    setup = choose_setup(torch.device("cuda", 0) if is_cuda else torch.device("cpu"), reduced=arguments.reduced)
    names = [name for name in CHECKS if not arguments.only or name in arguments.only.split(",")]
    out = Path(arguments.out) if arguments.out else None
    try:
        report = run_checks(setup, names, limit_s=arguments.limit_s, out=out)
    except OSError as error:
        return _refuse(f"--out {arguments.out}: {error.strerror or error}")
    print(table(report), file=sys.stderr if arguments.json else sys.stdout)
    if arguments.json:
        print(to_json(report))
    return DONE if report["ok"] else CHECK_FAILED


def choose_setup(device: torch.device, *, reduced: bool) -> Setup:
    """Sizes: 64 images of 320 px fit into 8 GiB; a CPU always gets the reduced ones."""
    if reduced or device.type == "cpu":
        return Setup(device=device, reduced=True, model="yolox_nano", size_px=64, batch=2, nbs=4)
    return Setup(device=device, reduced=False, model="yolox_nano", size_px=320, batch=8, nbs=64)


def run_checks(
    setup: Setup, names: Sequence[str], *, limit_s: float = LIMIT_S, out: Path | None = None
) -> dict[str, Any]:
    """Carry out checks one by one; what one raises fails that one only.

    Args:
        setup: where, and how large.
        names: of `CHECKS`.
        limit_s: no check begins later; it counts as failed.
        out: JSON file, written after every check, so that a run that is cut off leaves what it has.
    Raises:
        OSError: the file cannot be written.
    """
    start_s = time.perf_counter()
    report: dict[str, Any] = {"ok": False, "environment": _environment(setup), "checks": {}}
    for name in names:
        check_start_s = time.perf_counter()
        if check_start_s - start_s > limit_s:
            outcome = Outcome(ok=False, text=f"not begun: {limit_s:g} s are over", figures={})
        else:
            print(f"{name} ...", file=sys.stderr, flush=True)
            outcome = _guarded(CHECKS[name], setup)
        report["checks"][name] = {
            "ok": bool(outcome.ok),
            "text": outcome.text,
            "figures": dict(outcome.figures),
            "seconds": time.perf_counter() - check_start_s,
        }
        report["ok"] = all(item["ok"] for item in report["checks"].values()) and len(report["checks"]) == len(names)
        if out is not None:
            write_json(out, report)
    report["seconds"] = time.perf_counter() - start_s
    if out is not None:
        write_json(out, report)
    return report


def table(report: dict[str, Any]) -> str:
    """The report for people, a line a check."""
    environment = report["environment"]
    lines = [f"{environment['device']}, torch {environment['torch']}, {environment['sizes']}"]
    lines += [
        f"{'ok  ' if item['ok'] else 'FAIL'}  {name:<14}{item['seconds']:6.1f} s  {item['text']}"
        for name, item in report["checks"].items()
    ]
    num_ok = sum(item["ok"] for item in report["checks"].values())
    return "\n".join([*lines, f"{num_ok} of {len(report['checks'])} checks hold, {report['seconds']:.0f} s"])


def _guarded(check: Callable[[Setup], Outcome], setup: Setup) -> Outcome:
    try:
        return check(setup)
    except Exception as error:  # whatever it is, the other checks are to be seen
        sentence = " ".join(str(error).split())[:300]
        return Outcome(ok=False, text=f"{type(error).__name__}: {sentence}", figures={})
    finally:
        gc.collect()
        if setup.device.type == "cuda":
            torch.cuda.empty_cache()


def _environment(setup: Setup) -> dict[str, Any]:
    is_cuda = setup.device.type == "cuda"
    return {
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "device": torch.cuda.get_device_name(setup.device) if is_cuda else "cpu",
        "reduced": setup.reduced,
        "sizes": f"{setup.model}, {setup.size_px} px, micro-batch {setup.batch}, window of {setup.nbs} images"
        + (", reduced" if setup.reduced else ""),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpu_check.py", description="Checks training on one CUDA GPU, in less than eight minutes."
    )
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: cuda where there is one"
    )
    parser.add_argument("--reduced", action="store_true", help="tiny sizes, as always on a CPU")
    parser.add_argument("--only", default="", metavar="NAMES", help=f"some of {','.join(CHECKS)}")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, help="no check begins after so many seconds (420)")
    parser.add_argument("--out", metavar="FILE", help="JSON file, written after every check")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object on standard output")
    return parser


def _refuse(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return BAD_INPUT
