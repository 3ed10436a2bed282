"""What is written down reads back as the very numbers, and survives a kill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from run_of_records import epoch_record, update_record

from yolo_accum.contracts import METRIC_NAMES
from yolo_accum.errors import UserError
from yolo_accum.report.records import CsvRecords, read_epochs, read_updates


def write_run(folder: Path, updates: range, epochs: range) -> CsvRecords:
    records = CsvRecords(folder)
    for number in updates:
        records.on_update(update_record(number))
    for number in epochs:
        records.on_epoch(epoch_record(number))
    return records


def test_header_and_cells(tmp_path: Path) -> None:
    records = CsvRecords(tmp_path)
    record = update_record(1)
    records.on_update(
        replace(
            record,
            losses={"box": np.float64(0.1), "cls": float("nan")},
            lr={"decay": 0.1 + 0.2, "no_decay": 1e-9},
            applied=False,
            grad_norm=float("inf"),
        )
    )
    header, row = (tmp_path / "updates.csv").read_text().splitlines()
    cells = dict(zip(header.split(","), row.split(","), strict=True))
    assert list(cells)[:4] == ["update", "epoch", "first_micro_batch", "last_micro_batch"]
    assert {"weight_decay_decay", "weight_decay_no_decay", "momentum", "ema_decay", "peak_memory_mib"} <= set(cells)
    assert (cells["loss_box"], cells["loss_cls"]) == ("0.1", "nan")
    assert (cells["lr_decay"], cells["lr_no_decay"]) == ("0.30000000000000004", "1e-09")
    assert (cells["applied"], cells["grad_norm"], cells["images"]) == ("0", "inf", "64")


def test_rows_are_on_disk_at_once_and_read_back_in_full(tmp_path: Path) -> None:
    records = CsvRecords(tmp_path)
    values = np.random.default_rng(0).lognormal(0, 8, 20)
    for number, value in enumerate(values, start=1):
        records.on_update(replace(update_record(number), denominator=float(value)))
        assert len(read_updates(tmp_path)["update"]) == number
    assert np.array_equal(read_updates(tmp_path)["denominator"], values)
    assert read_updates(tmp_path)["applied"].tolist() == [1.0] * 20


def test_an_epoch_without_validation_leaves_its_cells_empty(tmp_path: Path) -> None:
    records = CsvRecords(tmp_path)
    records.on_epoch(replace(epoch_record(0), metrics={}))
    records.on_epoch(replace(epoch_record(1), metrics={"AP": 0.25, "AP50": 0.5}, is_best=True))
    columns = read_epochs(tmp_path)
    assert set(METRIC_NAMES) <= set(columns)
    assert np.isnan(columns["AP"][0]) and columns["AP"][1] == 0.25
    assert columns["is_best"].tolist() == [0.0, 1.0]
    assert "nan" not in (tmp_path / "epochs.csv").read_text()


def test_a_metric_of_another_name_is_refused(tmp_path: Path) -> None:
    records = write_run(tmp_path, range(0), range(1))
    with pytest.raises(ValueError, match=r"epochs\.csv.*differ: fitness"):
        records.on_epoch(replace(epoch_record(1), metrics={"fitness": 0.5}))


def test_other_loss_terms_are_refused(tmp_path: Path) -> None:
    records = write_run(tmp_path, range(1, 2), range(0))
    with pytest.raises(ValueError, match="differ: loss_l1"):
        records.on_update(replace(update_record(2), losses={**update_record(2).losses, "l1": 0.1}))
    with pytest.raises(ValueError, match="differ: loss_l1"):
        CsvRecords(tmp_path).on_update(replace(update_record(2), losses={**update_record(2).losses, "l1": 0.1}))


def test_resume_gives_the_files_of_the_run_that_was_not_interrupted(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir(), broken.mkdir()
    write_run(whole, range(1, 11), range(3))
    write_run(broken, range(1, 8), range(2))
    with (broken / "updates.csv").open("a") as file:
        file.write("8,1,40,4")  # killed while writing
    with (broken / "epochs.csv").open("a") as file:
        file.write("2")
    resumed = CsvRecords(broken)
    resumed.truncate_after(updates=5, epochs=1)
    assert read_updates(broken)["update"].tolist() == [1, 2, 3, 4, 5]
    assert read_epochs(broken)["epoch"].tolist() == [0]
    for number in range(6, 11):
        resumed.on_update(update_record(number))
    for number in range(1, 3):
        resumed.on_epoch(epoch_record(number))
    for name in ("updates.csv", "epochs.csv"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize("left", ["", "update,epo"])
def test_resume_after_a_kill_before_the_first_row(tmp_path: Path, left: str) -> None:
    (tmp_path / "updates.csv").write_text(left)
    records = CsvRecords(tmp_path)
    records.truncate_after(updates=0, epochs=0)
    assert read_updates(tmp_path) == {} and read_epochs(tmp_path) == {}
    records.on_update(update_record(1))
    assert read_updates(tmp_path)["update"].tolist() == [1]


def test_reading_while_a_row_is_being_written(tmp_path: Path) -> None:
    write_run(tmp_path, range(1, 4), range(0))
    with (tmp_path / "updates.csv").open("a") as file:
        file.write("4,0,1")
    assert read_updates(tmp_path)["update"].tolist() == [1, 2, 3]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, range(1, 3), range(0))
    with (tmp_path / "updates.csv").open("a") as file:
        file.write("3,0\n")
    with pytest.raises(ValueError, match=r"updates\.csv, line 4: 2 cells"):
        read_updates(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"\n2,", b"\ngarbage\n2,", r"line 3: 1 cells, the header has \d+"),
        (b"\n2,", b"\nx,", "line 3: 'x' is no number"),
        (b"\n2,", b"\n2.5,", r"line 3: update '2\.5' is no whole number"),
        (b"\n2,", b"\n\xff\xfe,", "line 3: this is no line of a CSV file"),
        (b"update,", b"step,", "line 1: there is no column update"),
        (b"lr_decay,", b"rate,", "line 1: 'rate' is no column of this program"),
    ],
)
def test_resume_beside_another_record_names_the_line_and_changes_nothing(
    tmp_path: Path, old: bytes, new: bytes, message: str
) -> None:
    write_run(tmp_path, range(1, 4), range(2))
    path = tmp_path / "updates.csv"
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    files = {file: file.read_bytes() for file in tmp_path.iterdir()}

    with pytest.raises(UserError, match=rf"updates\.csv, {message}; .*moved away"):
        CsvRecords(tmp_path).truncate_after(updates=2, epochs=1)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == files

    path.rename(tmp_path / "elsewhere")
    resumed = CsvRecords(tmp_path)
    resumed.truncate_after(updates=2, epochs=1)
    resumed.on_update(update_record(3))
    assert read_updates(tmp_path)["update"].tolist() == [3] and read_epochs(tmp_path)["epoch"].tolist() == [0]


def test_a_damaged_epochs_file_leaves_the_updates_as_they_were(tmp_path: Path) -> None:
    write_run(tmp_path, range(1, 4), range(2))
    with (tmp_path / "epochs.csv").open("a") as file:
        file.write("garbage\n")
    before = (tmp_path / "updates.csv").read_bytes()
    with pytest.raises(UserError, match=r"epochs\.csv, line 4"):
        CsvRecords(tmp_path).truncate_after(updates=1, epochs=1)
    assert (tmp_path / "updates.csv").read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    records = write_run(tmp_path, range(1, 2), range(0))
    (tmp_path / "updates.csv").unlink()
    (tmp_path / "updates.csv").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left.*updates\.csv"):
        records.on_update(update_record(2))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"absent.*epochs\.csv"):
        CsvRecords(tmp_path / "absent").on_epoch(epoch_record(0))
