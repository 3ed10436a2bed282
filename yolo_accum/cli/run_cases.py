"""Runs a folder of cases, faulty data sets that say in ``case.json`` what must happen, and tells which ones pass.

Each is run as a user would: `check`, `convert` and `train` on its data, `val` on its detections. A case passes when
verdict, messages, counts, boxes and numbers are those that it states, when a refusal came before the first
micro-batch, and when no file of it has changed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from yolo_accum.cli.cases.commands import Outcome, run_verb
from yolo_accum.cli.cases.data import ReadSplit, lowest_contrast, read_split, wrong_boxes, wrong_pixels
from yolo_accum.cli.cases.file import ACCEPT, EVALUATION, REJECT, WARN
from yolo_accum.cli.cases.flip import wrong_after_flip
from yolo_accum.cli.cases.scoring import wrong_perfect_score, wrong_scores
from yolo_accum.cli.cases.setup import Case, apply_edit, find_cases, prepare_case, tree_digest
from yolo_accum.cli.cases.training import wrong_in_training
from yolo_accum.cli.failures import BAD_INPUT, CHECK_FAILED, DONE
from yolo_accum.data.formats.data_yaml import SPLITS
from yolo_accum.errors import UserError
from yolo_accum.report.console import Console

_TRAIN_DEFAULTS = {"batch": 4, "nbs": 4, "epochs": 1, "imgsz": 64}
"""Enough for a case that is not about the loop."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run all cases of a folder; exit code 1 when one fails."""
    parser = argparse.ArgumentParser(prog="run_cases", description=__doc__)
    parser.add_argument("folder", type=Path, help="holds a folder a case, each with its case.json")
    parser.add_argument("ids", nargs="*", help="run only the cases whose names begin with one of these")
    arguments = parser.parse_args(argv)
    num_failed = 0
    with Console() as console:
        try:
            sources = find_cases(arguments.folder)
        except UserError as error:
            console.terminal.print(f"error: {error}", markup=False)
            return BAD_INPUT
        strange = [name for name in arguments.ids if not any(path.name.startswith(name) for path in sources)]
        if strange:
            console.terminal.print(f"error: no case begins with {', '.join(strange)}", markup=False)
            return BAD_INPUT
        sources = [path for path in sources if not arguments.ids or path.name.startswith(tuple(arguments.ids))]
        with console.progress("cases", len(sources)) as progress:
            for number, source in enumerate(sources, 1):
                wrong = run_case(source)
                num_failed += bool(wrong)
                console.on_message(
                    f"{'FAILED' if wrong else 'passed'} {source.name}{': ' * bool(wrong)}{'; '.join(wrong)}"
                )
                progress(number)
        console.on_message(f"{len(sources) - num_failed} passed, {num_failed} failed")
    return CHECK_FAILED if num_failed else DONE


def run_case(source: Path) -> list[str]:
    """Everything that is wrong with what happens to one case; empty when it passes. ``source`` is only read."""
    with tempfile.TemporaryDirectory(prefix="case_") as scratch:
        try:
            case = prepare_case(source, Path(scratch) / "case" / source.name)
            out = Path(scratch) / "out"
            out.mkdir()
            before = tree_digest(case.folder)
            wrong = list(_wrong(case, out))
            return (
                wrong if tree_digest(case.folder) == before or _has_edits(case) else [*wrong, "its folder has changed"]
            )
        except UserError as error:
            return [f"this case cannot be run: {error}"]
        except Exception as error:  # the other cases are still to be run
            return [f"this case cannot be run: {type(error).__name__}: {error}"]


def _has_edits(case: Case) -> bool:
    return "edit_between_runs" in case.content


def _wrong(case: Case, scratch: Path) -> Iterator[str]:
    if case.content["format"] == EVALUATION:
        yield from wrong_scores(case, scratch)
        return
    data = _data_options(case)
    if case.stage == "load":
        yield from _wrong_check(case, data, scratch)
    trained = _train(case, data, scratch / "train")
    yield from _wrong_outcome(case, trained, scratch / "train")
    if trained.code == DONE:
        yield from _wrong_data(case, data, scratch)
        yield from wrong_in_training(case, trained)
    if "ap_of_perfect_detections" in case.expect:
        paths = case.content["paths"]
        truth, images = case.folder / paths["train_json"], case.folder / paths["train_images"]
        yield from wrong_perfect_score(case, truth, images, scratch)
    if _has_edits(case):
        yield from _wrong_second_run(case, data, scratch)


def _data_options(case: Case) -> list[str]:
    paths = case.content["paths"]
    if case.content["format"] == "yolo":
        special = str(case.content.get("data_yaml", ""))
        is_file = bool(special) and len(special) < 200 and (case.folder / special).is_file()
        return ["--data", case.path(special if is_file else paths["data_yaml"])]
    options = {
        "train_json": "--data",
        "train_images": "--images",
        "val_json": "--val-data",
        "val_images": "--val-images",
    }
    return [word for key, option in options.items() if key in paths for word in (option, case.path(paths[key]))]


def _wrong_check(case: Case, data: Sequence[str], scratch: Path) -> Iterator[str]:
    """`check` says the same as `train` and names the same things."""
    outcome = run_verb(
        ["check", *data, "--no-plots", "--no-pictures", "--project", str(scratch / "check")], case.working_folder
    )
    findings = outcome.result.get("findings", [])
    # Whether a warning is due is told by training, which says what reading found; a check knows more than that.
    is_refused = outcome.code not in (DONE, CHECK_FAILED)
    verdict = REJECT if is_refused else ACCEPT if ACCEPT in case.allowed else WARN
    is_told = any(finding["severity"] == "warning" for finding in findings) or outcome.result.get("advice")
    if verdict == WARN and not is_told:
        verdict = ACCEPT
    if outcome.bare_traceback:
        yield "check shows a traceback"
    if verdict not in case.allowed:
        told = "; ".join(finding["message"] for finding in findings if finding["severity"] != "info")
        wanted = " or ".join(sorted(case.allowed))
        yield f"check says {verdict}, expected {wanted} ({told or outcome.text.strip()[-200:]})"
    yield from _unnamed("check", case, verdict, outcome.text)
    train = outcome.result.get("splits", {}).get("train")
    if train is not None and verdict != REJECT:
        yield from _wrong_background(case, train["images_without_objects"], findings)


def _unnamed(verb: str, case: Case, verdict: str, text: str) -> Iterator[str]:
    if verdict == ACCEPT and ACCEPT in case.allowed:
        return
    silent = [piece for piece in case.content.get("message_must_name") or [] if piece not in text]
    if silent:
        yield f"the messages of {verb} do not name {', '.join(silent)}"


def _wrong_background(case: Case, number: int, findings: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    expect = case.expect
    if "background_images" in expect and number != expect["background_images"]:
        yield f"{number} images without objects, expected {expect['background_images']}"
    without_file = sum(finding["count"] for finding in findings if finding["code"] == "missing-label")
    if "missing_label_files" in expect and without_file != expect["missing_label_files"]:
        yield f"{without_file} missing label files, expected {expect['missing_label_files']}"
    if "empty_label_files" in expect and number - without_file != expect["empty_label_files"]:
        yield f"{number - without_file} empty label files, expected {expect['empty_label_files']}"


def _train(case: Case, data: Sequence[str], project: Path) -> Outcome:
    asked = {**_TRAIN_DEFAULTS, **(case.content.get("train_args") or {})}
    asked.pop("shuffle", None)  # the order is a function of the seed; what such a case states holds in any order
    options = [word for name, value in asked.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    # What a case says about updates is meant for windows of one length, without a warm-up in which they grow.
    fixed = [
        "--no-ramp",
        "--device",
        "cpu",
        "--threads",
        "1",
        "--workers",
        "0",
        "--amp",
        "off",
        "--no-plots",
        "--project",
        str(project),
    ]
    return run_verb(["train", *data, *options, *fixed], case.working_folder)


def _wrong_outcome(case: Case, trained: Outcome, project: Path) -> Iterator[str]:
    if trained.bare_traceback:
        yield "train shows a traceback"
    if trained.code == DONE:
        warnings = [line for line in trained.text.splitlines() if line.startswith("warning: ")]
        is_told = warnings or "notice: " in trained.text  # a notice is about the loop, never about the data
        verdict = WARN if warnings or (is_told and ACCEPT not in case.allowed) else ACCEPT
        if verdict not in case.allowed:
            told = "; ".join(warnings) or "nothing"
            yield f"train says {told}, expected {' or '.join(sorted(case.allowed))}"
    else:
        verdict = REJECT
        if verdict not in case.allowed:
            yield f"train ends with exit code {trained.code}: {trained.text.strip()[-300:]}"
        if trained.code != BAD_INPUT:
            yield f"train refuses with exit code {trained.code} in place of {BAD_INPUT}"
        if any(project.rglob("updates.csv")):
            yield "train refused after it had begun"
    yield from _unnamed("train", case, verdict, trained.text)


def _wrong_data(case: Case, data: Sequence[str], scratch: Path) -> Iterator[str]:
    """Counts, classes and boxes, by what `convert` writes."""
    splits, problem = _converted(case, data, scratch / "coco")
    if problem:
        yield problem
        return
    absent = _absent_splits(splits, case.expect)
    if absent:
        yield f"the splits {', '.join(absent)} are expected and were not written"
    if "train" not in splits:
        return
    expect, train = case.expect, splits["train"]
    classes = list(expect.get("classes") or train.class_names)
    if train.class_names != tuple(classes):
        yield f"the classes are {list(train.class_names)}, expected {classes}"
    if "classes_one_of" in expect and list(train.class_names) not in expect["classes_one_of"]:
        yield f"the classes are {list(train.class_names)}, expected one of {expect['classes_one_of']}"
    if "category_ids" in expect and list(train.class_ids) != expect["category_ids"]:
        yield f"the category ids are {list(train.class_ids)}, expected {expect['category_ids']}"
    if "crowd_boxes" in expect and train.num_crowd != expect["crowd_boxes"]:
        yield f"{train.num_crowd} crowd regions, expected {expect['crowd_boxes']}"
    yield from _wrong_counts(splits, expect)
    for name in ("boxes", "boxes_if_accepted", "boxes_by_name"):
        yield from wrong_boxes(train, expect.get(name) or {}, classes, expect)
    yield from wrong_pixels(train, case.content, classes)
    if "min_contrast_8bit" in expect:
        contrast = lowest_contrast(train, expect.get("luminance_only") or [])
        if contrast < expect["min_contrast_8bit"]:
            yield f"the contrast is {contrast:.0f}, expected at least {expect['min_contrast_8bit']}"
    if "boxes_after_hflip" in expect:
        yield from wrong_after_flip(case, data, classes)


def _converted(case: Case, data: Sequence[str], folder: Path) -> tuple[dict[str, ReadSplit], str]:
    outcome = run_verb(["convert", *data, "--to", str(folder)], case.working_folder)
    if outcome.code:
        return {}, f"convert ends with exit code {outcome.code}: {outcome.text.strip()[-300:]}"
    return {split: read_split(folder / f"{split}.json") for split in outcome.result["splits"]}, ""


def _wrong_counts(splits: Mapping[str, ReadSplit], expect: Mapping[str, Any]) -> Iterator[str]:
    """A count for the case that something is left out, or accepted at all, goes before the plain one."""
    is_left_out = any(name.endswith("_if_left_out") for name in expect)
    for key, number in _counts(splits).items():
        special = next((name for name in (f"{key}_if_accepted", f"{key}_if_left_out") if name in expect), None)
        if special is None and is_left_out and key.startswith("train_"):
            continue  # the boxes of a picture that was left out are gone with it
        wanted = expect.get(special or key, number)
        if number != wanted:
            yield f"{key} is {number}, expected {wanted}"


def _absent_splits(splits: Mapping[str, ReadSplit], expect: Mapping[str, Any]) -> list[str]:
    return [
        split
        for split in SPLITS
        if split not in splits
        and (split == "train" or any(expect.get(f"{split}_{what}") for what in ("images", "boxes")))
    ]


def _counts(splits: Mapping[str, ReadSplit]) -> dict[str, int]:
    counts = {}
    for split, content in splits.items():
        counts[f"{split}_images"] = len(content.pictures)
        counts[f"{split}_boxes"] = content.num_boxes
    return counts


def _wrong_second_run(case: Case, data: Sequence[str], scratch: Path) -> Iterator[str]:
    """After the edit that the case asks for, the new content counts."""
    for edit in case.content["edit_between_runs"]:
        apply_edit(case, edit)
    edited = tree_digest(case.folder)
    trained = _train(case, data, scratch / "train")
    if trained.code:
        yield f"the second training ends with exit code {trained.code}"
    splits, problem = _converted(case, data, scratch / "coco_again")
    if problem:
        yield problem
        return
    classes = list(case.expect.get("classes") or splits["train"].class_names)
    yield from wrong_boxes(splits["train"], case.expect.get("boxes_second_run") or {}, classes, case.expect)
    if tree_digest(case.folder) != edited:
        yield "its folder has changed"
