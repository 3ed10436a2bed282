"""Detections of a case, measured by `val --predictions`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.cli.cases.commands import run_verb
from yolo_accum.cli.cases.file import REJECT
from yolo_accum.cli.cases.setup import Case
from yolo_accum.cli.failures import BAD_INPUT
from yolo_accum.config.schema import DataConfig
from yolo_accum.contracts import DetectionIndex, Detections
from yolo_accum.data.description import open_truth
from yolo_accum.metrics.predictions import write_predictions

_TOLERANCE = 0.002
EVALUATORS = ("hotcoco", "pycocotools")


def wrong_scores(case: Case, scratch: Path) -> Iterator[str]:
    """What is wrong with the numbers of a pair of ground truth and detections."""
    expect, paths = case.expect, case.content["paths"]
    truth, detections = case.folder / paths["gt"], case.folder / paths["detections"]
    limit = case.content.get("max_dets")
    options = ["--max-det", str(max(limit) if isinstance(limit, list) else limit)] if limit else []
    for evaluator in EVALUATORS:
        yield from _compare(case, truth, detections, [*options, "--evaluator", evaluator], expect, scratch)
    for name, max_det in (("AP_at_100", 100), ("AP_at_300", 300)):
        if name in expect:
            wanted = {"AP": expect[name]}
            yield from _compare(case, truth, detections, ["--max-det", str(max_det)], wanted, scratch)
    index, _ = open_truth(DataConfig(data=str(truth)))
    for key, rows in (
        ("detections_by_file_name", {Path(path).name: row for row, path in enumerate(index.image_paths)}),
        ("detections_by_class_index", dict(zip(index.image_ids, range(len(index)), strict=True))),
    ):
        if key in case.content:
            written = scratch / f"{key}.json"
            write_predictions(written, index, _detections(case.content[key], rows, index))
            yield from _compare(case, truth, written, [], {"AP": 1.0}, scratch)
    if "AP_of_own_round_trip" in expect:
        written = scratch / "own.json"
        write_predictions(written, index, perfect_detections(index))
        yield from _compare(case, truth, written, [], {"AP": expect["AP_of_own_round_trip"]}, scratch)


def wrong_perfect_score(case: Case, truth: Path, images: Path, scratch: Path) -> Iterator[str]:
    """What is wrong when the objects of a split are scored as its detections."""
    index, _ = open_truth(DataConfig(data=str(truth), images=str(images)))
    written = scratch / "perfect.json"
    write_predictions(written, index, perfect_detections(index))
    wanted = {"AP": case.expect["ap_of_perfect_detections"]}
    for evaluator in EVALUATORS:
        yield from _compare(case, truth, written, ["--images", str(images), "--evaluator", evaluator], wanted, scratch)


def perfect_detections(index: DetectionIndex) -> list[Detections]:
    """What a detector would answer that finds every object and nothing else."""
    found = []
    for image in range(len(index)):
        rows = index.rows(image)
        single = ~index.is_crowd[rows]
        boxes = index.boxes_xyxy_px[rows][single].astype(np.float32)
        found.append(
            Detections(
                boxes_xyxy_px=boxes,
                scores=np.linspace(0.9, 0.6, len(boxes), dtype=np.float32),
                labels=index.labels[rows][single].astype(np.int64),
                image_index=image,
            )
        )
    return found


def _detections(items: Sequence[Mapping[str, Any]], rows: Mapping[Any, int], index: DetectionIndex) -> list[Detections]:
    """Those that a case lists by picture and by class number or category id, as a detector would return them."""
    label_of_id: dict[Any, int] = {number: label for label, number in enumerate(index.class_ids)}
    found = []
    for row in sorted(set(rows.values())):
        mine = [item for item in items if rows[item.get("file_name", item.get("image_id"))] == row]
        boxes = np.array([item["bbox"] for item in mine], np.float64).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        labels = [item.get("class_index", label_of_id.get(item.get("category_id"), -1)) for item in mine]
        found.append(
            Detections(
                boxes_xyxy_px=boxes.astype(np.float32),
                scores=np.array([item["score"] for item in mine], np.float32),
                labels=np.array(labels, np.int64),
                image_index=row,
            )
        )
    return found


def _compare(
    case: Case, truth: Path, detections: Path, options: Sequence[str], expect: Mapping[str, Any], scratch: Path
) -> Iterator[str]:
    words = ["val", "--data", str(truth), "--predictions", str(detections), *options, "--project", str(scratch / "val")]
    outcome = run_verb(words, case.working_folder)
    told = f"val {' '.join(options)}".strip()
    pieces = case.content.get("message_must_name") or []
    silent = [piece for piece in pieces if piece not in outcome.text]
    if outcome.code:
        if outcome.code != BAD_INPUT or REJECT not in case.allowed or outcome.bare_traceback:
            yield f"{told} ends with exit code {outcome.code}: {outcome.text.strip()[-200:]}"
        elif silent:
            yield f"{told}: the refusal does not name {', '.join(silent)}"
        return
    if case.allowed == {REJECT}:
        yield f"{told} is carried out, expected {REJECT}"
    for name in ("AP", "AP50"):
        if name in expect and not _is_same(outcome.result[name], expect[name]):
            yield f"{told}: {name} is {json.dumps(outcome.result[name])}, expected {json.dumps(expect[name])}"
    per_class = {item["name"]: item["AP"] for item in outcome.result["per_class"]}
    for name, wanted in (expect.get("per_class") or {}).items():
        value = per_class.get(name, "missing")
        if not _is_same(value, wanted):
            yield f"{told}: AP of {name} is {value}, expected {json.dumps(wanted)}"
    if silent and "--max-det" not in options:
        yield f"{told}: the messages do not name {', '.join(silent)}"


def _is_same(value: Any, wanted: float | None) -> bool:
    """A score that is undefined (null) is not 0."""
    if wanted is None:
        return value is None
    return isinstance(value, int | float) and abs(value - wanted) <= _TOLERANCE
