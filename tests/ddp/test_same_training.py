"""Two replicas train to the weights of one process, whatever their shares; what happens to one concerns both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from replica_processes import Ended, run_replicas
from small_data import write_data
from training_cases import Case, Outcome, relative_difference, train, train_all

from yolo_accum.engine.distributed import Replicas

CUTS = {
    "shares differ, float64": (4, "step", True),
    "shares differ, float32": (4, "step", False),
    "no share inside a window": (4, "carry", True),
    "frozen": (4, "carry", True),
    "two loader workers each": (4, "carry", True),
}
"""9 images in micro-batches of 4, 4 and 1: the second replica has no image in the last one of an epoch."""


def cases(folder: Path) -> dict[str, Case]:
    data = folder / "data.yaml"
    found = {
        name: Case(
            data, batch, tail, double, "frozen" if name == "frozen" else "gn", workers=2 if "workers" in name else 0
        )
        for name, (batch, tail, double) in CUTS.items()
    }
    found["poisoned"] = Case(data, 4, poisoned_rank=1)
    found["asking"] = Case(data, 4, num_updates=1, asking_rank=1)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"), num_train=9, num_val=2).parent


@pytest.fixture(scope="module")
def both(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Outcome]]:
    """Outcomes of both replicas by case."""
    named = cases(folder)
    ended: Ended = run_replicas(train_all, list(named.values()), folder=tmp_path_factory.mktemp("replicas"))
    assert ended.codes == [0, 0], "\n".join(ended.output)
    return {name: [result[number] for result in ended.results] for number, name in enumerate(named)}


@pytest.mark.parametrize("name", CUTS)
def test_weights_equal_those_of_one_process(both: dict[str, list[Outcome]], folder: Path, name: str) -> None:
    case = cases(folder)[name]
    one = train(replace(case, workers=0), Replicas())
    tolerance = 1e-10 if case.double else 1e-5
    assert relative_difference(one.weights, one.before) > 10 * tolerance
    for replica in both[name]:
        assert relative_difference(replica.weights, one.weights) <= tolerance
        assert relative_difference(replica.average, one.average) <= tolerance
        assert [record.images for record in replica.records] == [record.images for record in one.records]
        assert [record.objects for record in replica.records] == [record.objects for record in one.records]
        if case.double:  # in float32, rounding may decide which place finds an object
            for found, expected in zip(replica.records, one.records, strict=True):
                assert found.grad_norm == pytest.approx(expected.grad_norm, rel=1e-8)
                assert found.denominator == expected.denominator
                assert found.losses == pytest.approx(expected.losses, rel=1e-8)


def test_replicas_never_drift_apart(both: dict[str, list[Outcome]]) -> None:
    for first, second in both.values():
        for name, value in first.weights.items():
            assert value.equal(second.weights[name]), name
        for name, value in first.average.items():
            assert value.equal(second.average[name]), name


def test_every_image_is_used_once_an_epoch(both: dict[str, list[Outcome]]) -> None:
    for replica in both["shares differ, float32"] + both["no share inside a window"]:
        assert replica.epochs
        assert all(images == distinct == 9 for _, images, distinct in replica.epochs)


def test_one_poisoned_replica_refuses_the_update_on_both(both: dict[str, list[Outcome]]) -> None:
    for replica in both["poisoned"]:
        assert [record.applied for record in replica.records] == [True, True, False]


def test_requests_of_one_replica_reach_both_at_the_same_window(both: dict[str, list[Outcome]]) -> None:
    for replica in both["asking"]:
        (requests,) = replica.requests
        assert (requests.sigterm, requests.sigint, requests.save) == (1, 0, 1)
        assert requests.stop_signal == 15
