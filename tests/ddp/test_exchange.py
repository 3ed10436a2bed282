"""What replicas exchange, when, and how one that fails takes the others along."""

from __future__ import annotations

import os
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from replica_processes import exit_with, run_replicas
from small_data import write_data
from torch import nn
from training_cases import SIZE_PX, Case, build, joined

from yolo_accum.cli.evaluation import SplitEvaluator, share_of_batches
from yolo_accum.cli.failures import describe_failure
from yolo_accum.config.schema import DataConfig, EvalConfig
from yolo_accum.data.description import open_data
from yolo_accum.engine.distributed import LONGEST_WAIT, Replicas
from yolo_accum.engine.loop import LoopState
from yolo_accum.errors import UserError
from yolo_accum.model.build import build_model

COLLECTIVE = re.compile(r"^c10d::\w+$")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"), num_train=28, num_val=21)


# --- inside the replicas ---------------------------------------------------------------------------------------------


def exchanges(data: Path) -> dict[str, Any]:
    """Collectives of three windows, and gradients in the middle and at the end of the fourth."""
    with joined() as replicas:
        training = build(Case(data, 4), replicas)
        loop, batches = training.loop, iter(training.batches())
        windows = loop.run(batches, LoopState())
        counted = []
        for _ in range(3):
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                next(windows)
            counted.append([event.name for event in profile.events() if COLLECTIVE.match(event.name)])
        stepper = loop.stepper
        stepper.open_window(2)
        gradients = []
        for is_last in (False, True):
            with stepper.sync_context(is_last):
                stepper.backward(stepper.forward(next(batches)), 1.0)
            parts = [item.grad.flatten() for item in training.model.parameters() if item.grad is not None]
            gradients.append(torch.cat(parts).clone())
        return {"counted": counted, "middle": gradients[0], "end": gradients[1]}


def arithmetic() -> dict[str, Any]:
    """What the small exchanges give."""
    with joined() as replicas:
        buffers = [torch.full((2,), 1.0 + replicas.rank), torch.tensor(0.1)]
        replicas.average_(buffers)
        return {
            "average": buffers,
            "decided": replicas.decide(lambda: f"by {replicas.rank}"),
            "gathered": replicas.gather([replicas.rank] * (replicas.rank + 1)),
            "timeout": dist.group.WORLD._get_backend(torch.device("cpu")).options._timeout,  # type: ignore[union-attr]
        }


def evaluated(data: Path) -> tuple[dict[str, float], list[tuple[int, Any, Any]]]:
    """Metrics and detections of a model, as this replica knows them."""
    with joined() as replicas:
        return evaluate(data, replicas)


def evaluate(data: Path, replicas: Replicas) -> tuple[dict[str, float], list[tuple[int, Any, Any]]]:
    torch.manual_seed(3)
    model = build_model("yolox_nano", 3)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.weight.data.mul_(2.0)
    val = open_data(DataConfig(data=str(data), imgsz=SIZE_PX), default_data=None).val
    assert val is not None
    evaluator = SplitEvaluator(
        val,
        size_px=SIZE_PX,
        batch=4,
        workers=0,
        config=EvalConfig(conf=0.0),
        device=torch.device("cpu"),
        channels_last=True,
        warn=print,
        replicas=replicas,
    )
    evaluation = evaluator(model)
    found = [(item.image_index, item.boxes_xyxy_px, item.scores) for item in evaluation.detections]
    return evaluation.metrics.defined(), found


def fails(how: str) -> None:
    """The second replica fails while the first waits for it."""
    with joined() as replicas:
        if replicas.rank == 1:
            time.sleep(0.5)
            if how == "killed":
                os.kill(os.getpid(), 9)
            raise UserError("the second replica's picture cannot be used")
        replicas.barrier()
        exit_with(99)


def fails_once_for_all() -> None:
    """What is wrong for everybody."""
    with joined():
        raise UserError("wrong for everybody")


def main_like(how: str) -> None:
    """As the command line does it: a sentence for an error, silence for an exit."""
    try:
        fails_once_for_all() if how == "everybody" else fails(how)
    except Exception as error:
        code, sentence = describe_failure(error)
        print(sentence, flush=True)
        exit_with(code)


# --- outside ---------------------------------------------------------------------------------------------------------


def test_a_window_has_one_exchange_of_gradients_and_one_of_totals(data: Path, tmp_path: Path) -> None:
    ended = run_replicas(exchanges, data, folder=tmp_path)
    assert ended.codes == [0, 0], "\n".join(ended.output)
    for result in ended.results:
        first, arranging, third = result["counted"]
        assert first == third == ["c10d::allreduce_"] * 2
        assert arranging.count("c10d::allreduce_") == 2  # and once a run, DDP agrees on the order of its bucket
    first, second = ended.results
    assert not torch.allclose(first["middle"], second["middle"])
    assert torch.equal(first["end"], second["end"])


def test_small_exchanges(tmp_path: Path) -> None:
    ended = run_replicas(arithmetic, folder=tmp_path, size=3)
    assert ended.codes == [0, 0, 0], "\n".join(ended.output)
    for result in ended.results:
        assert torch.equal(result["average"][0], torch.tensor([2.0, 2.0]))
        assert torch.equal(result["average"][1], torch.tensor(0.1))  # what agrees stays as it is
        assert result["decided"] == "by 0"
        assert result["gathered"] == [0, 1, 1, 2, 2, 2]
        assert result["timeout"] == LONGEST_WAIT >= timedelta(hours=1)


@pytest.mark.parametrize("size", [2, 3])
def test_evaluation_does_not_depend_on_the_replicas(data: Path, tmp_path: Path, size: int) -> None:
    metrics, detections = evaluate(data, Replicas())
    assert sum(len(scores) for _, _, scores in detections) > 100
    ended = run_replicas(evaluated, data, folder=tmp_path, size=size)
    assert ended.codes == [0] * size, "\n".join(ended.output)
    for found_metrics, found in ended.results:
        assert found_metrics == pytest.approx(metrics, abs=1e-9)
        assert [row for row, _, _ in found] == list(range(21))
        for one, other in zip(found, detections, strict=True):
            assert (one[1] == other[1]).all()
            assert (one[2] == other[2]).all()


@pytest.mark.parametrize(("num_images", "batch", "size"), [(21, 4, 3), (21, 32, 2), (1, 8, 4), (16, 8, 2)])
def test_every_validation_image_is_in_one_share(num_images: int, batch: int, size: int) -> None:
    shares = [share_of_batches(num_images, batch, Replicas(rank=rank, size=size)) for rank in range(size)]
    assert sorted(row for share in shares for row in share) == list(range(num_images))
    whole = {tuple(range(start, min(start + batch, num_images))) for start in range(0, num_images, batch)}
    for share in shares:
        assert {tuple(share[start : start + batch]) for start in range(0, len(share), batch)} <= whole


def test_one_failure_ends_all_with_its_code_and_message(tmp_path: Path) -> None:
    start_s = time.monotonic()
    ended = run_replicas(main_like, "error", folder=tmp_path)
    assert ended.codes == [2, 2]
    assert "".join(ended.output).count("the second replica's picture cannot be used") == 1
    assert time.monotonic() - start_s < 60


def test_a_failure_of_all_is_told_once(tmp_path: Path) -> None:
    ended = run_replicas(main_like, "everybody", folder=tmp_path)
    assert ended.codes == [2, 2]
    assert "".join(ended.output).count("wrong for everybody") == 1


def test_a_killed_replica_is_noticed(tmp_path: Path) -> None:
    ended = run_replicas(main_like, "killed", folder=tmp_path)
    assert ended.codes == [3, -9]
    assert "another replica has gone without a word" in ended.output[0]
