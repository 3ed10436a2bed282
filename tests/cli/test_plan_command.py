"""`plan` from numbers and from data: what it says is what `train` does."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_data import write_data

from yolo_accum.cli.main import main

GOLDEN = [0, 1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 21, 25, 29, 34, 40, 46, 53, 61, 69, 77]


def plan(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["plan", "--json", *" ".join(words).split()]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["plan", *" ".join(words).split()]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("option", ["--images", "--num-images"])
def test_from_numbers_alone(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--epochs 100 --batch 8 --nbs 64 --warmup-epochs 3 --tail carry --replicas 2"
    result = plan(capsys, option, "160", words)

    closing = result["closing_micro_batches"]
    assert closing[: len(GOLDEN)] == GOLDEN
    assert closing[-1] == 20 * 100 - 1 and result["updates"] == len(closing)
    assert (result["images_per_update"], result["is_exact"], result["window_length"]) == (64, True, 8)
    assert (result["replicas"], result["images_a_replica"]) == (2, 4)
    windows = result["windows"]
    assert windows["last_micro_batch"] == closing and windows["dropped"] == []
    assert windows["first_micro_batch"] == [0, *(last + 1 for last in closing[:-1])]
    assert sum(windows["images"]) == 160 * 100
    first, *_, last = result["course"]
    assert (first["lr"], first["momentum"], first["images"]) == (pytest.approx(0.0002), 0.8, 8)
    assert last["update"] == len(closing) and 0.0001 < last["lr"] < 0.00011 and last["momentum"] == 0.9
    assert result["weight_decay_in_force"] == 5e-4


def test_a_batch_that_misses_the_nominal_one_names_the_nearest_that_hit_it(capsys: pytest.CaptureFixture[str]) -> None:
    result = plan(capsys, "--num-images", "1000", "--batch", "24")

    assert (result["images_per_update"], result["is_exact"], result["exact_batches"]) == (72, False, [16, 32])
    assert result["weight_decay_in_force"] == pytest.approx(5e-4 * 72 / 64)
    assert "--batch 16 or 32 hits it exactly" in result["notices"][0]


def test_dropped_windows_are_counted_apart(capsys: pytest.CaptureFixture[str]) -> None:
    # 7 micro-batches an epoch, windows of 4: one update and 3 images dropped in each
    result = plan(capsys, "--images 7 --epochs 2 --batch 1 --nbs 4 --warmup-epochs 0 --tail drop")

    assert result["closing_micro_batches"] == [3, 10]
    assert result["windows"]["dropped"] == [1, 3] and result["images_dropped"] == 6
    assert result["windows_by_images"] == {"4": 2}


def test_for_people_the_first_windows_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--images", "160", "--tail", "carry"]

    assert main(words) == 0
    short = capsys.readouterr().out
    assert "the first 20 of" in short and "carry: an open window runs on" in short
    assert main([*words, "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > len(short.splitlines())


def test_from_data_as_train_does_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_data(tmp_path)
    result = plan(capsys, "--data", str(data), "--epochs 3 --warmup-epochs 1 --batch 2 --nbs 4")

    assert result["images"] == 11 and result["micro_batches_per_epoch"] == 6
    assert sum(result["windows"]["images"]) == 33


def test_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plan.png"
    assert plan(capsys, "--images", "160", "--plot", str(out))["plot"] == str(out)
    assert out.read_bytes().startswith(b"\x89PNG")

    assert "--plot plan.txt: the name of a .png file" in refusal(capsys, "--images", "160", "--plot", "plan.txt")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--images 160 --batch 9 --replicas 2", "use 8 or 10"),
        ("--images 160 --batch 9 --device 0,1", "use 8 or 10"),
        ("--images pictures", "--images pictures: without --data a whole number"),
        ("--images 0", "--num-images 0"),
        ("--images 160 --num-images 20", "say the same"),
        ("--num-images 160 --data x.json", "counts for itself"),
        ("--images 160 --batch 0", "--batch 0"),
        ("--images 160 --replicas 0", "--replicas 0"),
        ("--images 160 --resume runs", "--resume: there is no such option"),
        ("--images 3 --batch 1 --nbs 6 --epochs 2 --tail drop --warmup-epochs 0", "would drop every micro-batch"),
    ],
)
def test_refusals(words: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sentence in refusal(capsys, words)


def test_a_very_large_run_is_planned_in_seconds_without_torch() -> None:
    program = """
import sys
from yolo_accum.cli.main import main
code = main(["plan", "--json", "--images", "118287", "--epochs", "300"])
print(code, "torch" in sys.modules, file=sys.stderr)
"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert process.stderr.splitlines()[-1] == "0 False"
    result = json.loads(process.stdout)
    assert len(result["closing_micro_batches"]) == result["updates"]
    assert sum(result["windows"]["images"]) == 118287 * 300
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 15  # of the processor, however busy it is


SMALL = "--imgsz 64 --amp off --threads 1 --model yolox_nano"


def test_memory_is_measured_predicted_and_turned_into_advice(capsys: pytest.CaptureFixture[str]) -> None:
    memory = plan(capsys, f"--images 160 --nbs 8 --memory 64GiB {SMALL}")["memory"]

    predicted = memory["predicted"]
    kept = [row for row in predicted if not row["checkpoint_activations"]]
    assert [row["batch"] for row in kept] == [1, 2, 4, 8] and all(row["fits"] for row in predicted)
    peaks = [row["peak_bytes"] for row in kept]
    assert peaks == sorted(peaks) and peaks[0] > 2**27
    assert predicted[-1]["peak_bytes"] < kept[-1]["peak_bytes"]  # recomputed
    best = memory["recommended"]
    assert (best["batch"], best["norm"], best["gradient_cosine"]) == (8, "bn", 1.0)


def test_memory_that_holds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(capsys, f"--images 160 --memory 1MiB {SMALL}")["memory"]["recommended"] is None
    assert "a micro-batch of one image needs" in refusal(capsys, f"--images 160 --memory 1MiB --batch auto {SMALL}")
    assert "--memory 8: auto, or an amount" in refusal(capsys, "--images 160 --memory 8")


def test_train_chooses_the_micro_batch_and_writes_it_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_data(tmp_path)
    words = f"--data {data} --epochs 1 --nbs 4 --batch auto --memory 64GiB --workers 0 --no-plots {SMALL}"
    assert main(["train", *words.split(), "--project", str(tmp_path / "runs"), "--json"]) == 0

    output = capsys.readouterr()
    assert "--batch auto: 4 (4 x 1 replicas), about" in output.err
    assert "\nbatch: 4\n" in Path(json.loads(output.out)["files"]["config"]).read_text()
