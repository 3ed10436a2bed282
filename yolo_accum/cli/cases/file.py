"""What may stand in a ``case.json``: a word that nobody reads would pass for something that was tested."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yolo_accum.errors import UserError

ACCEPT, WARN, REJECT = "accept", "accept_with_warning", "reject"
VERDICTS = (ACCEPT, WARN, REJECT)

EVALUATION = "coco-eval"
_NEEDED_PATHS = {"coco": ("train_json",), "yolo": ("data_yaml",), EVALUATION: ("gt", "detections")}
"""By format."""

_COUNT = re.compile(r"(train|val|test)_(images|boxes)(_if_accepted|_if_left_out)?")
_EXPECTATIONS = frozenset(
    [
        "classes",
        "classes_one_of",
        "category_ids",
        "boxes",
        "boxes_if_accepted",
        "boxes_by_name",
        "boxes_second_run",
        "boxes_after_hflip",
        "crowd_boxes",
        "background_images",
        "missing_label_files",
        "empty_label_files",
        "tolerance_px",
        "frame",
        "luminance_only",
        "min_contrast_8bit",
        "steps_per_epoch",
        "steps_per_epoch_if_flushed",
        "steps_total_if_flushed",
        "steps_total_if_carried",
        "samples_per_epoch",
        "all_losses_finite",
        "all_weights_finite",
        "weights_must_change",
        "metric",
        "AP",
        "AP50",
        "per_class",
        "AP_at_100",
        "AP_at_300",
        "AP_of_own_round_trip",
        "ap_of_perfect_detections",
    ]
)
_SCORES = frozenset({"AP", "AP50", "per_class", "AP_at_100", "AP_at_300", "AP_of_own_round_trip"})
_OWN_DETECTIONS = ("detections_by_file_name", "detections_by_class_index")


def read_case_file(path: Path) -> Mapping[str, Any]:
    """The content, of which verdict, format, paths and expectations are known to be understood.

    Raises:
        UserError: something in it is missing or not understood.
    """
    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"case.json cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise UserError("case.json must hold an object")
    _require_verdicts(content)
    kind = content.get("format")
    if kind not in _NEEDED_PATHS:
        raise UserError(f'"format" is {json.dumps(kind)}; known are {", ".join(_NEEDED_PATHS)}')
    paths = content.get("paths")
    if not isinstance(paths, dict) or not all(isinstance(place, str) for place in paths.values()):
        raise UserError('"paths" must be an object with a path for every name')
    missing = [name for name in _NEEDED_PATHS[kind] if name not in paths]
    if missing:
        raise UserError(f'"paths" lacks {", ".join(missing)}')
    _require_expectations(content)
    return content


def _require_verdicts(content: Mapping[str, Any]) -> None:
    also = content.get("also_ok") or []
    for verdict in [content.get("verdict"), *(also if isinstance(also, list) else [also])]:
        if verdict not in VERDICTS:
            raise UserError(f"the verdict {json.dumps(verdict)} is not known; there are {', '.join(VERDICTS)}")


def _require_expectations(content: Mapping[str, Any]) -> None:
    expect = content.get("expect") or {}
    if not isinstance(expect, dict):
        raise UserError('"expect" must be an object')
    unknown = [name for name in expect if name not in _EXPECTATIONS and not _COUNT.fullmatch(name)]
    if unknown:
        raise UserError(f'"expect" holds {", ".join(unknown)}, which nothing is compared with')
    is_scored = content["format"] == EVALUATION and content["verdict"] != REJECT
    if is_scored and not _SCORES.intersection(expect) and not any(name in content for name in _OWN_DETECTIONS):
        raise UserError(f'"expect" states no score ({", ".join(sorted(_SCORES))})')
