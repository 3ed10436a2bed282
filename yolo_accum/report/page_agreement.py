"""How gradients agree, in the page of a comparison: during the runs, and on one window as `verify` measures it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from yolo_accum.report import page_charts
from yolo_accum.report.page_charts import Chart


def agreement_charts(comparisons: Sequence[Mapping[str, Any]]) -> dict[str, Chart]:
    """For every pair of arms the cosine by part of the network at each moment (mean over the seeds); for all of them
    together the losses of the first updates."""
    charts: dict[str, Chart] = {}
    for number, entry in enumerate(comparisons):
        measured = entry.get("gradients") or ()
        moments = list(dict.fromkeys(item["moment"] for item in measured))
        parts = list(dict.fromkeys(part for item in measured for part in item.get("parts", {})))
        if parts:
            charts[f"parts_{number}"] = page_charts.bars(
                f"Gradients by part of the network: {entry['arm']} against {entry['reference']}",
                "cosine",
                parts,
                [{"name": moment, "values": _cosines(measured, moment, parts)} for moment in moments],
                across=True,
                note="1 is the same direction. Means over the seeds; gradients of one window, before clipping.",
            )
    return charts | _first_losses(comparisons)


def _first_losses(comparisons: Sequence[Mapping[str, Any]]) -> dict[str, Chart]:
    measured = [
        (number, seed, entry, item)
        for number, entry in enumerate(comparisons)
        for seed, item in enumerate((entry.get("loss") or {}).get("by_seed") or ())
        if item.get("relative_differences")
    ]
    if not measured:
        return {}
    length = max(len(item["relative_differences"]) for *_, item in measured)
    series = [
        {"name": entry["arm"], "y": _padded(item, length), "colour": number, "dash": seed % 3}
        for number, seed, entry, item in measured
    ]
    reference = measured[0][2]["reference"]
    chart = page_charts.lines(
        f"Losses of the first updates against {reference}",
        "update",
        "relative difference",
        np.arange(1, length + 1),
        series,
        top=None,
        note="|difference| of the losses over the reference's. Seeds: whole, dashed, dotted.",
    )
    return {"first_losses": chart}


def agreement_rows(comparisons: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Pair, seed, moment, update, cosine, relative difference, ratio of lengths."""
    return [
        [
            f"{entry['arm']} against {entry['reference']}",
            str(item.get("seed")),
            str(item.get("moment")),
            str(item.get("update")),
            *_three(item.get("overall") or {}),
        ]
        for entry in comparisons
        for item in entry.get("gradients") or ()
    ]


def verify_charts(verify: Mapping[str, Any] | None) -> dict[str, Chart]:
    """Cosine of every way of cutting one window, by micro-batch."""
    entries = (verify or {}).get("comparisons") or ()
    if not entries:
        return {}
    sizes = sorted({item["micro_batch"] for item in entries})
    labels = list(dict.fromkeys(item["label"] for item in entries))
    values = {(item["label"], item["micro_batch"]): item["overall"]["cosine"] for item in entries}
    return {
        "verify_cosine": page_charts.bars(
            "Direction of the gradient by micro-batch",
            "cosine with the large batch",
            [str(size) for size in sizes],
            [{"name": label, "values": [values.get((label, size)) for size in sizes]} for label in labels],
            category_label="images of a micro-batch",
        )
    }


def verify_rows(verify: Mapping[str, Any] | None) -> list[list[str]]:
    """Norm, what the loss is normalised over, micro-batch, cosine, relative difference, ratio of lengths."""
    return [
        [
            str(item["norm"]),
            "each micro-batch" if item.get("mean_of_means") else "the window",
            str(item["micro_batch"]),
            *_three(item["overall"]),
        ]
        for item in (verify or {}).get("comparisons") or ()
    ]


def _three(overall: Mapping[str, Any]) -> list[str]:
    formats = {"cosine": ".4f", "relative_difference": ".2g", "norm_ratio": ".4f"}
    return [f"{overall[name]:{form}}" if overall.get(name) is not None else "-" for name, form in formats.items()]


def _cosines(measured: Sequence[Mapping[str, Any]], moment: str, parts: Sequence[str]) -> list[float | None]:
    means = []
    for part in parts:
        values = [
            item["parts"][part]["cosine"]
            for item in measured
            if item["moment"] == moment and (item.get("parts", {}).get(part) or {}).get("cosine") is not None
        ]
        means.append(float(np.mean(values)) if values else None)
    return means


def _padded(item: Mapping[str, Any], length: int) -> np.ndarray:
    values = np.full(length, np.nan)
    given = [np.nan if value is None else value for value in item["relative_differences"]]
    values[: len(given)] = given
    return values
