"""Two replicas see the sizes, the repeated pictures and the pasted objects of one process, and end with its weights."""

from __future__ import annotations

from pathlib import Path

from replica_processes import run_replicas
from small_data import write_data
from training_cases import relative_difference
from varied_training import train_in_group, train_varied

from yolo_accum.engine.distributed import Replicas


def test_weights_and_ledger_equal_those_of_one_process(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", num_train=9, num_val=2)
    one, epochs = train_varied(data, Replicas())
    ended = run_replicas(train_in_group, data, folder=tmp_path / "replicas")
    assert ended.codes == [0, 0], "\n".join(ended.output)
    assert epochs and all(images > distinct == 9 and off_plan == 0 for images, distinct, off_plan in epochs)
    for weights, found in ended.results:
        assert relative_difference(weights, one) <= 1e-10
        assert found == epochs
