"""The curves hold the numbers of the records, at the images that had been seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from run_of_records import UPDATES_PER_EPOCH, epoch_record, update_record

from yolo_accum.report.curve_panels import RESULT_PANELS
from yolo_accum.report.records import CsvRecords, read_epochs, read_updates
from yolo_accum.report.style import new_figure


def draw(folder: Path, title: str) -> Axes:
    (panel,) = [panel for name, _, panel in RESULT_PANELS if name == title]
    axes = new_figure(4, 3).subplots()
    panel(axes, read_updates(folder), read_epochs(folder))
    return axes


def curves(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.get_lines()}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """3 epochs of 4 updates of 64; no validation after the second; update 6 refused, without a finite norm."""
    records = CsvRecords(tmp_path)
    for number in range(1, 3 * UPDATES_PER_EPOCH + 1):
        record = update_record(number)
        if number == 6:
            record = replace(record, applied=False, grad_norm=float("nan"), losses=record.losses | {"box": np.inf})
        records.on_update(record)
    for number, metrics in enumerate([{"AP": 0.3, "AP50": 0.5}, {}, {"AP": 0.2, "AP50": 0.6}]):
        records.on_epoch(replace(epoch_record(number), metrics=metrics))
    return tmp_path


def test_ap_stands_at_the_images_of_its_epoch(run: Path) -> None:
    lines = curves(draw(run, "Validation AP"))
    assert lines["AP 0.200"] == ([256, 768], [0.3, 0.2])
    assert lines["AP50 0.600"] == ([256, 768], [0.5, 0.6])
    assert "AP75" not in " ".join(lines)


def test_sizes_that_do_not_exist_are_said_so(run: Path) -> None:
    axes = draw(run, "Validation AP by object size")
    assert not axes.get_lines() and axes.texts[0].get_text() == "not measured"


def test_losses_and_the_mean_over_many_updates(run: Path) -> None:
    seen, values = curves(draw(run, "Loss"))["cls"]
    assert seen[0] == 64 and values[0] == update_record(1).losses["cls"]

    records = CsvRecords(run)
    for number in range(3 * UPDATES_PER_EPOCH + 1, 201):
        records.on_update(update_record(number))
    seen, values = curves(draw(run, "Loss"))["box"]
    finite = [update_record(number).losses["box"] for number in (3, 4, 5)]
    assert len(seen) == 197 and seen[2] == 6 * 64
    assert values[2] == pytest.approx(np.mean(finite)), "a value that is not finite is left out of the mean"


def test_groups_with_one_rate_share_a_line(run: Path) -> None:
    assert list(curves(draw(run, "Learning rate by parameter group"))) == ["decay, no_decay"]


def test_window_and_images(run: Path) -> None:
    assert set(curves(draw(run, "Window"))["K"][1]) == {8}
    assert set(curves(draw(run, "Images per update"))["images"][1]) == {64}


def test_clipped_and_refused_updates_are_marked(run: Path) -> None:
    lines = curves(draw(run, "Gradient norm"))
    norms = {number: update_record(number).grad_norm for number in range(1, 13) if number != 6}
    assert lines["before clipping"][1] == list(norms.values())
    assert lines["clipped (11 of 12)"][0] == [64 * number for number in norms]
    assert lines["refused (1)"][0] == [6 * 64]
