"""What is printed for people."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import rich.console

from yolo_accum.contracts import METRIC_NAMES, EpochRecord, RunStarted, UpdateRecord
from yolo_accum.report.console import Console


class Screen(io.StringIO):
    """Collects what is printed; ``plain`` cuts out the control sequences of a terminal."""

    @property
    def plain(self) -> str:
        return "\n".join(line.rstrip() for line in self.getvalue().splitlines())


def make_console(screen: Screen, *, terminal: bool, times_s: list[float] | None = None, **keywords: object) -> Console:
    times = iter(times_s or [])
    return Console(
        terminal=rich.console.Console(file=screen, force_terminal=terminal, width=100, **keywords),
        clock=lambda: next(times, 0.0),
    )


def started(start_micro_batch: int) -> RunStarted:
    """Two epochs of 20 micro-batches."""
    return RunStarted(folder=Path(), num_epochs=2, num_micro_batches=40, start_micro_batch=start_micro_batch)


def update_record(**changes: object) -> UpdateRecord:
    values: dict[str, object] = {
        "update": 1, "epoch": 0, "first_micro_batch": 0, "last_micro_batch": 3, "images": 32, "objects": 50,
        "denominator": 100.0, "provisional": 1.0, "factor": 1.0, "losses": {"iou": 3.0, "obj": 1.25, "cls": 0.5},
        "grad_norm": 2.0, "clip_coefficient": 1.0, "scaler_scale": 1.0, "applied": True,
        "lr": {"decay": 0.01, "no_decay": 0.02}, "weight_decay": {"decay": 0.0005, "no_decay": 0.0},
        "momentum": 0.9, "ema_decay": 0.99, "images_seen": 32, "images_applied": 32, "images_dropped": 0,
        "updates_applied": 1, "updates_skipped": 0, "images_per_s": 40.0, "peak_memory_mib": 512.4,
    }  # fmt: skip
    return UpdateRecord(**{**values, **changes})  # type: ignore[arg-type]


def epoch_record(**changes: object) -> EpochRecord:
    values: dict[str, object] = {
        "epoch": 1, "images": 160, "distinct_images": 160, "images_dropped": 0, "updates_applied": 5,
        "updates_skipped": 0, "losses": {"iou": 3.0, "obj": 1.25}, "lr": {"decay": 0.01}, "metrics": {},
        "train_s": 61.0, "val_s": 2.0, "images_per_s": 39.96, "peak_memory_mib": 512.4,
    }  # fmt: skip
    return EpochRecord(**{**values, **changes})  # type: ignore[arg-type]


def test_without_a_terminal_a_running_epoch_gets_a_line_every_30_seconds() -> None:
    screen = Screen()
    # Asked at the start; then once a micro-batch, and where a line is due again for its time and the ETA.
    console = make_console(screen, terminal=False, times_s=[0.0, 10.0, 20.0, 40.0, 40.0, 40.0, 50.0])

    console.on_run_start(started(0))
    console.on_update(update_record())
    for micro_batch in range(4):
        console.on_micro_batch(micro_batch, 0, 8)

    assert screen.plain == (
        "epoch 1/2  micro-batch 3/20  loss 4.750  lr 0.02  K 8  40.0 images/s  512 MiB  ETA 0:08:13"
    )  # 40 s for 3 micro-batches leaves 37 * 40 / 3 = 493 s


def test_the_eta_of_a_resumed_run_counts_only_what_was_done_now() -> None:
    screen = Screen()
    console = make_console(screen, terminal=False, times_s=[0.0, 40.0, 40.0, 40.0])

    console.on_run_start(started(28))
    console.on_micro_batch(29, 1, 1)

    assert "epoch 2/2  micro-batch 10/20  K 1  ETA 0:03:20" in screen.plain  # 2 in 40 s, 10 are left


def test_an_epoch_leaves_one_line_with_loss_metrics_and_speed() -> None:
    screen = Screen()
    console = make_console(screen, terminal=False)
    console.on_run_start(started(0))

    console.on_epoch(epoch_record(metrics={"AP": 0.31234, "AP50": 0.6, "AR_1": 0.2}, is_best=True))

    assert screen.plain == (
        "epoch 2/2  loss 4.250 (iou 3.000, obj 1.250)  lr 0.01  AP 0.3123  AP50 0.6000  best  40.0 images/s  512 MiB  "
        "0:01:01 + 0:00:02 val"
    )


def test_refused_updates_and_dropped_images_are_told() -> None:
    screen = Screen()
    console = make_console(screen, terminal=False)

    console.on_epoch(epoch_record(updates_skipped=3, images_dropped=16))

    assert "3 updates refused  16 images dropped" in screen.plain


def test_on_a_terminal_bars_show_epoch_run_and_the_last_update_and_are_taken_away() -> None:
    screen = Screen()
    console = make_console(screen, terminal=True)
    with console:
        console.on_run_start(started(0))
        console.on_update(update_record())
        console.on_micro_batch(20, 1, 8)
        console.on_message("a message [with brackets]")
        console.on_training_end()

    shown = rich.console.Console(file=io.StringIO()).render_str(screen.getvalue(), markup=False).plain
    assert "epoch 2/2" in shown and "1/20" in shown and "21/40" in shown
    assert "loss 4.750  lr 0.02  K 8  40.0 images/s  512 MiB" in shown
    assert "a message [with brackets]" in shown
    assert screen.getvalue().count("\x1b[?25l") == screen.getvalue().count("\x1b[?25h") == 1  # cursor hidden, shown


def test_an_exception_puts_the_terminal_in_order() -> None:
    screen = Screen()
    console = make_console(screen, terminal=True)

    with pytest.raises(RuntimeError), console:
        console.on_run_start(started(0))
        raise RuntimeError

    assert screen.getvalue().count("\x1b[?25h") == 1


@pytest.mark.parametrize("running", [False, True])
def test_a_countable_task_gets_a_bar_on_a_terminal(running: bool) -> None:
    screen = Screen()
    with make_console(screen, terminal=True) as console:
        if running:
            console.on_run_start(started(0))
        with console.progress("validation", 100) as done:
            done(64)
            console.on_message("half way")  # a line above the bars has them drawn again
        after = screen.tell()
        console.on_message("done")

    assert "half way\n" in screen.getvalue() and "validation" in screen.getvalue() and " 64/100" in screen.getvalue()
    assert "validation" not in screen.getvalue()[after:]


def test_without_a_terminal_a_countable_task_gets_a_line_every_30_seconds() -> None:
    screen = Screen()
    # Asked at the start, then with every number, and once more where a line is due.
    console = make_console(screen, terminal=False, times_s=[0.0, 10.0, 31.0, 31.0, 40.0])
    with console.progress("validation", 5000) as done:
        for number in (500, 1234, 2000):
            done(number)

    assert screen.plain == "validation 1,234/5,000"


def test_metrics_table_shows_undefined_numbers_as_a_dash_and_names_as_they_are() -> None:
    screen = Screen()
    console = make_console(screen, terminal=False)
    metrics: dict[str, float | None] = dict.fromkeys(METRIC_NAMES, 0.5)

    console.metrics_table({**metrics, "AP": 0.33215, "AP_small": None}, [("a [red] ball", 12, 0.25, None)])

    words = [line.split() for line in screen.plain.splitlines()]
    assert ["AP", "0.3322", "AR_1", "0.5000"] in words
    assert ["AP_small", "-", "AR_small", "0.5000"] in words
    assert ["a", "[red]", "ball", "12", "0.2500", "-"] in words


def test_startup_table_and_run_card_show_every_row() -> None:
    screen = Screen()
    console = make_console(screen, terminal=False)

    console.startup_table({"window K": "8 micro-batches", "norm": "bn"})
    console.run_card({"weights": "runs/train/exp/weights/best.pt"})

    assert "window K   8 micro-batches" in screen.plain and "runs/train/exp/weights/best.pt" in screen.plain


def test_json_moves_everything_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    Console(as_json=True).on_message("to standard error")
    Console().on_message("to standard output")

    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("to standard output\n", "to standard error\n")


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    with make_console(screen, terminal=True) as console:
        console.on_run_start(started(0))
        console.on_micro_batch(5, 0, 8)

    assert "\x1b[3" not in screen.getvalue() and "\x1b[9" not in screen.getvalue()
