"""Checks of what a training computes: gradients, precisions, norms, memory formats, compiled and recomputed blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from yolo_accum.cli.gpu_checks.setup import Outcome, Setup, tf32
from yolo_accum.contracts import Batch
from yolo_accum.engine.gradients import Agreement, Gradient, KeepGradients, agreement
from yolo_accum.engine.loop import FinishedWindow, LoopState
from yolo_accum.engine.totals import gradient_factor
from yolo_accum.engine.update import Stepper
from yolo_accum.model.recompute import recompute_activations
from yolo_accum.model.yolox import YOLOX

LIMITS = {torch.float32: 1e-5, torch.float64: 1e-10}
"""Relative differences that rounding explains. One object that rounding gives to another place of the network makes a
larger one in float32, so float64 has the last word."""
OTHER_KERNELS_LIMITS = {torch.float32: 1e-3, torch.float64: 1e-8}
"""The same for gradients that other kernels, another arithmetic or another device computed."""
COSINE_LIMIT = {"tf32": 0.99, "fp16": 0.99, "bf16": 0.95, "compiled": 0.99}
"""Of a gradient of less precision, or of fused kernels, with that of float32."""
LOSS_LIMIT = 0.1
"""Relative difference of a loss in half precision; an object given to another place moves it by some per cent."""
OVERFLOWING_SCALE = 2.0**100
START_SCALE = 64.0
Pair = tuple[Gradient, Gradient]
NORMS = ("bn", "syncbn", "cmbn", "wrn", "gn", "frozen")


def check_accumulation(setup: Setup) -> Outcome:
    """Micro-batches against the large batch, without batch statistics."""
    figures: dict[str, float] = {}
    ok = True
    whole, cut = setup.noise(setup.nbs), setup.noise(setup.nbs, setup.batch)
    for norm in ("frozen", "gn"):
        model = setup.build_model(norm)

        def gradients(dtype: torch.dtype, model: YOLOX = model) -> Pair:
            return setup.measure(model, cut, dtype=dtype).gradient, setup.measure(model, whole, dtype=dtype).gradient

        difference, holds = _difference(gradients, LIMITS)
        with tf32(True):
            found = agreement_of(*gradients(torch.float32))
        figures |= {norm: difference, f"{norm}_tf32": found.relative_difference}
        ok &= holds and found.cosine >= COSINE_LIMIT["tf32"]
    differences = ", ".join(f"{name} {value:.1e}" for name, value in figures.items())
    return Outcome(ok=ok, text=f"relative difference to the large batch: {differences}", figures=figures)


def check_fp16(setup: Setup) -> Outcome:
    """The scale stays within a window, and a forced overflow refuses one update and leaves no trace."""
    stepper = setup.stepper(setup.build_model("bn"), precision="fp16")
    loop = setup.loop(stepper, num_updates=3)
    scaler = stepper.scaler
    assert scaler is not None, "fp16 has a scaler"
    scaler.set_growth_interval(1)
    scales: list[float] = []

    def batches() -> Iterator[Batch]:
        for number in range(3 * setup.window_length):
            if number % setup.window_length == 0:
                scaler.scale(torch.ones((), device=setup.device))  # makes the scale, which is lazy
                scaler.update(OVERFLOWING_SCALE if number == setup.window_length else START_SCALE)
            scales.append(scaler.get_scale())
            yield cut[number % setup.window_length]

    cut = setup.noise(setup.nbs, setup.batch)
    finished: list[FinishedWindow] = []
    states: list[list[Tensor]] = []
    assert loop.ema is not None
    for window in loop.run(batches(), LoopState()):
        finished.append(window)
        tensors = [*stepper.model.state_dict().values(), *loop.ema.model.model.state_dict().values()]
        tensors += [
            value for state in stepper.optimizer.state.values() for value in state.values() if isinstance(value, Tensor)
        ]
        states.append([tensor.detach().clone() for tensor in tensors])
    applied = [window.record is not None and window.record.applied for window in finished]
    length = setup.window_length
    constant = all(len(set(scales[start : start + length])) == 1 for start in range(0, len(scales), length))
    # counts of batches that norms have seen are integers, which nothing depends on
    traces = sum(
        not torch.equal(before, after)
        for before, after in zip(states[0], states[1], strict=True)
        if before.is_floating_point()
    )
    clocks = [window.state.clock for window in finished]
    stood_still = (
        clocks[1].images_applied == clocks[0].images_applied and clocks[1].updates_applied == clocks[0].updates_applied
    )
    agrees, cosine, loss = _half_precision(setup, "fp16")
    ok = applied == [True, False, True] and constant and traces == 0 and stood_still and agrees
    return Outcome(
        ok=ok,
        text=f"applied {applied}, scale constant in a window: {constant}, tensors that the refused update changed: "
        f"{traces}, against float32 cosine {cosine:.4f}, loss {loss:.1%} off",
        figures={
            "cosine": cosine,
            "loss_difference": loss,
            "changed_tensors": traces,
            "refused": clocks[-1].updates_skipped,
        },
    )


def check_bf16(setup: Setup) -> Outcome:
    """The gradient resembles that of float32, and updates are applied."""
    agrees, cosine, loss = _half_precision(setup, "bf16")
    loop = setup.loop(setup.stepper(setup.build_model("bn"), precision="bf16"), num_updates=2)
    finished = list(loop.run(setup.noise(setup.nbs, setup.batch) * 2, LoopState()))
    applied = finished[-1].state.clock.updates_applied
    return Outcome(
        ok=agrees and applied == 2,
        text=f"against float32 cosine {cosine:.4f}, loss {loss:.1%} off; {applied} of 2 updates applied",
        figures={"cosine": cosine, "loss_difference": loss, "applied": applied},
    )


def check_channels_last(setup: Setup) -> Outcome:
    """Both memory formats give one gradient."""
    cut = setup.noise(setup.nbs, setup.batch)
    model = setup.build_model()

    def gradients(dtype: torch.dtype) -> Pair:
        last = setup.measure(model, cut, dtype=dtype, channels_last=True)
        return last.gradient, setup.measure(model, cut, dtype=dtype).gradient

    difference, holds = _difference(gradients, OTHER_KERNELS_LIMITS)
    return Outcome(
        ok=holds,
        text=f"relative difference on and off {difference:.1e}",
        figures={"relative_difference": difference},
    )


def check_norms(setup: Setup) -> Outcome:
    """Every norm: the CPU's gradient, the identities that hold for one micro-batch, and an update."""
    whole, cut = setup.noise(setup.batch), setup.noise(2 * setup.batch, setup.batch)
    plain = setup.build_model("bn")
    figures: dict[str, float] = {}
    failed: list[str] = []
    for norm in NORMS:
        model = setup.build_model(norm)

        def gradients(dtype: torch.dtype, model: YOLOX = model) -> Pair:
            return setup.measure(model, whole, dtype=dtype).gradient, setup.measure(plain, whole, dtype=dtype).gradient

        def across_devices(dtype: torch.dtype, model: YOLOX = model) -> Pair:
            here = setup.measure(model, cut, dtype=dtype).gradient
            there = setup.measure(model.cpu(), cut, dtype=dtype).gradient
            model.to(setup.device)
            return here, there

        if norm in ("syncbn", "cmbn", "wrn"):
            figures[f"{norm}_bn"], holds = _difference(gradients, OTHER_KERNELS_LIMITS)
            failed += [] if holds else [f"{norm} is not bn in a window of one"]
        if setup.device.type != "cpu" and norm != "syncbn":  # torch's own of CUDA knows no CPU
            figures[f"{norm}_cpu"], holds = _difference(across_devices, OTHER_KERNELS_LIMITS)
            failed += [] if holds else [f"{norm} differs from the CPU's"]
        loop = setup.loop(setup.stepper(model.float()), num_updates=1)
        [finished] = loop.run(setup.noise(setup.nbs, setup.batch), LoopState())
        finite = all(bool(tensor.isfinite().all()) for tensor in model.state_dict().values())
        if finished.state.clock.updates_applied != 1 or not finite:
            failed.append(f"{norm}: no finite update")
    worst = max(figures, key=lambda name: figures[name])
    return Outcome(
        ok=not failed,
        text=f"{', '.join(NORMS)}: largest relative difference {figures[worst]:.1e} ({worst})"
        + (f"; failed: {', '.join(failed)}" if failed else ""),
        figures=figures,
    )


def check_checkpointed(setup: Setup) -> Outcome:
    """Blocks that are computed again give the same gradient, for less memory."""
    whole = setup.noise(setup.nbs)
    figures = {}
    for norm in ("bn", "wrn"):
        model = setup.build_model(norm)
        with tf32(False):
            kept = setup.measure(model, whole)
            recompute_activations(model)
            again = setup.measure(model, whole)
        figures[f"{norm}_relative_difference"] = agreement_of(again.gradient, kept.gradient).relative_difference
    ok = max(figures.values()) <= LIMITS[torch.float32]
    text = f"relative difference {max(figures.values()):.1e}"
    if setup.device.type == "cuda" and kept.peak_memory_mib and again.peak_memory_mib:
        figures |= {"memory": again.peak_memory_mib / kept.peak_memory_mib, "time": again.seconds / kept.seconds}
        ok &= figures["memory"] < 1
        text += f", {figures['memory']:.2f} of the memory, {figures['time']:.2f} times the time"
    return Outcome(ok=ok, text=text, figures=figures)


def check_compile(setup: Setup) -> Outcome:
    """A compiled model gives the gradient of the plain one; reduced, its head alone, without generating code."""
    cut = setup.noise(setup.nbs, setup.batch)
    model = setup.build_model()
    with tf32(False):
        plain = setup.measure(model, cut).gradient
        if setup.reduced:
            model.head.compile(backend="eager")
        else:
            model.compile()
        first = setup.measure(model, cut)
        second = setup.measure(model, cut)
    found = agreement_of(second.gradient, plain)
    return Outcome(
        ok=found.cosine >= COSINE_LIMIT["compiled"],
        text=f"relative difference {found.relative_difference:.1e}, cosine {found.cosine:.6f}; first window "
        f"{first.seconds:.1f} s, then {second.seconds:.2f} s",
        figures={
            "relative_difference": found.relative_difference,
            "cosine": found.cosine,
            "first_s": first.seconds,
            "then_s": second.seconds,
        },
    )


def _difference(gradients: Callable[[torch.dtype], Pair], limits: Mapping[torch.dtype, float]) -> tuple[float, bool]:
    """Relative difference of two gradients, without tf32, and whether it is within a limit, at last in float64."""
    difference = 0.0
    for dtype, limit in limits.items():
        with tf32(False):
            difference = agreement_of(*gradients(dtype)).relative_difference
        if difference <= limit:
            return difference, True
    return difference, False


def agreement_of(found: Gradient, expected: Gradient) -> Agreement:
    """Of all parameters together."""
    return agreement(found, expected, expected)


def _half_precision(setup: Setup, precision: str) -> tuple[bool, float, float]:
    """Whether half precision follows float32, by the cosine of gradients without batch statistics and the relative
    difference of a loss with them. New weights with batch statistics are no measure of gradients: rounding turns them.
    """
    cut = setup.noise(setup.nbs, setup.batch)
    gradients, losses = [], []
    for name in (precision, "off"):
        gradients.append(_gradient(setup.stepper(setup.build_model(), precision=name, keep_gradients=True), cut))
        loop = setup.loop(setup.stepper(setup.build_model("bn"), precision=name), num_updates=1)
        [finished] = loop.run(cut, LoopState())
        assert finished.totals is not None, "nothing is dropped"
        losses.append(sum(finished.totals.losses().values()))
    cosine = agreement_of(*gradients).cosine
    difference = abs(losses[0] / losses[1] - 1)
    return cosine >= COSINE_LIMIT[precision] and difference <= LOSS_LIMIT, cosine, difference


def _gradient(stepper: Stepper, batches: list[Batch]) -> Gradient:
    """Of a window, as `Loop` would make it."""
    provisional = float(sum(batch.num_images for batch in batches) * 16)
    if stepper.scaler is not None:
        stepper.scaler.scale(torch.ones((), device=stepper.device))
        stepper.scaler.update(START_SCALE)
    stepper.open_window(len(batches))
    images, denominator = 0, 0.0
    for batch in batches:
        sums = stepper.forward(batch.to(stepper.device))
        stepper.backward(sums, provisional)
        images, denominator = images + batch.num_images, denominator + float(sums.denominator)
    factor = gradient_factor(provisional=provisional, images=images, nbs=images, denominator=denominator)
    assert stepper.apply(factor, finite=True).applied, "the gradient is not finite"
    assert isinstance(stepper.optimizer, KeepGradients)
    return stepper.optimizer.gradient
