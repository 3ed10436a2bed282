"""A kept index: the same as a fresh one, and gone as soon as anything that it stands for has changed."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from yolo_accum.contracts import DetectionIndex, StringTable
from yolo_accum.data import index_cache
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import FindingLog
from yolo_accum.data.formats import coco
from yolo_accum.data.formats.coco import read_coco
from yolo_accum.errors import UserError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("YOLO_ACCUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(index_cache, "MIN_ROWS", 1)
    return tmp_path


def write(folder: Path, ids: tuple[int | str, ...] = (7, 3, 5), **changes: Any) -> Path:
    """Three pictures, one of them unreadable; boxes that give findings."""
    for number, name in enumerate("abc"):
        cv2.imwrite(str(folder / f"{name}.png"), np.full((20, 30 + number, 3), 90, np.uint8))
    (folder / "b.png").write_bytes(b"no picture")
    content = {
        "images": [{"id": id_, "file_name": f"{name}.png"} for id_, name in zip(ids, "abc", strict=True)],
        "categories": [{"id": 4, "name": "x"}, {"id": 2, "name": "ü"}],
        "annotations": [
            {"id": 1, "image_id": ids[0], "category_id": 4, "bbox": [1, 2, 3, 4]},
            {"id": 2, "image_id": ids[2], "category_id": 2, "bbox": [1, 2, 300, 4], "iscrowd": 1, "area": 9.5},
            {"id": 3, "image_id": ids[2], "category_id": 2, "bbox": [1, 2, 0, 4]},
        ],
    }
    path = folder / "data.json"
    path.write_text(json.dumps(content | changes))
    return path


def read(path: Path, **options: Any) -> tuple[DetectionIndex, tuple]:
    log = FindingLog()
    return read_coco(path, log, folders=[path.parent], **options), log.findings


def assert_same(one: DetectionIndex, other: DetectionIndex) -> None:
    for item in fields(DetectionIndex):
        first, second = getattr(one, item.name), getattr(other, item.name)
        if isinstance(first, np.ndarray):
            np.testing.assert_array_equal(first, second)
            assert first.dtype == second.dtype
        else:
            assert list(first) == list(second) if isinstance(first, StringTable) else first == second


class Calls:
    """Counts how often the JSON is really read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        really = coco._load

        def counted(*arguments: Any) -> Any:
            self.number += 1
            return really(*arguments)

        monkeypatch.setattr(coco, "_load", counted)


@pytest.mark.parametrize("ids", [(7, 3, 5), ("a/1", 2, "ü")])
def test_a_kept_index_is_the_same_with_all_findings(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ids: tuple[int | str, ...]
) -> None:
    path, calls = write(folder, ids), Calls(monkeypatch)
    (fresh, findings), (kept, again) = read(path), read(path)
    assert calls.number == 1
    assert_same(fresh, kept)
    assert again == findings and {"unreadable-picture", "clipped", "zero-size"} <= {item.kind.code for item in again}
    assert any(item.marks for item in again)
    assert [file.suffix for file in (folder / "cache" / "index").iterdir()] == [".npz"]


def change_json(folder: Path) -> None:
    write(folder, categories=[{"id": 4, "name": "other"}, {"id": 2, "name": "ü"}])


def mend_picture(folder: Path) -> None:
    cv2.imwrite(str(folder / "b.png"), np.full((20, 20, 3), 90, np.uint8))


def touch_picture(folder: Path) -> None:
    os.utime(folder / "a.png", ns=(1, 1))


def resize_picture(folder: Path) -> None:
    cv2.imwrite(str(folder / "c.png"), np.full((60, 60, 3), 90, np.uint8))


def cut_cache(folder: Path) -> None:
    [file] = (folder / "cache" / "index").iterdir()
    file.write_bytes(file.read_bytes()[:-200])


def damage_cache(folder: Path) -> None:
    [file] = (folder / "cache" / "index").iterdir()
    content = bytearray(file.read_bytes())
    content[content.index(b"boxes_xyxy_px.npy") + 170] ^= 255
    file.write_bytes(content)


def empty_cache(folder: Path) -> None:
    [file] = (folder / "cache" / "index").iterdir()
    file.write_bytes(b"")


@pytest.mark.parametrize(
    "change", [change_json, mend_picture, touch_picture, resize_picture, cut_cache, damage_cache, empty_cache]
)
def test_what_has_changed_is_read_anew_and_kept_again(folder: Path, monkeypatch: pytest.MonkeyPatch, change) -> None:
    path, calls = write(folder), Calls(monkeypatch)
    read(path)
    change(folder)
    changed, _ = read(path)
    assert calls.number == 2
    monkeypatch.setenv("YOLO_ACCUM_CACHE", str(folder / "elsewhere"))
    assert_same(read(path)[0], changed)
    monkeypatch.setenv("YOLO_ACCUM_CACHE", str(folder / "cache"))
    assert_same(read(path)[0], changed)
    assert calls.number == 3


def test_another_way_of_reading_is_another_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, calls = write(folder), Calls(monkeypatch)
    reference = Classes(names=("x", "ü"), ids=(0, 1))
    plain, numbered = read(path)[0], read(path, reference=reference)[0]
    assert plain.labels.tolist() == [1, 0] and numbered.labels.tolist() == [0, 1]
    read(path, is_training=True)
    assert calls.number == 3
    assert read(path, reference=reference)[0].labels.tolist() == [0, 1] and calls.number == 3


def test_small_sets_and_sets_with_errors_are_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(folder)
    (folder / "a.png").unlink()
    log = FindingLog()
    read_coco(path, log, folders=[folder])
    with pytest.raises(UserError, match="not there"):
        log.raise_errors()
    monkeypatch.setattr(index_cache, "MIN_ROWS", 1000)
    read(write(folder))
    assert not (folder / "cache").exists()


def test_a_folder_that_cannot_be_written_is_no_reason_to_stop(folder: Path) -> None:
    (folder / "cache").write_text("a file in its place")
    assert len(read(write(folder))[0]) == len(read(folder / "data.json")[0]) == 2


def test_a_killed_writer_leaves_nothing_that_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(folder)

    def killed(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", killed)
        with pytest.raises(KeyboardInterrupt):
            read(path)
    assert list((folder / "cache" / "index").iterdir()) == []
    assert len(read(path)[0]) == 2
