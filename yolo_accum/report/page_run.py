"""``report.html``: everything about a run on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from yolo_accum.contracts import METRIC_NAMES
from yolo_accum.report import page, page_charts, page_data, page_quality, page_training
from yolo_accum.report.page_charts import Columns
from yolo_accum.report.page_pictures import PageBox, PagePicture
from yolo_accum.report.page_quality import Quality


@dataclass(frozen=True, kw_only=True)
class PicturePair:
    """A validation image: truth beside what was found."""

    key: str
    """Of the picture in the page."""
    title: str
    left_text: str
    right_text: str
    picture: PagePicture
    truth: Sequence[PageBox]
    found: Sequence[PageBox]


@dataclass(frozen=True, kw_only=True)
class TrainingPicture:
    """A training image as the network got it."""

    picture: PagePicture
    boxes: Sequence[PageBox]
    text: str


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Validation images and what they are shown for."""

    intro: str
    pairs: Sequence[PicturePair] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class RunContent:
    """What is known of a run. Whatever is not known yet is empty or None."""

    name: str
    state: str
    """One sentence: finished, in progress, interrupted ..."""
    version: str
    made_at: str
    warnings: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """The start-up table."""
    card: Mapping[str, Any] = field(default_factory=dict)
    """Content of ``run_card.json``, empty while the run is not finished."""
    updates: Columns = field(default_factory=dict)
    epochs: Columns = field(default_factory=dict)
    data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Records of `page_data.data_record` by split."""
    samples: Sequence[TrainingPicture] = ()
    quality: Quality | None = None
    quality_text: str = ""
    """Which weights were measured; or, without ``quality``, why there is none."""
    costly: Gallery | None = None
    false_alarms: Gallery | None = None


def write_run_page(path: Path, content: RunContent) -> Path:
    """Write the page of a run.

    Raises:
        OSError: the file cannot be written (names it).
    """
    num_images = content.data.get("train", {}).get("images")
    tables = {
        "updates": page_charts.updates_table(content.updates, num_images),
        "epochs": page_charts.epochs_table(content.epochs, content.updates),
    }
    charts = page_training.training_charts(tables["updates"], tables["epochs"])
    training_keys = list(charts)
    if content.quality is not None:
        charts |= page_quality.quality_charts(content.quality)
    if content.data:
        charts |= page_data.data_charts(content.data)
    return page.write_page(
        path,
        "report.html",
        {
            "title": f"Training run {content.name}",
            "version": content.version,
            "made_at": content.made_at,
            "run": content,
            "tables": tables,
            "charts": charts,
            "training_keys": training_keys,
            "data_keys": [key for key in charts if key.startswith("data_")],
            "figures": _figures(content),
            "metric_rows": metric_rows(content.quality.metrics) if content.quality is not None else [],
            "class_rows": page_quality.class_rows(content.quality.metrics) if content.quality is not None else [],
            "highlights": page_quality.highlights(content.quality) if content.quality is not None else [],
            "data_splits": [page_data.SPLIT_NAMES[name] for name in content.data],
            "data_rows": page_data.data_rows(content.data) if content.data else [],
            "card_rows": flat(content.card),
            "sections": SECTIONS,
        },
    )


SECTIONS = (
    ("warnings", "Warnings"),
    ("curves", "Curves"),
    ("quality", "Detection quality"),
    ("costly", "Costly images"),
    ("false-alarms", "False alarms"),
    ("data", "Data"),
    ("samples", "Training pictures"),
    ("settings", "Settings and run card"),
)


def _figures(content: RunContent) -> list[tuple[str, str]]:
    """What people look for first."""
    updates, epochs = content.updates, content.epochs
    metrics = content.quality.metrics if content.quality is not None else {}
    figures = [("AP", page.share(metrics.get("AP"))), ("AP50", page.share(metrics.get("AP50")))]
    if epochs:
        measured = np.nan_to_num(epochs["AP"], nan=-1) if "AP" in epochs else np.zeros(0)
        best = f", best {int(epochs['epoch'][measured.argmax()]) + 1}" if measured.max(initial=-1) >= 0 else ""
        figures.append(("epochs", f"{len(epochs['epoch'])}{best}"))
    else:
        figures.append(("epochs", "0"))
    if updates:
        refused = int(updates["updates_skipped"][-1])
        with np.errstate(divide="ignore"):
            seconds = np.nan_to_num(updates["images"] / updates["images_per_s"], posinf=0)
        figures += [
            ("updates applied", page.count(updates["updates_applied"][-1])),
            ("updates refused", page.count(refused)),
            ("images seen", page.count(updates["images_seen"][-1])),
            ("time in training", page.duration(float(seconds.sum()))),
            ("images/s", f"{updates['images'].sum() / max(seconds.sum(), 1e-9):.1f}"),
            ("peak memory", f"{updates['peak_memory_mib'].max():,.0f} MiB"),
        ]
    return figures


def metric_rows(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The twelve COCO numbers in ``metrics.json``, for a table."""
    return [(name, page.share(metrics.get(name))) for name in METRIC_NAMES]


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as one table; lists of objects (classes) are left to other tables."""
    rows: dict[str, str] = {}
    for name, value in values.items():
        label = f"{prefix}{name}"
        if isinstance(value, Mapping):
            rows |= flat(value, f"{label}: ")
        elif isinstance(value, list | tuple):
            if not any(isinstance(item, Mapping) for item in value):
                rows[label] = ", ".join(map(str, value)) or "-"
        else:
            rows[label] = f"{value:.6g}" if isinstance(value, float) else "-" if value is None else str(value)
    return rows
