"""`verify`: how far gradients of micro-batches agree with those of the large batch, on the user's own data."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from yolo_accum.cli.embedded import embedded_data
from yolo_accum.cli.output import write_json
from yolo_accum.cli.run_folder import make_run_folder
from yolo_accum.cli.verify_runs import Comparison, Verification, load_window
from yolo_accum.cli.wiring import build_detector, choose_device, environment, use_threads
from yolo_accum.config.verify_arguments import VerifyArguments, parse_verify
from yolo_accum.data.description import open_data
from yolo_accum.report import tables
from yolo_accum.report.agreement_plot import plot_agreement
from yolo_accum.report.console import Console


def run(argv: Sequence[str]) -> Mapping[str, Any]:
    """Compare as the options say; ``ok`` is whether everything that must be exact is."""
    arguments = parse_verify(argv)
    with Console(as_json=arguments.json) as console:
        start_s = time.perf_counter()
        device = choose_device(arguments.run.device)
        use_threads(arguments.run.threads)
        default = embedded_data(console) if arguments.data.data is None else None
        splits = open_data(arguments.data, default_data=default)
        for finding in splits.findings:
            console.on_message(f"{finding.kind.severity}: {finding}")
        samples = load_window(splits.train, arguments)
        _, model_size, summary = build_detector(arguments.model, splits.train.class_names)
        console.on_message(NEW_WEIGHTS if summary is None else str(summary))

        verification = Verification(arguments, splits.train.class_names, samples, device)
        with console.progress("windows", verification.num_windows) as progress:
            verification.carry_out(progress)
        folder = make_run_folder(arguments.run)
        settings = {
            "model": model_size,
            "weights": arguments.model.weights,
            "data": str(splits.train.source),
            "images": arguments.accumulation.nbs,
            "imgsz": arguments.data.imgsz,
            "seed": arguments.run.seed,
            "large_batch": "checkpointed activations" if verification.is_large_checkpointed else "plain",
            "device": environment(device)["device"],
            "seconds": round(time.perf_counter() - start_s, 1),
        }
        return _report(arguments, verification, settings, folder, console)


NEW_WEIGHTS = (
    "notice: without --weights these are the gradients of an untrained network, which resemble those of a training "
    "little"
)


def _report(
    arguments: VerifyArguments, done: Verification, settings: dict[str, Any], folder: Path, console: Console
) -> Mapping[str, Any]:
    """Tables for people, verify.json, verify.png, and the result."""
    ok = all(check.holds for check in done.checks)
    files = {"verify": folder / "verify.json"}
    comparisons = [_as_dict(item) for item in done.comparisons]
    result = {
        "ok": ok,
        "settings": settings,
        "checks": [asdict(check) for check in done.checks],
        "large_batches": done.large_batches(),
        "comparisons": comparisons,
    }
    if arguments.run.plots:
        files["picture"] = plot_agreement(comparisons, arguments.accumulation.nbs, folder / "verify.png")
    write_json(files["verify"], result)

    console.terminal.print(tables.pairs("Compared", {name: str(value) for name, value in settings.items()}))
    title = "Gradients of one window against those of the large batch (of bn for bn, cmbn, wrn; else of the same norm)"
    console.terminal.print(tables.columns(title, HEADERS, [_row(item) for item in done.comparisons]))
    parts = list(done.comparisons[0].parts) if done.comparisons else []
    by_part = [
        [item.label, str(item.micro_batch), *(f"{item.parts[part].cosine:.3f}" for part in parts)]
        for item in done.comparisons
        if not item.is_exact_by_design
    ]
    console.terminal.print(tables.columns("Cosine by part", ["norm", "micro-batch", *parts], by_part))
    for check in done.checks:
        console.on_message(f"{'holds' if check.holds else 'error: does NOT hold'}: {check.text}")
    for name, path in files.items():
        console.on_message(f"{name}: {path}")
    return {**result, "run": folder, "files": files}


HEADERS = ("norm", "loss over", "micro-batch", "cosine", "rel. difference", "norm ratio", "s", "peak MiB")


def _row(item: Comparison) -> list[str]:
    overall = item.overall
    memory = item.peak_memory_mib
    return [
        item.norm,
        "micro-batch" if item.mean_of_means else "window",
        str(item.micro_batch),
        f"{overall.cosine:.4f}",
        f"{overall.relative_difference:.2g}",
        f"{overall.norm_ratio:.4f}",
        f"{item.seconds:.1f}",
        f"{memory:.0f}" if memory is not None else "-",
    ]


def _as_dict(item: Comparison) -> dict[str, Any]:
    return {**asdict(item), "label": item.label, "is_exact_by_design": item.is_exact_by_design}
