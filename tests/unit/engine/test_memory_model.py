"""The line through two measurements, the micro-batch that fits, and what is measured of live tensors."""

from __future__ import annotations

import pytest
import torch

from yolo_accum.config.byte_size import byte_size, size_text
from yolo_accum.engine.fidelity import gradient_cosine, recommended_norm
from yolo_accum.engine.free_memory import free_memory_bytes
from yolo_accum.engine.memory_model import MemoryModel, candidate_batches, fit_memory, largest_batch
from yolo_accum.engine.memory_probe import LiveTensors, Probe, dense_batch, memory_model


def test_a_line_through_two_points_and_the_floor_of_the_update() -> None:
    model = fit_memory({1: 130.0, 2: 160.0}, update_bytes=150.0)

    assert (model.fixed_bytes, model.image_bytes) == (100.0, 30.0)
    assert [model.peak_bytes(images) for images in (1, 2, 8)] == [150.0, 160.0, 340.0]


def test_the_largest_micro_batch_that_divides_and_leaves_a_tenth_free() -> None:
    model = MemoryModel(fixed_bytes=100, image_bytes=10, update_bytes=0)

    assert largest_batch(model, 200, 64, 1) == 8  # 180 of 180 usable
    assert largest_batch(model, 199, 64, 1) == 4
    assert largest_batch(model, 200, 64, 2) == 16  # 8 on each replica
    assert largest_batch(model, 100, 64, 1) is None
    assert candidate_batches(64, 2) == [2, 4, 8, 16, 32, 64]
    assert candidate_batches(64, 3)[:2] == [3, 6] and candidate_batches(64, 3)[-1] == 63
    assert candidate_batches(2, 4) == [4]


def test_on_a_cpu_the_program_is_what_the_tensors_do_not_explain() -> None:
    kept = Probe(peaks={1: 100.0, 2: 200.0}, update_bytes=50.0, process_bytes=1240.0, seconds_per_image=1.0)
    recomputed = Probe(peaks={1: 20.0, 2: 30.0}, update_bytes=50.0, process_bytes=1e9, seconds_per_image=1.3)

    # scratch 20 an image, so that 2 images explain 240 bytes and the program is 1000
    assert memory_model(kept, kept).peak_bytes(4) == pytest.approx(1000 + 4 * 120)
    assert memory_model(recomputed, kept).peak_bytes(4) == pytest.approx(1000 + 10 + 4 * 30)


def test_kernels_of_half_precision_need_more_besides_the_tensors() -> None:
    half = Probe(
        peaks={1: 100.0, 2: 200.0}, update_bytes=0.0, process_bytes=250.0, seconds_per_image=1.0, is_half_precision=True
    )
    assert memory_model(half, half).peak_bytes(4) == pytest.approx(4 * 125)


def test_live_tensors_counts_what_is_alive_at_once() -> None:
    with LiveTensors() as live:
        first = torch.zeros(1000)
        view = first.view(10, 100)
        second = first + 1
        del first, view
        third = second * 2
    assert live.take_peak() == 8000
    assert live.take_peak() == 8000  # second and third
    del second, third
    live.take_peak()
    assert live.take_peak() == 0


def test_live_tensors_sees_the_backward_pass() -> None:
    weight = torch.ones(1000, requires_grad=True)
    with LiveTensors() as live:
        loss = (weight * 2).exp().sum()
        live.take_peak()
        loss.backward()
    assert live.take_peak() >= 3 * 4000  # weight, saved exp, gradients


def test_dense_batches_are_dense() -> None:
    batch = dense_batch(3, num_objects=7, num_classes=2, size_px=64, epoch=5)

    assert batch.images.shape == (3, 3, 64, 64) and batch.epoch == 5
    assert batch.sample_of_box.bincount().tolist() == [7, 7, 7]
    assert (batch.boxes_xyxy_px[:, 2:] > batch.boxes_xyxy_px[:, :2]).all()
    assert batch.boxes_xyxy_px.min() >= 0 and batch.boxes_xyxy_px.max() <= 64


def test_fidelity_of_the_next_smaller_measured_micro_batch() -> None:
    assert gradient_cosine("wrn", 12, 64) == 0.87
    assert gradient_cosine("bn", 64, 64) == 1.0
    assert gradient_cosine("wrn", 1, 64) is None
    assert [recommended_norm(images, 64) for images in (2, 8, 16, 64)] == ["wrn", "wrn", "bn", "bn"]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GiB", 2**33),
        ("8 gib", 2**33),
        ("8G", 2**33),
        ("1.5GB", 1_500_000_000),
        ("800MiB", 800 * 2**20),
        ("64kB", 64000),
    ],
)
def test_amounts_of_memory(text: str, size: int) -> None:
    assert byte_size(text, "--memory") == size


@pytest.mark.parametrize("text", ["8", "GiB", "0GiB", "8XiB", "-1GiB", "", "8GiB!"])
def test_other_texts_are_no_amounts(text: str) -> None:
    with pytest.raises(ValueError, match=r"^--memory .*such as 8GiB or 800MiB"):
        byte_size(text, "--memory")


def test_amounts_for_people_and_free_memory() -> None:
    assert (size_text(2**30 * 1.5), size_text(3 * 2**20)) == ("1.50 GiB", "3 MiB")
    assert free_memory_bytes(torch.device("cpu")) > 2**26
