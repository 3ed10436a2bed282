from __future__ import annotations

import pytest

from yolo_accum.errors import UserError
from yolo_accum.model.sizes import model_size, model_sizes


def test_the_whole_family_is_there_from_small_to_large() -> None:
    assert list(model_sizes()) == [
        "yolox_nano",
        "yolox_tiny",
        "yolox_s",
        "yolox_m",
        "yolox_l",
        "yolox_x",
    ]
    assert [name for name, size in model_sizes().items() if size.depthwise] == ["yolox_nano"]


def test_channels_and_blocks() -> None:
    assert [size.stem_channels for size in model_sizes().values()] == [16, 24, 32, 48, 64, 80]
    assert [size.num_blocks for size in model_sizes().values()] == [1, 1, 1, 2, 3, 4]


@pytest.mark.parametrize(("typed", "closest"), [("yolox_nan", "yolox_nano"), ("YOLOX-S", "yolox_s")])
def test_unknown_size_names_the_closest(typed: str, closest: str) -> None:
    with pytest.raises(UserError, match=f"--model {typed}.*did you mean {closest}.*yolox_x"):
        model_size(typed)


def test_unknown_size_without_resemblance_lists_all() -> None:
    with pytest.raises(UserError, match="--model 9: no such model; There are yolox_nano, yolox_tiny"):
        model_size("9")
