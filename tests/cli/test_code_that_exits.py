"""Code of the user's own that ends the program, where it is imported or made: the run says who did it."""

from __future__ import annotations

from pathlib import Path

import pytest

from yolo_accum.cli.callbacks import open_callbacks
from yolo_accum.config.named_object import named_object
from yolo_accum.errors import UserError


def test_a_module_that_exits_is_named(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(5)\n")

    with pytest.raises(UserError, match=r"leaves.py cannot be imported \(SystemExit: 5\)"):
        named_object(f"{tmp_path / 'leaves.py'}:X", "--augmentations")


def test_a_callback_that_exits_when_it_is_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text("def make():\n    raise SystemExit\n")

    with pytest.raises(UserError, match="the function, called without arguments, failed"):
        open_callbacks([f"{tmp_path / 'leaves.py'}:make"])
