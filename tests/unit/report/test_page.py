"""Pages as text: what is escaped, what is in the file, which numbers the charts are given."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from run_folders import coloured, comparison, write_run
from small_index import make_detections, make_index, perfect_detections

from yolo_accum.cli.comparison.page import make_compare_page
from yolo_accum.cli.run_page import make_run_page
from yolo_accum.report import page, page_charts
from yolo_accum.report.page_compare import setting_rows
from yolo_accum.report.page_pictures import MAX_SIDE_PX, page_boxes, page_picture
from yolo_accum.report.page_run import flat

ECHARTS_6_1_0 = "b66b25aeb4df84e33199dc21694014d336d222cbd9deb0e5a7c14bd6aa0d0fd0"
"""SHA-256 of dist/echarts.min.js in the package that its makers publish."""
NAMES = ("<script>alert(1)</script>", "\"quoted\" & 'b'", "ünïcode 汉字", "</script><b>{{ 7 * 7 }}")


def page_data(text: str) -> dict[str, Any]:
    return json.loads(re.search(r'<script type="application/json" id="page-data">(.*?)</script>', text, re.DOTALL)[1])


def without_library(text: str) -> str:
    return text.replace((Path(page.__file__).parent / "assets" / page.LIBRARY).read_text(encoding="utf-8"), "")


def named_index(names: tuple[str, ...] = NAMES, image_ids: tuple[int | str, ...] = ("a", "<i>b</i>", 7)):
    return make_index(
        [[(0, (10, 10, 60, 60)), (len(names) - 1, (80, 20, 160, 90))], [(0, (5, 5, 50, 50))], []],
        num_classes=len(names),
        class_names=names,
        image_ids=image_ids,
    )


def test_the_charts_library_is_what_its_makers_publish() -> None:
    library = Path(page.__file__).parent / "assets" / page.LIBRARY

    assert hashlib.sha256(library.read_bytes()).hexdigest() == ECHARTS_6_1_0


def test_names_from_the_data_cannot_become_part_of_the_page(tmp_path: Path) -> None:
    index = named_index()
    folder = write_run(tmp_path / "<run>", index, perfect_detections(index), warnings=["<img src=x>"])

    text = make_run_page(folder).read_text(encoding="utf-8")

    for harmful in ("<script>alert", "<i>b</i>", "<img", "</script><b>"):
        assert harmful not in without_library(text)
    assert page_data(text)["charts"]["confusion"]["rows"] == [*NAMES, "nothing"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text and "ünïcode 汉字" in text


def test_a_page_names_no_other_file(tmp_path: Path) -> None:
    index = named_index()
    pages = [make_run_page(write_run(tmp_path / "run", index, perfect_detections(index)))]
    result = comparison(tmp_path / "both", ["large", "small"])
    (tmp_path / "both" / "compare.json").write_text(json.dumps(result))
    pages.append(make_compare_page(tmp_path / "both"))

    for path in pages:
        text = without_library(path.read_text(encoding="utf-8"))
        targets = re.findall(r"\b(?:src|href|action|data)=\"([^\"]*)\"", text)
        assert targets and all(target.startswith(("#", "data:")) for target in targets)


@pytest.mark.parametrize("num_classes", [1, 80])
def test_any_number_of_classes_has_a_page(tmp_path: Path, num_classes: int) -> None:
    index = named_index(tuple(f"class {number}" for number in range(num_classes)))

    data = page_data(make_run_page(write_run(tmp_path / "run", index, perfect_detections(index))).read_text())

    assert len(data["charts"]["confusion"]["rows"]) == num_classes + 1
    lines = [item["name"] for item in data["charts"]["f1"]["series"]]
    assert lines == (["class 0"] if num_classes == 1 else ["class 0", "class 79", "mean of the classes"])


@pytest.mark.parametrize("objects", [[[], []], [[(0, (0, 0, 30, 30))], []]])
def test_a_run_that_found_nothing_has_a_page(tmp_path: Path, objects: list) -> None:
    index = make_index(objects)
    nothing = [make_detections(image, []) for image in range(len(index))]

    text = make_run_page(write_run(tmp_path / "run", index, nothing)).read_text()

    assert "Measured with the best epoch so far on 2 images" in text


def test_a_run_at_its_very_start_has_a_page(tmp_path: Path) -> None:
    text = make_run_page(write_run(tmp_path / "run", named_index(), None, num_epochs=0)).read_text()

    assert "No update has been made yet." in text and "No epoch has been evaluated yet." in text
    assert "yolox_nano" in text


def test_an_empty_folder_has_a_page(tmp_path: Path) -> None:
    assert "No update has been made yet." in make_run_page(tmp_path).read_text()


def test_damaged_files_are_named_and_left_out(tmp_path: Path) -> None:
    index = named_index()
    folder = write_run(tmp_path / "run", index, perfect_detections(index))
    (folder / "updates.csv").write_text("update,epoch\nx,1\n")
    (folder / "truth.json").write_text('{"images": []')
    told: list[str] = []

    text = make_run_page(folder, tell=told.append).read_text()

    assert len(told) == 2 and "truth.json: not a JSON file" in told[0] and "updates.csv, line 2" in told[1]
    assert "No update has been made yet." in text and "truth.json: not a JSON file" in text


def test_an_image_id_that_is_no_utf_8_does_not_cost_the_page(tmp_path: Path) -> None:
    index = named_index(image_ids=("bad \udcff", "b", "c"))
    detections = perfect_detections(index)
    detections[0] = make_detections(0, [])

    # as in every other output of the program: the byte that is no UTF-8 is written as an escape
    page_text = make_run_page(write_run(tmp_path / "run", index, detections)).read_text(encoding="utf-8")
    assert "bad \\udcff" in page_text


def test_numbers_of_a_page_are_short_and_exist() -> None:
    given = {"a": np.array([1 / 3, np.nan, np.inf, 2.0]), "b": [np.int64(3), np.float32(0.5), None, "x", True]}

    assert page.plain(given) == {"a": [0.333333, None, None, 2], "b": [3, 0.5, None, "x", True]}


def records(num: int, **columns: list[float]) -> dict[str, np.ndarray]:
    base = {
        "epoch": np.arange(num) // 2,
        "first_micro_batch": 4.0 * np.arange(num),
        "last_micro_batch": 4.0 * np.arange(num) + 3,
        "images": np.full(num, 32.0),
        "images_per_s": np.full(num, 16.0),
        "images_seen": 32.0 * np.arange(1, num + 1),
        "images_dropped": np.zeros(num),
        "updates_applied": np.arange(1.0, num + 1),
    }
    return base | {name: np.array(values, dtype=float) for name, values in columns.items()}


def test_the_axes_of_a_table() -> None:
    updates = records(4, loss_box=[4, 3, 2, 1], loss_cls=[1, 1, 1, 1])

    table = page_charts.updates_table(updates, num_images=64)

    assert table["images"].tolist() == [32, 64, 96, 128]
    assert table["updates"].tolist() == [1, 2, 3, 4]
    assert table["time"] == pytest.approx([2 / 60, 4 / 60, 6 / 60, 8 / 60])
    assert table["epochs"].tolist() == [0.5, 1, 1.5, 2]
    assert table["loss"].tolist() == [5, 4, 3, 2] and table["window_length"].tolist() == [4] * 4
    ends = page_charts.epochs_table({"epoch": np.array([0.0, 1.0]), "AP": np.array([0.1, 0.2])}, updates)
    assert (ends["images"].tolist(), ends["updates"].tolist(), ends["epochs"].tolist()) == ([64, 128], [2, 4], [1, 2])


def test_long_tables_are_put_together_by_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_charts, "MAX_POINTS", 3)
    updates = records(7, loss_box=[1, 3, np.nan, 7, 9, 11, 13])

    table = page_charts.updates_table(updates, num_images=64)

    assert table["images"].tolist() == [96, 192, 224]
    assert table["loss_box"].tolist() == [2, 9, 13]
    assert table["rows_per_point"].tolist() == [3]


def test_a_picture_is_scaled_with_its_boxes() -> None:
    picture = page_picture(coloured((2 * MAX_SIDE_PX, MAX_SIDE_PX)))
    (box,) = page_boxes(picture.scale, np.array([[10.0, 20, 30, 60]]), np.array([1]), ["cat", "dog"], np.array([0.5]))

    encoded = base64.b64decode(picture.uri.partition(",")[2])
    assert cv2.imdecode(np.frombuffer(encoded, np.uint8), 1).shape == (MAX_SIDE_PX // 2, MAX_SIDE_PX, 3)
    assert (box.left, box.top, box.width, box.height, box.name) == (5, 10, 10, 20, "dog 0.50")


def test_settings_that_differ_come_first() -> None:
    arms = [{"options": {"lr0": 0.1, "batch": 8, "amp": False}}, {"options": {"lr0": 0.1, "batch": 64, "amp": False}}]

    assert setting_rows(arms) == [
        ("batch", ["8", "64"], True),
        ("lr0", ["0.1", "0.1"], False),
        ("amp", ["false", "false"], False),
    ]


def test_nested_settings_become_rows() -> None:
    assert flat({"a": {"b": 1.5, "c": None}, "d": [1, 2], "e": [{"x": 1}]}) == {"a: b": "1.5", "a: c": "-", "d": "1, 2"}


def test_a_comparison_in_which_arms_failed_has_a_page(tmp_path: Path) -> None:
    result = comparison(tmp_path, ["large", "small"], seeds=2)
    failed = result["arms"][1]
    failed["summary"], failed["per_class"] = {}, []
    failed["runs"] = [
        {
            "seed": 0,
            "status": "failed",
            "message": "memory ran out",
            "updates_csv": None,
            "epochs": {},
            "run_card": None,
        },
        {"seed": 1, "status": "missing", "message": None},
    ]
    result |= {"comparisons": [], "verify": None, "verdict": None}
    (tmp_path / "compare.json").write_text(json.dumps(result))

    text = make_compare_page(tmp_path).read_text()

    assert "small, seed 0: failed: memory ran out" in text and "small, seed 1: missing" in text
    assert {item["name"] for item in page_data(text)["charts"]["loss"]["series"]} == {"large"}


def test_a_comparison_that_has_not_begun_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "compare.json").write_text('{"arms": []}')

    assert "There is no result yet." in make_compare_page(tmp_path).read_text()


def test_300_epochs_and_5_arms_stay_small(tmp_path: Path) -> None:
    result = comparison(tmp_path, ["large", "a", "b", "c", "d"], num_epochs=300)
    (tmp_path / "compare.json").write_text(json.dumps(result))

    assert make_compare_page(tmp_path).stat().st_size < 4e6
