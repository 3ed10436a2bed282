"""The panels of ``results.png``: each draws columns of the records against images seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from yolo_accum.report import style

Columns = Mapping[str, np.ndarray]
Draw = Callable[[Axes, Columns, Columns], None]
"""Fills the axes from the columns of updates.csv (at least one row) and epochs.csv (perhaps none)."""

FEW_POINTS = 40
"""Up to this many points are marked one by one; a line alone would hide them (or, for one point, show nothing)."""


def _line(axes: Axes, x: np.ndarray, y: np.ndarray, colour: str, label: str, **options: object) -> None:
    marker = "o" if len(x) <= FEW_POINTS else ""
    axes.plot(x, y, color=colour, label=label, marker=marker, markersize=4, **{"linewidth": 1.8, **options})  # type: ignore[arg-type]


def _noisy(axes: Axes, x: np.ndarray, y: np.ndarray, colour: str, label: str) -> None:
    """Values that differ from update to update: over many, they are faint and their running mean is drawn on them."""
    length = _mean_length(len(x))
    if length == 1:
        _line(axes, x, y, colour, label)
        return
    axes.plot(x, y, color=colour, alpha=0.3, linewidth=0.8)
    _line(axes, x[length - 1 :], _running_mean(y, length), colour, label)


def _running_mean(values: np.ndarray, length: int) -> np.ndarray:
    """Mean of every ``length`` neighbours, of the finite ones among them; NaN where there are none."""
    finite = np.isfinite(values)
    sums, counts = (
        np.concatenate([[0], column.cumsum()]) for column in (np.where(finite, values, 0), finite.astype(int))
    )
    sums, counts = sums[length:] - sums[:-length], counts[length:] - counts[:-length]
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _mean_length(num_updates: int) -> int:
    return max(1, num_updates // 50)


def _mean_note(num_updates: int) -> str | None:
    """What the strong lines are, for a legend."""
    length = _mean_length(num_updates)
    return f"mean of {length} updates" if length > 1 else None


def _draw_losses(axes: Axes, updates: Columns, epochs: Columns) -> None:
    """Each term as it was optimised."""
    seen = updates["images_seen"]
    terms = [name for name in updates if name.startswith("loss_") and _says_something(updates[name])]
    if not terms:
        style.say_instead(axes, "no finite value")
        return
    for name, colour in zip(terms, style.COLOURS, strict=False):
        _noisy(axes, seen, updates[name], colour, name.removeprefix("loss_"))
    values = np.concatenate([updates[name] for name in terms])
    values = values[np.isfinite(values)]
    highest, usual = values.max(), np.percentile(values, 98)
    # A spike of the first updates would flatten the rest of the run.
    axes.set_ylim(0, 1.3 * usual if highest > 2 * usual > 0 else 1.05 * highest)
    style.legend(axes, loc="upper right", title=_mean_note(len(seen)))


def _says_something(values: np.ndarray) -> bool:
    """A term that is switched off is 0 throughout."""
    return bool(np.any(np.isfinite(values) & (values != 0)))


def _draw_metrics(names: Mapping[str, tuple[str, str]]) -> Draw:
    def draw(axes: Axes, updates: Columns, epochs: Columns) -> None:
        present = {name: epochs[name] for name in names if name in epochs and np.isfinite(epochs[name]).any()}
        if not present:
            style.say_instead(axes, "not measured")
            return
        last_update = np.searchsorted(updates["epoch"], epochs["epoch"], side="right") - 1
        seen = np.where(last_update >= 0, updates["images_seen"][last_update], 0)
        for name, values in present.items():
            measured = np.isfinite(values)
            label, colour = names[name]
            _line(axes, seen[measured], values[measured], colour, f"{label} {values[measured][-1]:.3f}")
        highest = max(np.nanmax(values) for values in present.values())
        axes.set_ylim(0, min(1.02, max(1.1 * highest, 0.05)))
        if "AP" in present:
            best = int(np.nanargmax(present["AP"]))
            axes.plot(seen[best], present["AP"][best], marker="*", markersize=13, color=style.INK, linestyle="")
            axes.plot([], [], marker="*", markersize=9, color=style.INK, linestyle="", label="best AP")
        style.legend(axes)

    return draw


def _draw_learning_rate(axes: Axes, updates: Columns, epochs: Columns) -> None:
    groups: dict[bytes, list[str]] = {}
    for name in updates:
        if name.startswith("lr_"):
            groups.setdefault(updates[name].tobytes(), []).append(name)
    # Groups that share a rate share a line.
    for names, colour in zip(groups.values(), style.COLOURS, strict=False):
        label = ", ".join(name.removeprefix("lr_") for name in names)
        _line(axes, updates["images_seen"], updates[names[0]], colour, label)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:g}")
    style.legend(axes, loc="upper right")


def _draw_window(axes: Axes, updates: Columns, epochs: Columns) -> None:
    length = updates["last_micro_batch"] - updates["first_micro_batch"] + 1
    _line(axes, updates["images_seen"], length, style.BLUE, "K", drawstyle="steps-pre")
    axes.set_ylim(0, 1.1 * length.max())
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def _draw_images(axes: Axes, updates: Columns, epochs: Columns) -> None:
    _line(axes, updates["images_seen"], updates["images"], style.GREEN, "images", drawstyle="steps-pre")
    axes.set_ylim(0, 1.1 * updates["images"].max())
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def _draw_gradient_norm(axes: Axes, updates: Columns, epochs: Columns) -> None:
    seen, norm = updates["images_seen"], updates["grad_norm"]
    shown = np.isfinite(norm) & (norm > 0)
    clipped = shown & (updates["clip_coefficient"] < 1)
    refused = updates["applied"] == 0
    _noisy(axes, seen[shown], norm[shown], style.BLUE, "before clipping")
    if clipped.any():
        share = f"clipped ({clipped.sum()} of {len(seen)})"
        size = 6 if len(seen) <= FEW_POINTS else 3
        axes.plot(seen[clipped], norm[clipped], "^", color=style.ORANGE, markersize=size, label=share)
    if refused.any():
        place = np.full(refused.sum(), 0.03)
        axes.plot(
            seen[refused], place, "x", color=style.RED, markersize=7, label=f"refused ({refused.sum()})",
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    if shown.any() and norm[shown].max() > 10 * norm[shown].min():
        axes.set_yscale("log")
        style.plain_log_ticks(axes.yaxis)
    else:
        axes.set_ylim(bottom=0)
    style.legend(axes, loc="upper right", title=_mean_note(len(seen)))


def _draw_speed(axes: Axes, updates: Columns, epochs: Columns) -> None:
    speed = updates["images_per_s"]
    _noisy(axes, updates["images_seen"], speed, style.PURPLE, "images/s")
    middle = float(np.median(speed))
    axes.axhline(middle, color=style.INK, linewidth=1, linestyle="--", label=f"median {middle:.3g}")
    axes.set_ylim(0, 1.1 * speed.max())
    style.legend(axes, loc="lower right", title=_mean_note(len(speed)))


RESULT_PANELS: tuple[tuple[str, str, Draw], ...] = (
    ("Loss", "per supervised object", _draw_losses),
    (
        "Validation AP",
        "AP",
        _draw_metrics({"AP50": ("AP50", style.SKY), "AP75": ("AP75", style.ORANGE), "AP": ("AP", style.BLUE)}),
    ),
    (
        "Validation AP by object size",
        "AP",
        _draw_metrics(
            {
                "AP_small": ("small", style.PURPLE),
                "AP_medium": ("medium", style.GREEN),
                "AP_large": ("large", style.RED),
            }
        ),
    ),
    ("Learning rate by parameter group", "", _draw_learning_rate),
    ("Window", "micro-batches per update (K)", _draw_window),
    ("Images per update", "images", _draw_images),
    ("Gradient norm", "L2 norm", _draw_gradient_norm),
    ("Speed", "images/s", _draw_speed),
)
