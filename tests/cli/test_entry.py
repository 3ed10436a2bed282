"""Ctrl-C while the program still imports: one line and 130, whatever is being imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from yolo_accum.cli.entry import imports_end_at_once

ROOT = Path(__file__).parents[2]

PRESS = """
import importlib.abc, os, signal, sys

class Presser(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Presser())
sys.argv = [{script!r}, "--epochs", "1"]
import runpy
runpy.run_path({script!r}, run_name="__main__")
"""


@pytest.mark.parametrize("module", ["yolo_accum.cli.main", "jsonargparse", "yolo_accum.cli.train", "torch", "cv2"])
def test_ctrl_c_during_imports_is_answered_with_one_line(module: str, tmp_path: Path) -> None:
    code = PRESS.format(module=module, script=str(ROOT / "tools" / "train.py"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_afterwards_ctrl_c_is_what_it_was() -> None:
    before = signal.getsignal(signal.SIGINT)
    with imports_end_at_once():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("tool", sorted(path.name for path in (ROOT / "tools").glob("*.py")))
def test_every_tool_begins_with_the_light_import(tool: str) -> None:
    text = (ROOT / "tools" / tool).read_text(encoding="utf-8")
    assert "yolo_accum.cli.main" not in text
