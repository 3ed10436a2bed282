"""Batches: the same bytes from any number of workers, in the order asked for, workers that end quietly."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from picture_index import random_pictures, write_picture_index

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.contracts import Batch, DetectionIndex, SampleKey
from yolo_accum.data.augment import Photometric
from yolo_accum.data.dataset import EvalDataset, TrainDataset
from yolo_accum.data.loader import collate, eval_loader, train_loader
from yolo_accum.data.worker_count import default_workers

AUGMENT = AugmentConfig(mixup=0.3, degrees=10, shear=5, flipud=0.3, photometric=0.2)
NUM_IMAGES = 18


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> DetectionIndex:
    return write_picture_index(tmp_path_factory.mktemp("pictures"), [((50, 40), []), *random_pictures(NUM_IMAGES - 1)])


def train_dataset(index: DetectionIndex, seed: int = 1) -> TrainDataset:
    return TrainDataset(index, AUGMENT, seed=seed, num_epochs=4, photometric=Photometric(AUGMENT.photometric))


def micro_batches(size: int, num_epochs: int = 3) -> Iterator[list[SampleKey]]:
    """All positions of some epochs; every other micro-batch at another input size; a short one ends each epoch."""
    for epoch in range(num_epochs):
        for number, start in enumerate(range(0, NUM_IMAGES, size)):
            size_px = 64 + 32 * (number % 2)
            yield [SampleKey(epoch, place, size_px) for place in range(start, min(start + size, NUM_IMAGES))]


def digests(batches: Iterable[Batch]) -> list[str]:
    """One for each batch, over everything in it."""
    found = []
    for batch in batches:
        state = hashlib.sha256(repr((batch.epoch, batch.letterboxes, batch.problems)).encode())
        for tensor in (batch.images, batch.boxes_xyxy_px, batch.labels, batch.sample_of_box, batch.image_indices):
            state.update(repr((tensor.shape, tensor.dtype)).encode())
            state.update(tensor.numpy().tobytes())
        found.append(state.hexdigest())
    return found


@pytest.mark.filterwarnings("ignore:This DataLoader will create 8 worker:UserWarning")
@pytest.mark.parametrize(("workers", "start_method"), [(2, None), (2, "spawn"), (8, None)])
def test_any_number_of_workers_gives_the_same_bytes(index: DetectionIndex, workers: int, start_method) -> None:
    dataset = train_dataset(index)
    alone = digests(train_loader(dataset, micro_batches(4), workers=0, pin_memory=False))
    assert len(alone) == 15
    assert len(set(alone)) == 15
    loader = train_loader(dataset, micro_batches(4), workers=workers, pin_memory=False, start_method=start_method)
    assert digests(loader) == alone


def test_a_sample_does_not_depend_on_the_micro_batch(index: DetectionIndex) -> None:
    by_size = []
    for size in (1, 5):
        keys = ([SampleKey(key.epoch, key.position, 64) for key in keys] for keys in micro_batches(size))
        loader = train_loader(train_dataset(index), keys, workers=0, pin_memory=False)
        by_size.append(torch.cat([batch.images for batch in loader]))
    assert torch.equal(*by_size)


def test_the_seed_changes_the_samples(index: DetectionIndex) -> None:
    first, second = (
        digests(train_loader(train_dataset(index, seed), micro_batches(9, 1), workers=0, pin_memory=False))
        for seed in (1, 2)
    )
    assert not set(first) & set(second)


def test_micro_batches_are_asked_for_as_they_are_needed(index: DetectionIndex) -> None:
    asked: list[int] = []

    def endless() -> Iterator[list[SampleKey]]:
        epoch = 0
        while True:
            asked.append(epoch)
            yield [SampleKey(epoch, 0, 64)]
            epoch += 1

    batches = iter(train_loader(train_dataset(index), endless(), workers=2, pin_memory=False))
    assert [next(batches).epoch for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(asked) <= 5 + 2 * 4 + 1


def test_the_random_state_of_the_run_is_left_alone(index: DetectionIndex) -> None:
    before = torch.get_rng_state()
    for workers in (0, 2):
        list(train_loader(train_dataset(index), micro_batches(9, 1), workers=workers, pin_memory=False))
    assert torch.equal(torch.get_rng_state(), before)


def test_collate_by_hand(index: DetectionIndex) -> None:
    dataset = EvalDataset(index, 64)
    counts = [len(dataset[row].labels) for row in range(6)]
    assert 0 in counts  # a picture without objects is among them
    batch = collate([dataset[row] for row in range(6)])
    assert batch.num_images == 6
    assert batch.images.dtype == torch.uint8
    assert batch.images.is_contiguous()
    assert batch.image_indices.tolist() == [0, 1, 2, 3, 4, 5]
    assert batch.sample_of_box.tolist() == [row for row in range(6) for _ in range(counts[row])]
    assert batch.sample_of_box.dtype == batch.labels.dtype == torch.int64
    assert len(batch.letterboxes) == 6
    for row in range(6):
        assert np.array_equal(batch.images[row].numpy(), dataset[row].image)
        mine = batch.sample_of_box == row
        assert np.array_equal(batch.boxes_xyxy_px[mine].numpy(), dataset[row].boxes_xyxy_px)


def test_collate_without_any_object(tmp_path: Path) -> None:
    empty = write_picture_index(tmp_path, [((40, 40), []), ((50, 30), [])])
    batch = collate([EvalDataset(empty, 64)[row] for row in range(2)])
    assert batch.boxes_xyxy_px.shape == (0, 4)
    assert batch.labels.shape == batch.sample_of_box.shape == (0,)
    assert batch.labels.dtype == batch.sample_of_box.dtype == torch.int64


@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_goes_through_all_pictures_in_every_pass(index: DetectionIndex, workers: int) -> None:
    loader = eval_loader(EvalDataset(index, 64), 5, workers=workers, pin_memory=False)
    assert len(loader) == 4
    for _ in range(2):
        batches = list(loader)
        assert [batch.num_images for batch in batches] == [5, 5, 5, 3]
        assert torch.cat([batch.image_indices for batch in batches]).tolist() == list(range(NUM_IMAGES))


def test_evaluation_of_some_rows(index: DetectionIndex) -> None:
    loader = eval_loader(EvalDataset(index, 64), 2, workers=0, pin_memory=False, indices=range(1, NUM_IMAGES, 4))
    assert [batch.image_indices.tolist() for batch in loader] == [[1, 5], [9, 13], [17]]


def test_problems_reach_the_main_process(tmp_path: Path) -> None:
    index = write_picture_index(tmp_path, random_pictures(6))
    Path(index.image_paths[4]).unlink()
    [batch] = eval_loader(EvalDataset(index, 64), 6, workers=1, pin_memory=False)
    [problem] = batch.problems
    assert "004.png" in problem
    assert batch.to(torch.device("cpu")).problems == batch.problems


@pytest.mark.parametrize(("num_cores", "workers"), [(1, 1), (2, 2), (8, 8), (64, 8)])
def test_default_workers(num_cores: int, workers: int) -> None:
    assert default_workers(num_cores) == workers


INTERRUPTED_RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from picture_index import random_pictures, write_picture_index
from yolo_accum.config.schema import AugmentConfig
from yolo_accum.contracts import SampleKey
from yolo_accum.data.dataset import TrainDataset
from yolo_accum.data.loader import train_loader

index = write_picture_index(Path(sys.argv[2]), random_pictures(6))
keys = ([SampleKey(epoch, place, 64) for place in range(6)] for epoch in range(10**9))
dataset = TrainDataset(index, AugmentConfig(), seed=0, num_epochs=10**9)
try:
    for batch in train_loader(dataset, keys, workers=2, pin_memory=False):
        print("batch", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_reaches_the_main_process_alone(tmp_path: Path) -> None:
    """The signal goes to the whole process group, as a terminal sends it."""
    run = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_RUN, str(Path(__file__).parents[2]), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert run.stdout is not None
    for _ in range(20):
        assert run.stdout.readline() == "batch\n"
    os.killpg(run.pid, signal.SIGINT)
    start = time.monotonic()
    out, err = run.communicate(timeout=60)
    assert time.monotonic() - start < 20
    assert out.splitlines()[-1] == "interrupted"
    assert err == ""
    assert run.returncode == 0
