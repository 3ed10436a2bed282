"""An observer that fails is switched off with a word, and never ends a run."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from run_of_records import epoch_record, update_record

from yolo_accum.contracts import CheckpointSaved, Observer, RunEnded, RunStarted, WindowOpened
from yolo_accum.report.guarded import Guarded

STARTED = RunStarted(folder=Path(), num_epochs=2, num_micro_batches=40, start_micro_batch=0)
OPENED = WindowOpened(
    update=1, epoch=0, first_micro_batch=0, last_micro_batch=7, num_images=64, lr={"decay": 0.01}, momentum=0.9
)
EVENTS = {
    "on_run_start": (STARTED,),
    "on_window_open": (OPENED,),
    "on_micro_batch": (3, 0, 8),
    "on_update": (update_record(1),),
    "on_update_applied": (update_record(1),),
    "on_update_refused": (update_record(1),),
    "on_epoch": (epoch_record(0),),
    "on_checkpoint": (CheckpointSaved(path=Path("last.pt"), micro_batches_done=8, best_path=None),),
    "on_training_end": (),
    "on_run_end": (RunEnded(outcome="finished"),),
}


def recorder(failing: str = "", error: BaseException | None = None) -> tuple[Observer, list[tuple[object, ...]]]:
    """An observer that notes what it is told, and raises in one event."""
    told: list[tuple[object, ...]] = []

    def method(event: str):  # type: ignore[no-untyped-def]
        def note(self: Observer, *payload: object) -> None:
            told.append((event, *payload))
            if event == failing:
                raise error or ValueError("no  \n good")

        return note

    return type("Recorder", (Observer,), {event: method(event) for event in EVENTS})(), told


def test_these_are_all_events() -> None:
    assert list(EVENTS) == [name for name in vars(Observer) if name.startswith("on_")]


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_is_passed_on_as_it_is(event: str) -> None:
    observer, told = recorder()
    getattr(Guarded("it", observer, print, with_traceback=False), event)(*EVENTS[event])

    assert told == [(event, *EVENTS[event])]


@pytest.mark.parametrize("event", EVENTS)
def test_one_that_raises_is_named_once_and_hears_nothing_more(event: str) -> None:
    observer, told = recorder(event)
    messages: list[str] = []
    guarded = Guarded("callback mine", observer, messages.append, with_traceback=False)
    for _ in range(3):
        getattr(guarded, event)(*EVENTS[event])
    guarded.on_update(update_record(2))

    assert told == [(event, *EVENTS[event])]
    assert messages[0] == (
        f"warning: callback mine failed in {event} (ValueError: no good) and is switched off; the run goes on"
    )
    assert guarded.failure is not None
    assert (guarded.failure.name, guarded.failure.event) == ("callback mine", event)
    assert guarded.num_missed == 3
    assert len(messages) == (1 if event != "on_run_end" else 3)


def test_people_see_where_their_own_code_failed() -> None:
    messages: list[str] = []
    Guarded("it", recorder("on_training_end")[0], messages.append, with_traceback=True).on_training_end()

    assert messages[0].endswith("the run goes on:")
    assert messages[1].startswith("Traceback") and "test_guarded.py" in messages[1]


def test_the_end_names_again_who_was_switched_off() -> None:
    messages: list[str] = []
    guarded = Guarded("it", recorder("on_update")[0], messages.append, with_traceback=False)
    guarded.on_update(update_record(1))
    guarded.on_update_applied(update_record(1))
    guarded.on_run_end(RunEnded(outcome="finished"))

    assert messages[1:] == ["warning: it was switched off in on_update (ValueError: no good) and has missed 2 events"]


def test_leaving_the_program_is_up_to_people_and_the_system() -> None:
    messages: list[str] = []
    Guarded("it", recorder("on_update", SystemExit(0))[0], messages.append, with_traceback=False).on_update(
        update_record(1)
    )
    assert "SystemExit" in messages[0]
    for error in (KeyboardInterrupt(), SystemExit(128 + signal.SIGTERM)):
        guarded = Guarded("it", recorder("on_update", error)[0], messages.append, with_traceback=False)
        with pytest.raises(type(error)):
            guarded.on_update(update_record(1))
