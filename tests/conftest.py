"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

# Test processes side by side have one thread each, and so have the programs that they start: two processes of two
# threads on two cores wait for each other ten times as long as they compute. Has to stand before torch is imported.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real data sets and weights; tests that need it are skipped without it."""
    folder = os.environ.get("YOLO_ACCUM_REAL_DATA")
    if not folder:
        pytest.skip("YOLO_ACCUM_REAL_DATA is not set")
    path = Path(folder).resolve()
    if not path.is_dir():
        pytest.fail(f"YOLO_ACCUM_REAL_DATA names {path}, which is no folder")
    return path


@pytest.fixture(autouse=True, scope="session")
def _own_cache_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests, and the programs that they start, leave the user's caches alone."""
    os.environ["YOLO_ACCUM_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _same_random_state() -> None:
    torch.manual_seed(0)
