"""`benchmark memory` end to end: two processes of their own, and alternation in this one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_data import write_data

from yolo_accum.cli.main import main


def test_the_figures_of_plain_and_checkpointed_batches(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = write_data(tmp_path)
    words = ["--imgsz", "128", "--batch", "8", "--threads", "1", "--amp", "off", "--json"]

    assert main(["benchmark", "memory", "--data", str(data), *words]) == 0

    result = json.loads(capfd.readouterr().out)
    assert result["images"] == 8
    # resident memory of a small batch varies by more than checkpointing saves: only that it was measured is asserted
    for name in ("plain", "checkpointed"):
        assert 0 < result[name]["batch_mib"] < result[name]["peak_mib"]
    assert result["peak_ratio"] == pytest.approx(result["checkpointed"]["peak_mib"] / result["plain"]["peak_mib"])
    assert len(result["time_ratios"]) == 5 and min(result["time_ratios"]) > 0
