"""The checks of a GPU, in reduced form on a CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from yolo_accum.cli.gpu_check import CHECKS, choose_setup, main, run_checks
from yolo_accum.cli.gpu_checks.setup import Outcome, Setup

ROOT = Path(__file__).parents[2]
ABSENT = (
    "albumentations",
    "pycocotools",
    "hotcoco",
    "jsonargparse",
    "rich",
    "matplotlib",
    "safetensors",
    "torchvision",
)
WITHOUT_THEM = f"""
import runpy, sys
for name in {ABSENT}:
    sys.modules[name] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_all_checks_hold_on_a_cpu_where_only_torch_numpy_opencv_and_yaml_are_installed(tmp_path: Path) -> None:
    out = tmp_path / "gpu_check.json"
    script = str(ROOT / "tools" / "gpu_check.py")

    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THEM, script, "--device", "cpu", "--json", "--out", str(out)],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report == json.loads(out.read_text(encoding="utf-8"))
    assert list(report["checks"]) == list(CHECKS)
    assert "10 of 10 checks hold" in done.stderr
    assert report["checks"]["fp16"]["figures"]["refused"] == 1
    assert report["checks"]["out-of-memory"]["figures"]["exit_code"] == 3


@pytest.mark.gpu
def test_all_checks_hold_on_a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA GPU")

    assert run_checks(choose_setup(torch.device("cuda", 0), reduced=False), list(CHECKS))["ok"]


def test_one_check_that_fails_does_not_lose_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(setup: Setup) -> Outcome:
        raise ZeroDivisionError("on purpose")

    def holds(setup: Setup) -> Outcome:
        return Outcome(ok=True, text="fine", figures={"value": 1.0})

    monkeypatch.setitem(CHECKS, "fp16", breaks)
    monkeypatch.setitem(CHECKS, "bf16", holds)
    out = tmp_path / "out.json"

    code = main(["--device", "cpu", "--only", "fp16,bf16", "--out", str(out)])

    assert code == 1
    checks = json.loads(out.read_text(encoding="utf-8"))["checks"]
    assert (checks["fp16"]["ok"], checks["fp16"]["text"]) == (False, "ZeroDivisionError: on purpose")
    assert (checks["bf16"]["ok"], checks["bf16"]["figures"]) == (True, {"value": 1.0})
    printed = capsys.readouterr().out
    assert "FAIL  fp16" in printed and "ok    bf16" in printed and "1 of 2 checks hold" in printed


def test_no_check_begins_when_the_time_is_over() -> None:
    report = run_checks(choose_setup(torch.device("cpu"), reduced=True), ["fp16"], limit_s=-1)

    assert not report["ok"]
    assert report["checks"]["fp16"]["text"].startswith("not begun")


def test_options_that_cannot_be_met_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "fp61"]) == 2
    assert "--only fp61" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert main(["--device", "cuda"]) == 2
        assert "there is no CUDA GPU here" in capsys.readouterr().err


def test_micro_batches_of_the_noise_are_the_whole(tmp_path: Path) -> None:
    setup = choose_setup(torch.device("cpu"), reduced=True)

    [whole], parts = setup.noise(5), setup.noise(5, 2)

    assert [part.num_images for part in parts] == [2, 2, 1]
    assert torch.equal(torch.cat([part.images for part in parts]), whole.images)
    assert torch.equal(torch.cat([part.boxes_xyxy_px for part in parts]), whole.boxes_xyxy_px)
    assert torch.equal(parts[2].sample_of_box, torch.zeros(len(parts[2].labels), dtype=torch.int64))
