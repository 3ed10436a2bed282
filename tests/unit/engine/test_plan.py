"""Golden values and properties of the plan."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yolo_accum.engine.plan import (
    Plan,
    Tail,
    Window,
    check_divisible,
    exact_batches,
    nominal_window_length,
    scaled_weight_decay,
)
from yolo_accum.errors import UserError


def closings(plan: Plan) -> list[int]:
    return [window.last.index for window in plan.windows()]


def test_golden_windows_of_a_ramp_with_carry() -> None:
    plan = Plan(num_images=160, epochs=4, batch=8, nbs=64, warmup_epochs=3, tail="carry")
    assert plan.warmup_micro_batches == 60
    assert plan.window_length_nominal == 8
    golden = [0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 21, 25, 29, 34, 40, 46, 53, 61, 69, 77]
    assert closings(plan)[: len(golden)] == golden
    assert closings(plan)[-1] == 79  # the end of the run never leaves an open window


@pytest.mark.parametrize(
    ("batch", "length", "images"),
    [(8, 8, 64), (16, 4, 64), (24, 3, 72), (42, 2, 84), (43, 1, 43), (48, 1, 48), (64, 1, 64), (128, 1, 128)],
)
def test_window_length_of_nominal_batch_64(batch: int, length: int, images: int) -> None:
    assert nominal_window_length(batch, 64) == length
    assert batch * nominal_window_length(batch, 64) == images


def test_half_is_rounded_to_even() -> None:
    assert nominal_window_length(16, 40) == 2  # 2.5
    assert nominal_window_length(16, 56) == 4  # 3.5


@pytest.mark.parametrize(
    ("batch", "nearest"), [(42, (32, 64)), (24, (16, 32)), (128, (64,)), (8, (8,)), (48, (32, 64))]
)
def test_exact_batches_are_the_nearest_divisors(batch: int, nearest: tuple[int, ...]) -> None:
    assert exact_batches(batch, 64) == nearest


def test_exact_batches_of_a_huge_nominal_batch_are_found_at_once() -> None:
    assert exact_batches(8, 10**9) == (8,)


@pytest.mark.parametrize(("batch", "factor"), [(64, 1.0), (32, 1.0), (24, 1.125), (128, 2.0)])
def test_decay_scales_with_images_of_a_full_window(batch: int, factor: float) -> None:
    assert scaled_weight_decay(5e-4, batch, 64) == pytest.approx(5e-4 * factor, rel=1e-15)


def test_decay_uses_the_length_before_it_is_capped_by_the_run() -> None:
    assert Plan(num_images=8, epochs=2, batch=8, nbs=64).window_length_nominal == 2
    assert scaled_weight_decay(5e-4, 8, 64) == 5e-4


def test_step_closes_at_every_epoch_end() -> None:
    plan = Plan(num_images=7, epochs=2, batch=1, nbs=4, warmup_epochs=0)
    assert closings(plan) == [3, 6, 10, 13]
    assert [window.num_images for window in plan.windows()] == [4, 3, 4, 3]
    assert plan.num_updates == 4
    assert plan.updates_per_epoch == 2


def test_carry_crosses_the_epoch_end() -> None:
    plan = Plan(num_images=7, epochs=2, batch=1, nbs=4, warmup_epochs=0, tail="carry")
    assert closings(plan) == [3, 7, 11, 13]
    assert [micro.epoch for micro in list(plan.windows())[1].micro_batches] == [0, 0, 0, 1]


def test_drop_counts_what_it_drops() -> None:
    plan = Plan(num_images=7, epochs=2, batch=1, nbs=4, warmup_epochs=0, tail="drop")
    assert [(window.num_images, window.dropped) for window in plan.windows()] == [
        (4, False),
        (3, True),
        (4, False),
        (3, True),
    ]
    assert plan.num_updates == 2
    assert plan.num_images_dropped == 6


def test_drop_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="drop every micro-batch"):
        Plan(num_images=3, epochs=2, batch=1, nbs=6, warmup_epochs=0, tail="drop")


def test_empty_set_is_refused() -> None:
    with pytest.raises(UserError, match="no images"):
        Plan(num_images=0, epochs=1, batch=8, nbs=64)


def test_set_smaller_than_one_batch_gives_one_update_an_epoch() -> None:
    plan = Plan(num_images=3, epochs=2, batch=8, nbs=64)
    assert [window.num_images for window in plan.windows()] == [3, 3]


def test_warmup_is_capped_so_that_the_base_rate_is_reached() -> None:
    assert Plan(num_images=8, epochs=3, batch=2, nbs=2, warmup_epochs=3).warmup_micro_batches == 8
    assert Plan(num_images=8, epochs=1, batch=2, nbs=2, warmup_epochs=3).warmup_micro_batches == 0


def test_distances_between_updates_never_fall_during_the_ramp() -> None:
    plan = Plan(num_images=400, epochs=10, batch=4, nbs=64, warmup_epochs=1, tail="carry")
    lengths = [len(window) for window in plan.windows()][:-1]
    assert max(lengths) == 16
    assert lengths == sorted(lengths)


def test_batch_must_divide_over_replicas() -> None:
    check_divisible(16, 2)
    with pytest.raises(UserError, match="14 or 16"):
        check_divisible(15, 2)


@settings(max_examples=200, deadline=None)
@given(
    num_images=st.integers(1, 90),
    epochs=st.integers(1, 5),
    batch=st.integers(1, 20),
    nbs=st.integers(1, 70),
    warmup_epochs=st.floats(0, 4),
    ramp=st.booleans(),
    tail=st.sampled_from(["step", "carry"]),
    replicas=st.integers(1, 4),
)
def test_every_image_of_every_epoch_lies_in_exactly_one_window(
    num_images: int, epochs: int, batch: int, nbs: int, warmup_epochs: float, ramp: bool, tail: str, replicas: int
) -> None:
    plan = Plan(
        num_images=num_images,
        epochs=epochs,
        batch=batch,
        nbs=nbs,
        warmup_epochs=warmup_epochs,
        ramp=ramp,
        tail=tail,  # type: ignore[arg-type]
    )
    windows = list(plan.windows())
    micro_batches = [micro for window in windows for micro in window.micro_batches]
    assert [micro.index for micro in micro_batches] == list(range(plan.num_micro_batches))
    taken = [
        (micro.epoch, position)
        for micro in micro_batches
        for replica in range(replicas)
        for position in micro.share(replica, replicas)
    ]
    assert taken == [(epoch, position) for epoch in range(epochs) for position in range(num_images)]
    assert all(len(window) >= 1 for window in windows)
    assert plan.num_updates == len(windows)


@settings(max_examples=100, deadline=None)
@given(
    num_images=st.integers(1, 60),
    batch=st.integers(1, 9),
    nbs=st.integers(1, 40),
    tail=st.sampled_from(["step", "carry"]),
    stop_after=st.integers(0, 30),
)
def test_a_plan_that_starts_at_a_window_end_goes_on_with_the_same_windows(
    num_images: int, batch: int, nbs: int, tail: str, stop_after: int
) -> None:
    common = {"num_images": num_images, "epochs": 3, "batch": batch, "nbs": nbs, "warmup_epochs": 2.0, "tail": tail}
    windows = list(Plan(**common).windows())  # type: ignore[arg-type]
    stop = windows[min(stop_after, len(windows) - 1)].last
    at_end = stop.stop == num_images
    rest = Plan(
        **common,  # type: ignore[arg-type]
        start_epoch=stop.epoch + at_end,
        start_position=0 if at_end else stop.stop,
    )
    expected = [window for window in windows if window.first.index > stop.index]
    assert list(rest.windows()) == expected


def test_resume_with_another_batch_takes_every_remaining_image_once() -> None:
    plan = Plan(num_images=100, epochs=2, batch=6, nbs=64, start_epoch=0, start_position=32, warmup_epochs=0)
    positions = [
        (micro.epoch, position)
        for window in plan.windows()
        for micro in window.micro_batches
        for position in range(micro.start, micro.stop)
    ]
    assert positions == [(0, p) for p in range(32, 100)] + [(1, p) for p in range(100)]


def test_going_on_after_update_30_ends_at_update_75() -> None:
    # 100 micro-batches an epoch, window 4, three epochs: 75 updates; update 30 ends with micro-batch 20 of epoch 2
    rest = Plan(num_images=100, epochs=3, batch=1, nbs=4, warmup_epochs=0, start_epoch=1, start_position=20)
    assert next(rest.windows()).first.start == 20
    assert 30 + rest.num_updates == 75


@settings(max_examples=150, deadline=None)
@given(
    num_images=st.integers(1, 90),
    batch=st.integers(1, 20),
    nbs=st.integers(1, 70),
    epochs=st.integers(1, 5),
    warmup_epochs=st.sampled_from([0.0, 0.4, 1.0, 3.0]),
    ramp=st.booleans(),
    tail=st.sampled_from(["step", "carry"]),
)
def test_windows_close_as_a_walk_micro_batch_by_micro_batch_says(
    num_images: int, batch: int, nbs: int, epochs: int, warmup_epochs: float, ramp: bool, tail: Tail
) -> None:
    plan = Plan(
        num_images=num_images,
        epochs=epochs,
        batch=batch,
        nbs=nbs,
        warmup_epochs=warmup_epochs,
        ramp=ramp,
        tail=tail,
    )
    last, expected = -1, []
    for index in range(plan.num_micro_batches):
        ends = index + 1 == plan.num_micro_batches if tail == "carry" else (index + 1) % -(-num_images // batch) == 0
        if index - last >= plan.window_length(index) or ends:
            expected.append(index)
            last = index
    assert closings(plan) == expected


@pytest.mark.parametrize("start", [(0, 0), (1, 0), (1, 5), (2, 20)])
@pytest.mark.parametrize("tail", ["step", "carry", "drop"])
def test_spans_are_the_windows_in_numbers(tail: Tail, start: tuple[int, int]) -> None:
    plan = Plan(
        num_images=21,
        epochs=4,
        batch=2,
        nbs=8,
        warmup_epochs=1,
        tail=tail,
        start_epoch=start[0],
        start_position=start[1],
    )
    assert [tuple(span) for span in plan.spans()] == [
        (window.first.index, window.last.index, window.num_images, window.dropped) for window in plan.windows()
    ]


def test_a_large_batch_follows_the_growing_windows_of_a_small_one() -> None:
    plan = Plan(num_images=160, epochs=4, batch=64, nbs=64, warmup_epochs=3, tail="carry", window_batch=8)
    small = Plan(num_images=160, epochs=4, batch=8, nbs=64, warmup_epochs=3, tail="carry")

    sizes = [[micro.num_images for micro in window.micro_batches] for window in plan.windows()]
    assert sizes[:8] == [[8], [8], [8], [8], [8], [16], [16], [16]]
    assert sizes[-3:] == [[64], [64], [16]]
    assert [8, 16] in sizes  # micro-batches 19 to 21 of 8: one ends the first epoch, two begin the second
    assert plan.full_window_images == 64 and plan.window_length_nominal == 1
    assert plan.num_updates == small.num_updates and plan.warmup_images == small.warmup_images


def test_decay_of_windows_that_are_cut_anew_is_that_of_the_windows() -> None:
    plan = Plan(num_images=96, epochs=2, batch=64, nbs=64, window_batch=24)
    assert plan.full_window_images == 72
    assert scaled_weight_decay(5e-4, plan.base.batch, plan.nbs) == pytest.approx(5e-4 * 72 / 64)


def test_windows_that_would_all_be_dropped_are_refused_however_they_are_cut() -> None:
    with pytest.raises(UserError, match="drop every micro-batch"):
        Plan(num_images=3, epochs=2, batch=3, nbs=6, warmup_epochs=0, tail="drop", window_batch=1)


RANDOM_PLANS = {
    "num_images": st.integers(1, 60),
    "epochs": st.integers(1, 4),
    "batch": st.integers(1, 70),
    "window_batch": st.integers(1, 20),
    "nbs": st.integers(1, 70),
    "warmup_epochs": st.floats(0, 3),
    "ramp": st.booleans(),
    "tail": st.sampled_from(["step", "carry"]),
}


@settings(max_examples=200, deadline=None)
@given(options=st.fixed_dictionaries(RANDOM_PLANS))
def test_windows_cut_anew_hold_the_same_images_in_the_same_order(options: dict[str, Any]) -> None:
    plan = Plan(**options)
    base = Plan(**{**options, "batch": options["window_batch"], "window_batch": None})

    windows, planned = list(plan.windows()), list(base.windows())
    assert [positions(window) for window in windows] == [positions(window) for window in planned]
    assert [window.dropped for window in windows] == [window.dropped for window in planned]
    micro_batches = [micro for window in windows for micro in window.micro_batches]
    assert [micro.index for micro in micro_batches] == list(range(plan.num_micro_batches))
    assert all(1 <= micro.num_images <= plan.batch for micro in micro_batches)
    for window in windows:  # no more micro-batches than the images of each epoch need
        for epoch in {micro.epoch for micro in window.micro_batches}:
            parts = [micro.num_images for micro in window.micro_batches if micro.epoch == epoch]
            assert len(parts) == -(-sum(parts) // plan.batch)
    assert plan.num_updates == base.num_updates
    assert [tuple(span) for span in plan.spans()] == [
        (window.first.index, window.last.index, window.num_images, window.dropped) for window in windows
    ]


@settings(max_examples=100, deadline=None)
@given(options=st.fixed_dictionaries(RANDOM_PLANS), stop_after=st.integers(0, 30))
def test_windows_cut_anew_go_on_after_an_interruption(options: dict[str, Any], stop_after: int) -> None:
    windows = list(Plan(**options).windows())
    stop = windows[min(stop_after, len(windows) - 1)].last
    at_end = stop.stop == options["num_images"]

    rest = Plan(**options, start_epoch=stop.epoch + at_end, start_position=0 if at_end else stop.stop)

    assert list(rest.windows()) == [window for window in windows if window.first.index > stop.index]


def positions(window: Window) -> list[tuple[int, int]]:
    """Epoch and position of every image of a window, in order."""
    return [(micro.epoch, place) for micro in window.micro_batches for place in range(micro.start, micro.stop)]


@pytest.mark.parametrize("window_batch", [None, 2])
def test_the_rest_of_a_run_knows_the_whole(window_batch: int | None) -> None:
    options = {"num_images": 21, "epochs": 3, "batch": 4, "nbs": 8, "warmup_epochs": 1.0, "window_batch": window_batch}
    whole = Plan(**options)  # type: ignore[arg-type]
    rest = Plan(**options, start_epoch=1, start_position=8)  # type: ignore[arg-type]

    assert rest.whole == whole and whole.whole is whole
    assert rest.num_updates < rest.whole.num_updates
