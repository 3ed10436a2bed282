"""Gradients that a run keeps for comparison."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from yolo_accum.contracts import Batch, LossSums
from yolo_accum.engine.gradient_files import GradientFiles, gradient_file, read_gradient
from yolo_accum.engine.precision import Precision
from yolo_accum.engine.update import Stepper
from yolo_accum.errors import TrainingError


class OneWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.scale * images.mean()


class Itself:
    """The loss is the output."""

    term_names = ("box",)

    def __call__(self, output: torch.Tensor, batch: Batch) -> LossSums:
        return LossSums({"box": output}, torch.tensor(1.0))


def test_the_gradient_is_kept_after_the_factor_and_before_clipping(tmp_path: Path) -> None:
    model = OneWeight()
    stepper = Stepper(
        model=model,
        criterion=Itself(),  # type: ignore[arg-type]
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        precision=Precision("off"),
        device=torch.device("cpu"),
        max_grad_norm=0.5,
    )
    files = GradientFiles(tmp_path, (3, 7))
    (model.scale * 4).backward()

    update = stepper.apply(0.5, finite=True, keep=files.keeper(3))

    assert update.clip_coefficient == 0.25
    kept = read_gradient(tmp_path, 3)
    assert kept is not None and kept == {"scale": torch.tensor(2.0)}


def test_other_updates_are_not_kept(tmp_path: Path) -> None:
    assert GradientFiles(tmp_path, (3, 7)).keeper(4) is None
    assert GradientFiles(tmp_path, ()).keeper(1) is None


def test_a_file_that_is_missing_or_damaged_is_no_gradient(tmp_path: Path) -> None:
    assert read_gradient(tmp_path, 1) is None
    gradient_file(tmp_path, 1).parent.mkdir()
    gradient_file(tmp_path, 1).write_bytes(b"half a file")
    assert read_gradient(tmp_path, 1) is None


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "gradients").write_text("in the way")
    keep = GradientFiles(tmp_path, (1,)).keeper(1)
    assert keep is not None
    with pytest.raises(TrainingError, match=r"cannot write the gradient of update 1 to .*update_000001"):
        keep({"scale": torch.tensor(1.0)})
