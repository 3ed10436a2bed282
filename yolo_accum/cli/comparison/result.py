"""``compare.json``: what a comparison found, as one object. This text is its format.

Paths are relative to the folder of the file. Numbers that do not exist are null. A *run* is one arm with one seed.
Column tables (``epochs``) are lists by the names of ``epochs.csv``, null where a cell is empty. ::

    format            1
    ok                false when a run failed; one that does not fit into the memory is a finding and leaves it true
    finished          false while runs are still missing (the file is written after every run)
    verdict           one sentence: that of the first entry of ``comparisons``, or why there is none
    settings          what all arms share: data, weights, model, train_images, val_images, class_names, epochs, imgsz,
                      batch, nbs, tail, window_length, updates, warmup_updates, margin_ap, confidence, seeds [int]
    options           all options of the base run by name, as in config.yaml
    reference         name of the arm that the others are compared with
    moments           [{name, update}]: the updates whose gradients are compared, 1-based: "first", "after warm-up", ...
    warnings          [text] of the comparison as a whole; those of a run stand with it
    arms              one entry an arm, in the order of the command line
      name            also the name of its folder
      label           for people: "8 x 8, bn" (micro-batch x window)
      changes         {option: value}: what differs from ``options``
      options         all options of the arm by name
      batch, window_length, images_per_update, norm, tail
      same_windows    whether its updates take the same images as those of the base options
      activations     "kept" or "checkpointed" (also: because they would not fit otherwise; then ``notes`` says so)
      notes           [text]
      summary         {metric: {mean, sd, num}} over the finished runs, for the twelve COCO numbers, images_per_s,
                      peak_memory_mib, wall_s; sd is null for one run
      per_class       [{name, id, boxes, AP, AP50}], means over the finished runs
      runs            one entry a seed
        seed
        status        "finished", "failed", "does not fit" or "missing" (not run yet)
        message       why it failed or does not fit, else null
        folder, log   "large/seed0" (a run folder as `train` makes it) and "large/seed0.log"
        updates_csv   "large/seed0/updates.csv": one row an attempted update; null where there is none
        epochs        epochs.csv by column: epoch (0-based), images, loss_box ..., AP, AP50 ..., train_s ...
        metrics       the twelve COCO numbers of the best weights
        per_class     [{name, id, boxes, AP, AP50}] of the best weights
        best_epoch    1-based
        last_epoch    the COCO numbers of the last epoch that was evaluated
        updates       {attempted, applied, skipped}; images_seen, images_dropped
        images_per_s, peak_memory_mib, wall_s (training and evaluation, also over interruptions)
        run_card      content of run_card.json
        warnings      [text]: lines of the log that begin with "warning:" or "notice:", without that word
    comparisons       one entry an arm that is not the reference
      arm, reference
      same_windows    whether both follow the same windows; else updates cannot be compared one by one
      differences     {metric: {mean, low, high, sd, num, values [by seed]}}: arm minus reference, paired over the seeds
                      that both finished; low..high is the confidence interval, null for one pair. Metrics as in
                      ``summary``
      per_class       [{name, AP: {mean, low, high, ...}}]
      verdict         {kind, metric "AP", sentence}; kind is "equal", "better", "worse", "not enough runs", "no runs" or
                      "nothing learned"
      loss            null, or {num_updates, largest, by_seed [{seed, largest_relative_difference, at_update,
                      relative_differences [..]}]}: loss of the first updates, |arm - reference| / |reference|
      gradients       [{seed, moment, update, overall, parts}]: gradients of one window before clipping, the arm's
                      against the reference's: overall {cosine, relative_difference, norm_ratio, norm, reference_norm},
                      parts {"stem": {the same}, ...} in the order of the network
    verify            null, or where differences come from on the start weights, one window of nbs images: the result of
                      `verify` without run and files: {ok, settings, checks, large_batches, comparisons}
    files             {"compare": "compare.json", "table": "compare.csv", "page": "compare.html"}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from yolo_accum.cli.comparison.memory import read_activations
from yolo_accum.cli.comparison.pairs import compare_arms
from yolo_accum.cli.comparison.runs import RunState
from yolo_accum.cli.comparison.setup import Comparison, PlannedRun
from yolo_accum.cli.training.starting import RUN_CARD
from yolo_accum.config.arms import Arm, reference_of
from yolo_accum.config.load import to_mapping
from yolo_accum.contracts import METRIC_NAMES
from yolo_accum.metrics.paired import CONFIDENCE, spread
from yolo_accum.report.records import UPDATES_FILE, read_epochs

FORMAT = 1
COSTS = ("images_per_s", "peak_memory_mib", "wall_s")
NUMBERS = (*METRIC_NAMES, *COSTS)
"""What is averaged and compared."""
FILES = {"compare": "compare.json", "table": "compare.csv", "page": "compare.html"}
States = Mapping[tuple[str, int], RunState]
"""By arm and seed."""


def build_result(
    comparison: Comparison, states: States, verify: Mapping[str, Any] | None, warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """The object that is described above, from what lies in the run folders by now."""
    config, plan = comparison.config, comparison.plan
    arms = [_arm(comparison, arm, states) for arm in comparison.arms]
    reference, replaced = _reference(comparison, arms)
    comparisons = [compare_arms(comparison, arm, reference, NUMBERS) for arm in arms if arm is not reference]
    statuses = [run["status"] for arm in arms for run in arm["runs"]]
    base_images = [images for images in plan.image_ranges() if not images.dropped]
    return {
        "format": FORMAT,
        "ok": "failed" not in statuses,
        "finished": not {"missing", "running"} & set(statuses),
        "verdict": comparisons[0]["verdict"]["sentence"],
        "settings": {
            "data": str(comparison.splits.train.source),
            "weights": config.model.weights,
            "model": config.model.model or _model_size(arms),
            "train_images": plan.num_images,
            "val_images": len(comparison.splits.val or ()),
            "class_names": list(comparison.splits.train.class_names),
            "epochs": config.optim.epochs,
            "imgsz": config.data.imgsz,
            "batch": plan.batch,
            "nbs": plan.nbs,
            "tail": plan.tail,
            "window_length": plan.window_length_nominal,
            "updates": plan.num_updates,
            "warmup_updates": sum(images.start < plan.warmup_images for images in base_images),
            "margin_ap": comparison.compare.margin,
            "confidence": CONFIDENCE,
            "seeds": list(comparison.seeds),
        },
        "options": to_mapping(config),
        "reference": reference["name"],
        "moments": [asdict(moment) for moment in comparison.moments],
        "warnings": [*warnings, *replaced],
        "arms": arms,
        "comparisons": comparisons,
        "verify": verify,
        "files": FILES,
    }


def _reference(comparison: Comparison, arms: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The arm that the others are compared with; the first that has finished where the chosen one could not."""
    chosen = reference_of(comparison.arms, comparison.compare)
    by_name = {arm["name"]: arm for arm in arms}
    statuses = {run["status"] for run in by_name[chosen]["runs"]}
    finished = next((arm for arm in arms if any(run["status"] == "finished" for run in arm["runs"])), None)
    if finished is None or statuses - {"failed", "does not fit"}:
        return by_name[chosen], []
    reason = by_name[chosen]["runs"][0]["message"]
    return finished, [
        f"{chosen} came to its end with no seed ({reason}), so that the arms are compared with {finished['name']}"
    ]


def _arm(comparison: Comparison, arm: Arm, states: States) -> dict[str, Any]:
    plan, options = comparison.plans[arm.name], to_mapping(arm.config)
    activations = read_activations(comparison.folder / arm.name)
    same_windows = comparison.same_windows[arm.name]
    runs = [_run(comparison, run, states[run.arm, run.seed]) for run in comparison.runs_of(arm)]
    finished = [run for run in runs if run["status"] == "finished"]
    notes = [] if same_windows else ["its windows are not those of the base options"]
    checkpointed = arm.config.model.checkpoint_activations or (activations is not None and activations.checkpointed)
    return {
        "name": arm.name,
        "label": f"{plan.batch} x {plan.window_length_nominal}, {arm.config.norm.norm}",
        "changes": dict(arm.changes),
        "options": options,
        "batch": plan.batch,
        "window_length": plan.window_length_nominal,
        "images_per_update": plan.full_window_images,
        "norm": arm.config.norm.norm,
        "tail": plan.tail,
        "same_windows": same_windows,
        "activations": "checkpointed" if checkpointed else "kept",
        "notes": [*notes, *([activations.note] if activations is not None and activations.note else [])],
        "summary": {name: _spread([_number(run, name) for run in finished]) for name in NUMBERS},
        "per_class": _mean_per_class([run["per_class"] for run in finished]),
        "runs": runs,
    }


def _run(comparison: Comparison, run: PlannedRun, state: RunState) -> dict[str, Any]:
    folder = run.folder
    card, metrics = _read_json(folder / RUN_CARD), _read_json(folder / "metrics.json")
    epochs = {name: column.tolist() for name, column in read_epochs(folder).items()}
    counters = card.get("counters", {})
    train_s, val_s = (sum(epochs.get(name, [])) for name in ("train_s", "val_s"))
    seen = sum(epochs.get("images", []))
    return {
        "seed": run.seed,
        "status": state.status,
        "message": state.message,
        "folder": str(folder.relative_to(comparison.folder)),
        "log": str(run.log.relative_to(comparison.folder)),
        "updates_csv": str((folder / UPDATES_FILE).relative_to(comparison.folder))
        if (folder / UPDATES_FILE).is_file()
        else None,
        "epochs": epochs,
        "metrics": {name: metrics.get(name) for name in METRIC_NAMES},
        "per_class": metrics.get("per_class", []),
        "best_epoch": card.get("best", {}).get("epoch"),
        "last_epoch": {name: epochs[name][-1] for name in METRIC_NAMES if epochs.get(name)},
        "updates": {name: counters.get(f"updates_{name}") for name in ("attempted", "applied", "skipped")},
        "images_seen": counters.get("images_seen"),
        "images_dropped": counters.get("images_dropped"),
        "images_per_s": seen / train_s if train_s else None,
        "peak_memory_mib": max(epochs.get("peak_memory_mib", []), default=None),
        "wall_s": train_s + val_s if epochs else None,
        "run_card": card,
        "warnings": _warnings(run.log),
    }


def _number(run: Mapping[str, Any], name: str) -> float | None:
    value = run["metrics"][name] if name in METRIC_NAMES else run[name]
    return None if value is None else float(value)


def _model_size(arms: Sequence[Mapping[str, Any]]) -> str | None:
    """That of the weights, as the run cards have it; None before the first run has ended."""
    cards = (run["run_card"] for arm in arms for run in arm["runs"])
    return next((card["settings"]["model"].split(",")[0] for card in cards if card), None)


def _spread(values: Sequence[float | None]) -> dict[str, Any] | None:
    found = spread([value for value in values if value is not None])
    return None if found is None else asdict(found)


def _mean_per_class(tables: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Means of every class over runs on the same validation set."""
    rows = []
    for same_class in zip(*tables, strict=True):
        means = {}
        for name in (name for name in same_class[0] if name.startswith("AP")):
            found = spread([row[name] for row in same_class if row[name] is not None])
            means[name] = None if found is None else found.mean
        rows.append({**same_class[0], **means})
    return rows


def _warnings(log: Path) -> list[str]:
    """What a run warned of, each once, also where it was told again when the run went on."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    told = [line.partition(": ")[2] for line in lines if line.startswith(("warning: ", "notice: "))]
    return list(dict.fromkeys(told))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content
    except (OSError, ValueError):
        return {}
