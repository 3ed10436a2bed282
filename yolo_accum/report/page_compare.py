"""``compare.html``: what a comparison found, on one page. The format of its content is told in ``cli/compare_result``.

Arms may have failed, or not have run yet: whatever is missing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.report import page, page_charts
from yolo_accum.report.page_agreement import agreement_charts, agreement_rows, verify_charts, verify_rows
from yolo_accum.report.page_charts import Chart, Columns
from yolo_accum.report.page_run import flat

MAX_CLASS_BARS = 40
"""Classes in the chart of differences: those that differ most."""
SUMMARY = {
    "AP": "AP", "AP50": "AP50", "AP75": "AP75", "AP_small": "small", "AP_medium": "medium", "AP_large": "large",
    "images_per_s": "images/s", "peak_memory_mib": "peak MiB", "wall_s": "wall time, s",
}  # fmt: skip
"""Metrics of the table of arms, and their headers."""
SHARES = frozenset(name for name in SUMMARY if name.startswith("AP"))


@dataclass(frozen=True, kw_only=True, eq=False)
class CompareContent:
    """A comparison as it lies on the disk."""

    name: str
    version: str
    made_at: str
    result: Mapping[str, Any]
    """Content of ``compare.json``."""
    updates: Mapping[str, Columns] = field(default_factory=dict)
    """Columns of ``updates.csv`` by the path that the result names; what cannot be read is left out."""
    problems: Sequence[str] = ()
    """Files that cannot be read."""


def write_compare_page(path: Path, content: CompareContent) -> Path:
    """Write the page of a comparison.

    Raises:
        OSError: the file cannot be written (names it).
    """
    result = content.result
    arms = result.get("arms", [])
    comparisons = result.get("comparisons", [])
    tables = dict(_tables(content))
    curve_charts = _curves(arms, tables)
    cost_charts = _costs(arms)
    class_charts = _class_differences(comparisons)
    gradient_charts = agreement_charts(comparisons)
    from_verify = verify_charts(result.get("verify"))
    return page.write_page(
        path,
        "compare.html",
        {
            "title": f"Comparison {content.name}",
            "version": content.version,
            "made_at": content.made_at,
            "result": result,
            "arms": arms,
            "comparisons": comparisons,
            "verdict": result.get("verdict") or "There is no result yet.",
            "unfinished": _unfinished(arms),
            "summary_headers": list(SUMMARY.values()),
            "summary_rows": [(arm, [_mean(arm, name) for name in SUMMARY]) for arm in arms],
            "difference_rows": list(_difference_rows(comparisons)),
            "agreement_rows": agreement_rows(comparisons),
            "verify": result.get("verify"),
            "verify_rows": verify_rows(result.get("verify")),
            "settings": setting_rows(arms),
            "cards": _cards(arms),
            "warnings": _warnings(result, arms, content.problems),
            "tables": tables,
            "charts": {**curve_charts, **cost_charts, **class_charts, **gradient_charts, **from_verify},
            "curve_keys": list(curve_charts),
            "cost_keys": list(cost_charts),
            "class_keys": list(class_charts),
            "gradient_keys": list(gradient_charts),
            "verify_keys": list(from_verify),
            "sections": SECTIONS,
        },
    )


SECTIONS = (
    ("arms", "Arms"),
    ("curves", "Curves"),
    ("costs", "Memory and speed"),
    ("classes", "Classes"),
    ("gradients", "Gradients"),
    ("causes", "Where differences come from"),
    ("settings", "Settings"),
    ("cards", "Run cards"),
    ("warnings", "Warnings"),
)


def setting_rows(arms: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str], bool]]:
    """Option, its value in every arm, and whether the arms differ in it; those that differ come first."""
    names = list(dict.fromkeys(name for arm in arms for name in arm.get("options", {})))
    rows = []
    for name in names:
        values = [_setting(arm.get("options", {}).get(name)) for arm in arms]
        rows.append((name, values, len(set(values)) > 1))
    return sorted(rows, key=lambda row: not row[2])


def _setting(value: Any) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _runs(arms: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, Mapping[str, Any], Mapping[str, Any]]]:
    """Number of the arm, number of the run within it, arm, run."""
    for number, arm in enumerate(arms):
        for place, run in enumerate(arm.get("runs", ())):
            yield number, place, arm, run


def _tables(content: CompareContent) -> Iterator[tuple[str, Mapping[str, np.ndarray]]]:
    num_images = content.result.get("settings", {}).get("train_images")
    for number, place, _, run in _runs(content.result.get("arms", ())):
        updates = content.updates.get(run.get("updates_csv") or "", {})
        if updates:
            yield f"{number}/{place}/updates", page_charts.updates_table(updates, num_images)
            columns = {
                name: np.array([np.nan if value is None else value for value in values], dtype=float)
                for name, values in (run.get("epochs") or {}).items()
            }
            if len(columns.get("epoch", ())):
                yield f"{number}/{place}/epochs", page_charts.epochs_table(columns, updates)


def _curves(arms: Sequence[Mapping[str, Any]], tables: Mapping[str, Columns]) -> dict[str, Chart]:
    def lines(kind: str, column: str, steps: bool = False) -> list[dict[str, Any]]:
        return [
            {
                "table": key,
                "column": column,
                "name": arm["name"],
                "group": arm["name"],
                "colour": number,
                "dash": place % 3,
                "steps": steps,
            }
            for number, place, arm, _ in _runs(arms)
            if page_charts.has_values(tables.get(key := f"{number}/{place}/{kind}", {}).get(column))
        ]

    size = max((int(table["rows_per_point"][0]) for table in tables.values()), default=1)
    note = f"A point is the mean of up to {size} updates." if size > 1 else ""
    several = any(len(arm.get("runs", ())) > 1 for arm in arms)
    seeds = "Seeds of an arm share its colour: whole, dashed, dotted." if several else ""
    charts = {
        "loss": page_charts.curves("Loss, all terms", "loss", lines("updates", "loss"), note=f"{note} {seeds}".strip()),
        "ap": page_charts.curves("AP on the validation images", "AP", lines("epochs", "AP"), note=seeds),
        "gradient": page_charts.curves(
            "Gradient norm", "L2 norm before clipping", lines("updates", "grad_norm"), log=True, note=note
        ),
        "lr": page_charts.curves("Learning rate", "learning rate", lines("updates", _lr_column(tables))),
        "window": page_charts.curves(
            "Window length K", "micro-batches an update", lines("updates", "window_length", True)
        ),
    }
    return {key: chart for key, chart in charts.items() if chart["series"]}


def _lr_column(tables: Mapping[str, Columns]) -> str:
    return next((name for table in tables.values() for name in table if name.startswith("lr_")), "lr")


def _costs(arms: Sequence[Mapping[str, Any]]) -> dict[str, Chart]:
    """Bars of memory, speed and time: the mean over the seeds."""
    named = [(key, title, unit) for key, title, unit in (
        ("peak_memory_mib", "Peak memory", "MiB"),
        ("images_per_s", "Speed of training", "images/s"),
        ("wall_s", "Wall time, training and evaluation", "seconds"),
    )]  # fmt: skip
    charts = {}
    for colour, (key, title, unit) in enumerate(named):
        shown = [(arm["name"], value) for arm in arms if (value := _summary(arm, key).get("mean")) is not None]
        if shown:
            charts[key] = page_charts.bars(
                title,
                unit,
                [name for name, _ in shown],
                [{"name": unit, "values": [value for _, value in shown], "colour": colour}],
                across=True,
            )
    return charts


def _class_differences(comparisons: Sequence[Mapping[str, Any]]) -> dict[str, Chart]:
    charts = {}
    for number, entry in enumerate(comparisons):
        rows = [row for row in entry.get("per_class", ()) if (row.get("AP") or {}).get("mean") is not None]
        rows.sort(key=lambda row: -abs(row["AP"]["mean"]))
        note = "Bars are means over the seeds; whiskers, where there are any, are confidence intervals."
        if len(rows) > MAX_CLASS_BARS:
            note += f" The {MAX_CLASS_BARS} of {len(rows)} classes that differ most."
        rows = sorted(rows[:MAX_CLASS_BARS], key=lambda row: -row["AP"]["mean"])
        if not rows:
            continue
        series: dict[str, Any] = {"name": "difference in AP", "values": [row["AP"]["mean"] for row in rows]}
        if any(row["AP"].get("low") is not None for row in rows):
            series |= {end: [row["AP"].get(end) for row in rows] for end in ("low", "high")}
        charts[f"classes_{number}"] = page_charts.bars(
            f"AP by class: {entry['arm']} minus {entry['reference']}",
            "difference in AP",
            [row["name"] for row in rows],
            [series],
            across=True,
            note=note,
        )
    return charts


def _summary(arm: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return (arm.get("summary") or {}).get(name) or {}


def _mean(arm: Mapping[str, Any], name: str) -> str:
    values = _summary(arm, name)
    decimals = 4 if name in SHARES else 1
    spread = f" ± {values['sd']:.{decimals}f}" if values.get("sd") is not None else ""
    return f"{page.share(values.get('mean'), decimals)}{spread}"


def _difference_rows(comparisons: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str, str]]:
    """Arm and reference, metric, mean difference, confidence interval, pairs."""
    for entry in comparisons:
        for name, header in SUMMARY.items():
            values = (entry.get("differences") or {}).get(name) or {}
            if values.get("mean") is None:
                continue
            decimals = 4 if name in SHARES else 1
            interval = (
                f"{values['low']:+.{decimals}f} to {values['high']:+.{decimals}f}"
                if values.get("low") is not None and values.get("high") is not None
                else "-"
            )
            pair = f"{entry['arm']} minus {entry['reference']}"
            yield pair, header, f"{values['mean']:+.{decimals}f}", interval, str(values.get("num", "-"))


def _unfinished(arms: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        ": ".join(filter(None, (f"{arm['name']}, seed {run.get('seed')}", run.get("status"), run.get("message"))))
        for _, _, arm, run in _runs(arms)
        if run.get("status") != "finished"
    ]


def _cards(arms: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, dict[str, str]]]:
    """Title, folder and rows of every run that has a card."""
    return [
        (f"{arm['name']}, seed {run.get('seed')}", str(run.get("folder") or ""), flat(run["run_card"]))
        for _, _, arm, run in _runs(arms)
        if run.get("run_card")
    ]


def _warnings(result: Mapping[str, Any], arms: Sequence[Mapping[str, Any]], problems: Sequence[str]) -> list[str]:
    """Of the comparison, its arms and its runs; what several runs say is told once, with their number."""
    counts: dict[str, int] = {}
    for _, _, arm, run in _runs(arms):
        for text in run.get("warnings") or ():
            line = f"{arm['name']}: {text}"
            counts[line] = counts.get(line, 0) + 1
    notes = [f"{arm['name']}: {note}" for arm in arms for note in arm.get("notes") or ()]
    told = [line if number == 1 else f"{line} ({number} times)" for line, number in counts.items()]
    return [*(result.get("warnings") or ()), *problems, *notes, *told]
