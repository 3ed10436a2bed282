"""Messages that are kept with a run."""

from __future__ import annotations

from pathlib import Path

from yolo_accum.report.messages import MESSAGES_FILE, MessageLog, read_messages


def test_warnings_from_before_the_folder_and_from_afterwards_are_kept(tmp_path: Path) -> None:
    log = MessageLog(clock=lambda: 5.0)
    log("warning: early")
    log("epoch 1/3")
    log.open(tmp_path)
    log("notice: later \udcff")
    log("warning: early")

    assert read_messages(tmp_path) == ["warning: early (2 times)", "notice: later \udcff"]


def test_a_line_cut_short_is_left_out(tmp_path: Path) -> None:
    (tmp_path / MESSAGES_FILE).write_text('{"time": 1, "text": "warning: a"}\n{"time": 2, "te')

    assert read_messages(tmp_path) == ["warning: a"]
    assert read_messages(tmp_path / "elsewhere") == []


def test_a_message_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    log = MessageLog()
    log.open(tmp_path)
    (tmp_path / MESSAGES_FILE).unlink()
    (tmp_path / MESSAGES_FILE).mkdir()

    log("warning: lost")
