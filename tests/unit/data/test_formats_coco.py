"""COCO JSON: what is read, what is repaired with a word, what is refused with the culprit's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pycocotools.mask
import pytest
from small_sets import HEIGHT_PX, WIDTH_PX, coco_content, write_coco, write_picture

from yolo_accum.config.schema import DataConfig
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.classes import Classes
from yolo_accum.data.description import open_split
from yolo_accum.data.findings import ODD_SIZE, FindingLog
from yolo_accum.data.formats.coco import read_coco
from yolo_accum.data.formats.masks import mask_box
from yolo_accum.errors import UserError

Change = Callable[[dict[str, Any]], None]


def _plain() -> dict[str, Any]:
    return coco_content({"a.png": [(0, 10, 20, 30, 40), (1, 50, 5, 20, 10)], "b.png": [(1, 1, 2, 3, 4)]})


def _read(
    folder: Path, content: dict[str, Any], reference: Classes | None = None
) -> tuple[DetectionIndex, dict[str, int], str]:
    """The index, the findings as counts by code, and their texts."""
    log = FindingLog()
    path = write_coco(folder, content)
    index = read_coco(path, log, folders=[folder, folder / "images"], reference=reference, is_training=True)
    log.raise_errors()
    text = "\n".join(map(str, log.findings))
    return index, {finding.kind.code: finding.count for finding in log.findings}, text


def _refused(folder: Path, content: dict[str, Any], *pieces: str) -> None:
    with pytest.raises(UserError) as caught:
        _read(folder, content)
    for piece in ("train.json", *pieces):
        assert piece in str(caught.value)


def test_reads_boxes_sizes_and_ids(tmp_path: Path) -> None:
    index, findings, _ = _read(tmp_path, _plain())
    assert findings == {}
    assert list(index.image_paths) == [str(tmp_path / "images" / name) for name in ("a.png", "b.png")]
    assert index.image_ids == (101, 102)
    assert index.widths_px.tolist() == [96, 96] and index.heights_px.tolist() == [72, 72]
    assert index.box_starts.tolist() == [0, 2, 3]
    assert index.boxes_xyxy_px.tolist() == [[10, 20, 40, 60], [50, 5, 70, 15], [1, 2, 4, 6]]
    assert index.labels.tolist() == [0, 1, 1]
    assert index.areas_px.tolist() == [1200, 200, 12]
    assert not index.is_crowd.any()


def test_category_ids_are_numbered_by_ascending_id(tmp_path: Path) -> None:
    content = coco_content(
        {"a.png": [(0, 1, 1, 9, 9), (1, 20, 1, 9, 9), (2, 40, 1, 9, 9)]}, ids=(90, 7, 3), names=("x", "y", "z")
    )
    index, _, _ = _read(tmp_path, content)
    assert index.class_ids == (3, 7, 90)
    assert index.class_names == ("z", "y", "x")
    assert index.labels.tolist() == [2, 1, 0]


def test_ids_may_be_text_and_numbers_in_text_count_as_numbers(tmp_path: Path) -> None:
    content = coco_content({"a.png": [(0, 1, 1, 9, 9), (1, 20, 1, 9, 9)]}, ids=("10", "9"))
    content["images"][0]["id"] = "cam-a_001"
    for annotation in content["annotations"]:
        annotation["image_id"] = "cam-a_001"
    index, _, _ = _read(tmp_path, content)
    assert index.class_ids == ("9", "10")
    assert index.image_ids == ("cam-a_001",)
    assert index.labels.tolist() == [1, 0]


def test_annotations_in_any_order_are_sorted_by_image_and_keep_their_order_within_it(tmp_path: Path) -> None:
    content = _plain()
    content["annotations"].reverse()
    index, _, _ = _read(tmp_path, content)
    assert index.boxes_xyxy_px.tolist() == [[50, 5, 70, 15], [10, 20, 40, 60], [1, 2, 4, 6]]


def test_crowd_regions_and_mask_areas_are_kept(tmp_path: Path) -> None:
    content = _plain()
    content["annotations"][0].update(iscrowd=1, area=333.5)
    index, _, _ = _read(tmp_path, content)
    assert index.is_crowd.tolist() == [True, False, False]
    assert index.areas_px.tolist() == [333.5, 200, 12]


def test_minimal_files_are_filled_up_in_memory(tmp_path: Path) -> None:
    content = _plain()
    for annotation in content["annotations"]:
        for key in ("id", "area", "iscrowd"):
            del annotation[key]
    for image in content["images"]:
        del image["width"], image["height"]
    index, findings, _ = _read(tmp_path, content)
    assert findings == {}
    assert index.areas_px.tolist() == [1200, 200, 12]
    assert index.widths_px.tolist() == [96, 96]


def test_images_without_annotations_are_background(tmp_path: Path) -> None:
    content = coco_content({"a.png": [], "b.png": [(0, 1, 1, 9, 9)], "c.png": []})
    index, findings, text = _read(tmp_path, content)
    assert findings == {"background": 2} and "a.png; c.png" in text
    assert index.box_starts.tolist() == [0, 0, 1, 1]


def test_byte_order_mark_and_names_with_folders_and_backslashes(tmp_path: Path) -> None:
    content = _plain()
    for image in content["images"]:
        write_picture(tmp_path / "images" / "cam 1" / "tag é" / image["file_name"])
    content["images"][0]["file_name"] = "cam 1/tag é/a.png"
    content["images"][1]["file_name"] = "cam 1\\tag é\\b.png"
    path = tmp_path / "train.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(content, indent=1).replace("\n", "\r\n").encode())
    index = read_coco(path, FindingLog(), folders=[tmp_path / "images"])
    assert list(index.image_paths) == [
        str(tmp_path / "images" / "cam 1" / "tag é" / name) for name in ("a.png", "b.png")
    ]


def test_equal_file_names_in_two_folders_stay_apart(tmp_path: Path) -> None:
    content = coco_content({"a/x.png": [(0, 1, 1, 9, 9)], "b/x.png": [(1, 2, 2, 9, 9)]})
    index, findings, _ = _read(tmp_path, content)
    assert findings == {}
    assert [path[-7:] for path in index.image_paths] == ["a/x.png", "b/x.png"]


@pytest.mark.parametrize(
    ("box", "code", "kept"),
    [
        ([10, 20, 30, 0], "zero-size", None),
        ([10, 20, -3, 5], "inverted-box", None),
        ([10, 20, 1e-9, 5], "tiny-box", None),
        ([10, 20, 1, 1], None, [10, 20, 11, 21]),
        ([97, 10, 5, 5], "outside", None),
        ([-9, -9, 9, 9], "outside", None),
        ([80, 60, 31, 21], "clipped", [80, 60, 96, 72]),
        ([-4, -5, 10, 20], "clipped", [0, 0, 6, 15]),
        ([90, 60, 6.01, 12], None, [90, 60, 96, 72]),
        (["80", "6e1", 10, "5"], "numbers-as-text", [80, 60, 90, 65]),
    ],
)
def test_odd_boxes(tmp_path: Path, box: list, code: str | None, kept: list | None) -> None:
    content = coco_content({"a.png": [(0, 1, 1, 9, 9), (1, 0, 0, 1, 1)]})
    content["annotations"][1]["bbox"] = box
    content["annotations"][1]["id"] = 77
    index, findings, text = _read(tmp_path, content)
    assert findings == ({code: 1} if code else {})
    assert code is None or "annotation 77 of a.png" in text
    assert index.boxes_xyxy_px.tolist() == [[1, 1, 10, 10]] + ([kept] if kept else [])


def test_exact_duplicates_are_used_once(tmp_path: Path) -> None:
    content = coco_content({"a.png": [(0, 1, 1, 9, 9), (1, 1, 1, 9, 9), (0, 1, 1, 9, 9)], "b.png": [(0, 1, 1, 9, 9)]})
    index, findings, text = _read(tmp_path, content)
    assert findings == {"duplicate-box": 1} and "annotation 3 of a.png" in text
    assert index.labels.tolist() == [0, 1, 0]


def test_repeated_annotation_ids_lose_no_box(tmp_path: Path) -> None:
    content = _plain()
    for annotation in content["annotations"]:
        annotation["id"] = 7
    index, findings, text = _read(tmp_path, content)
    assert findings == {"repeated-annotation-id": 2} and "id 7" in text
    assert index.num_boxes == 3


def test_annotations_of_unlisted_images_are_left_out(tmp_path: Path) -> None:
    content = _plain()
    content["annotations"][0]["image_id"] = 999
    index, findings, text = _read(tmp_path, content)
    assert findings == {"unknown-image": 1} and "annotation 1: image_id 999" in text
    assert index.num_boxes == 2


def test_a_wrong_size_is_told_and_the_picture_is_believed(tmp_path: Path) -> None:
    content = _plain()
    content["images"][0].update(width=72, height=96)
    content["images"][1].update(width=96, height=72.0)
    index, findings, text = _read(tmp_path, content)
    assert findings == {"wrong-size": 1} and "a.png is 96 x 72 px, written 72 x 96" in text
    assert index.widths_px.tolist() == [96, 96]


def test_pictures_that_cannot_be_read_are_left_out_with_their_boxes(tmp_path: Path) -> None:
    path = write_coco(tmp_path, _plain())
    (tmp_path / "images" / "a.png").write_bytes(b"")
    log = FindingLog()
    index = read_coco(path, log, folders=[tmp_path / "images"])
    assert [(finding.kind.code, finding.count) for finding in log.findings] == [("unreadable-picture", 1)]
    assert "a.png is empty" in str(log.findings[0])
    assert index.image_ids == (102,)
    assert index.boxes_xyxy_px.tolist() == [[1, 2, 4, 6]] and index.box_starts.tolist() == [0, 1]


def test_missing_pictures_are_refused_with_count_names_and_folders(tmp_path: Path) -> None:
    content = _plain()
    path = write_coco(tmp_path, content)
    (tmp_path / "images" / "b.png").unlink()
    log = FindingLog()
    read_coco(path, log, folders=[tmp_path / "images"])
    with pytest.raises(UserError, match=rf"not there: 1 \(b.png\); searched in {tmp_path / 'images'}"):
        log.raise_errors()


def test_refuses_what_cannot_be_meant(tmp_path: Path) -> None:
    def changed(change: Change) -> dict[str, Any]:
        content = _plain()
        change(content)
        return content

    _refused(
        tmp_path, changed(lambda c: c["annotations"][2].update(category_id=9)), "annotation 3 of b.png", "category_id 9"
    )
    _refused(tmp_path, changed(lambda c: c["images"][1].update(id=101)), "id 101: a.png, b.png")
    _refused(tmp_path, changed(lambda c: c["annotations"][0].update(bbox=[float("nan"), 1, 2, 3])), "annotation 1 of")
    _refused(tmp_path, changed(lambda c: c["annotations"][0].update(bbox=[None, 1, 2, 3])), "annotation 1 of")
    _refused(tmp_path, changed(lambda c: c["annotations"][0].update(bbox={"x": 1})), "annotation 1", "{'x': 1}")
    _refused(tmp_path, changed(lambda c: c["annotations"][0].update(bbox=[1, 2, 3])), "annotation 1", "[1, 2, 3]")
    _refused(tmp_path, changed(lambda c: c["annotations"][0].update(bbox=["a", 2, 3, 4])), "annotation 1", "'a'")
    _refused(tmp_path, changed(lambda c: c["annotations"][0].pop("bbox")), "annotation 1", "four numbers")
    _refused(tmp_path, changed(lambda c: c["annotations"][0].update(image_id=[1])), "annotation 1", "image_id [1]")
    _refused(tmp_path, changed(lambda c: c.pop("categories")), "lacks categories")
    _refused(tmp_path, changed(lambda c: c.update(categories=[])), '"categories" is empty')
    _refused(tmp_path, changed(lambda c: c.pop("annotations")), "lacks annotations")
    _refused(tmp_path, changed(lambda c: c.update(annotations={"a": 1})), '"annotations" is an object')
    _refused(tmp_path, changed(lambda c: c["annotations"].append(5)), 'entry 3 of "annotations" is 5')
    _refused(tmp_path, changed(lambda c: c["categories"][1].update(id=1)), "'cat' and 'dog'", "id 1")
    _refused(tmp_path, changed(lambda c: c["categories"][1].pop("name")), "category 2", "name")
    _refused(tmp_path, changed(lambda c: c["images"][1].update(id=None)), "image b.png has the id None")


def test_numbers_beyond_what_a_float_holds_are_refused_by_name(tmp_path: Path) -> None:
    for change in (
        {"bbox": [10**400, 1, 2, 3]},
        {"bbox": [True, True, 30, 40]},
        {"bbox": None, "segmentation": [[10**400, 1, 2, 3, 4, 5]]},
    ):
        content = _plain()
        content["annotations"][0].update(change)
        _refused(tmp_path, content, "annotation 1 of a.png")
    content = _plain()
    content["images"][0]["id"] = 10**30
    _refused(tmp_path, content, "image a.png has the id 1000", "64 bits")


@pytest.mark.parametrize("side", ["96", "wide", 96.5, 0, -96, None, True, [96], {}, 10**400, float("inf"), "inf"])
def test_a_side_that_is_no_whole_number_of_pixels_is_told_and_the_picture_is_believed(
    tmp_path: Path, side: object
) -> None:
    content = _plain()
    content["images"][1]["width"] = side
    index, findings, text = _read(tmp_path, content)
    assert findings == {"odd-size": 1} and index.widths_px.tolist() == [96, 96]
    assert f"train.json: {ODD_SIZE.what}: 1 (image 102 (b.png): width {side!r:.40})" in text
    assert ODD_SIZE.severity == "warning"


@pytest.mark.parametrize("side", ["96", "inf", 2**40])
def test_an_odd_side_is_told_where_no_picture_is_looked_at(tmp_path: Path, side: object) -> None:
    content = _plain()
    content["images"][0]["width"] = side
    log = FindingLog()
    index = read_coco(write_coco(tmp_path, content), log, folders=())
    assert index.num_boxes == 3 and [finding.kind for finding in log.findings] == [ODD_SIZE]
    assert "what reads as a number is used" in str(log.findings[0])


def test_a_missing_side_is_no_finding(tmp_path: Path) -> None:
    content = _plain()
    del content["images"][0]["width"], content["images"][1]["height"]
    index, findings, _ = _read(tmp_path, content)
    assert findings == {} and index.heights_px.tolist() == [72, 72]


def test_a_size_as_text_is_still_compared(tmp_path: Path) -> None:
    content = _plain()
    content["images"][0].update(width="72", height="96")
    _, findings, text = _read(tmp_path, content)
    assert findings == {"odd-size": 1, "wrong-size": 1} and "width '72', height '96'" in text


def test_a_number_that_python_refuses_to_read_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    path.write_text(f'{{"images": [{"9" * 5000}]}}')
    with pytest.raises(UserError, match=r"train\.json holds a number that is too long"):
        read_coco(path, FindingLog(), folders=[tmp_path])


def test_ids_that_look_like_numbers_are_words(tmp_path: Path) -> None:
    ids = ("--5", "9" * 5000)
    content = coco_content({"a.png": [(0, 1, 1, 9, 9), (1, 20, 1, 9, 9)]}, ids=ids)
    assert _read(tmp_path, content)[0].class_ids == ids


@pytest.mark.parametrize("key", ["name", "id"])
def test_half_a_character_is_refused(tmp_path: Path, key: str) -> None:
    content = _plain()
    content["categories"][1][key] = "\ud800x"
    _refused(tmp_path, content, r"'\ud800x'", "lone surrogate")


def test_odd_crowd_flags_and_areas_are_told(tmp_path: Path) -> None:
    content = _plain()
    for annotation, crowd, area in zip(
        content["annotations"], ("yes", "1", True), ("big", float("nan"), "7.5"), strict=True
    ):
        annotation.update(iscrowd=crowd, area=area)
    index, findings, text = _read(tmp_path, content)
    assert findings == {"odd-crowd": 1, "odd-area": 2}
    assert "annotation 1 of a.png: iscrowd 'yes'" in text and "annotation 2 of a.png: area nan" in text
    assert index.is_crowd.tolist() == [False, True, True]
    assert index.areas_px.tolist() == [1200, 200, 7.5]

    content["annotations"][0]["area"] = 10**400
    assert _read(tmp_path, content)[1]["odd-area"] == 2


def test_all_errors_are_told_at_once(tmp_path: Path) -> None:
    content = _plain()
    content["annotations"][0]["category_id"] = 9
    content["annotations"][1]["bbox"] = [1, 2]
    _refused(tmp_path, content, "category_id 9", "[1, 2]")


def test_refuses_files_that_are_no_coco(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    for data, piece in (
        (b'{"images": [', "is not JSON: .* in line 1, column 13"),
        (b'[{"image_id": 1}]', "it holds a list"),
        (b"5", "it holds a number"),
        (b"null", "it holds null"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b'{"info": 1}', r"lacks images, annotations, categories \(it has: info\)"),
    ):
        path.write_bytes(data)
        with pytest.raises(UserError, match=piece):
            read_coco(path, FindingLog(), folders=[tmp_path])


def test_boxes_come_from_masks_where_there_are_none(tmp_path: Path) -> None:
    content = coco_content({"a.png": [(0, 0, 0, 1, 1), (1, 0, 0, 1, 1), (0, 0, 0, 1, 1)]})
    polygon, plain, compressed = content["annotations"]
    del polygon["bbox"], plain["bbox"]
    compressed["bbox"] = []
    polygon["segmentation"] = [[10, 20, 30, 25, 12.5, 40], [50, 5, 60, 5, 60, 10]]
    plain["segmentation"] = _run_lengths(left=4, top=6, right=9, bottom=20)
    compressed["segmentation"] = {
        "size": [HEIGHT_PX, WIDTH_PX],
        "counts": _compressed(left=4, top=6, right=9, bottom=20),
    }
    index, findings, _ = _read(tmp_path, content)
    assert findings == {"box-from-mask": 3}
    assert index.boxes_xyxy_px.tolist() == [[10, 5, 60, 40], [4, 6, 9, 20], [4, 6, 9, 20]]


def test_masks_that_say_nothing_are_refused(tmp_path: Path) -> None:
    for segmentation in (
        [[1, 2, 3]],
        {"size": [72, 96], "counts": [5, 6]},
        {"size": [72, 96], "counts": [72 * 96]},
        {"counts": [1]},
        {"size": [72, 96], "counts": "\x00"},
    ):
        content = _plain()
        del content["annotations"][0]["bbox"]
        content["annotations"][0]["segmentation"] = segmentation
        _refused(tmp_path, content, "annotation 1 of a.png", "masks that cannot be read")


def _mask(left: int, top: int, right: int, bottom: int) -> np.ndarray:
    mask = np.zeros((HEIGHT_PX, WIDTH_PX), np.uint8)
    mask[top:bottom, left:right] = 1
    return mask


def _run_lengths(**box: int) -> dict[str, Any]:
    flat = _mask(**box).flatten(order="F")
    changes = np.flatnonzero(np.diff(flat)) + 1
    edges = np.concatenate([[0], changes, [flat.size]])
    counts = np.diff(edges).tolist()
    return {"size": [HEIGHT_PX, WIDTH_PX], "counts": counts if flat[0] == 0 else [0, *counts]}


def _compressed(**box: int) -> str:
    return pycocotools.mask.encode(np.asfortranarray(_mask(**box)))["counts"].decode()


@pytest.mark.parametrize("box", [(0, 0, 96, 72), (0, 0, 1, 1), (95, 71, 96, 72), (3, 0, 7, 72), (17, 30, 60, 41)])
def test_run_lengths_agree_with_the_mask_they_encode(box: tuple[int, int, int, int]) -> None:
    sides = dict(zip(("left", "top", "right", "bottom"), box, strict=True))
    assert mask_box(_run_lengths(**sides)) == box
    assert mask_box({"size": [HEIGHT_PX, WIDTH_PX], "counts": _compressed(**sides)}) == box


def test_another_split_is_numbered_by_name(tmp_path: Path) -> None:
    reference = Classes(names=("bird", "cat", "dog"), ids=(1, 2, 3))
    content = coco_content({"a.png": [(0, 1, 1, 9, 9), (1, 20, 1, 9, 9)]}, ids=(5, 4), names=("dog", "cat"))
    index, _, _ = _read(tmp_path, content, reference)
    assert index.class_names == ("bird", "cat", "dog")
    assert index.labels.tolist() == [2, 1]
    assert index.class_ids == (1, 4, 5), "outputs carry the ids of this file"


def test_objects_of_a_class_that_is_not_trained_are_refused(tmp_path: Path) -> None:
    reference = Classes(names=("cat",), ids=(1,))
    with pytest.raises(UserError, match=r"annotation 2 of a\.png: class 'dog'"):
        _read(tmp_path, _plain(), reference)
    content = coco_content({"a.png": [(0, 1, 1, 9, 9)]})
    index, findings, _ = _read(tmp_path, content, reference)
    assert findings == {} and index.class_names == ("cat",), "a foreign class without objects does no harm"


@pytest.mark.real
@pytest.mark.parametrize(
    ("path", "num_images", "num_boxes", "num_crowd", "num_zero_size"),
    [
        ("bccd/train.json", 205, 2804, 0, 1),
        ("bccd/val.json", 87, 1137, 0, 1),
        ("bccd/test.json", 72, 945, 0, 0),
        ("aquarium/train.json", 150, 1205, 0, 0),
        ("aquarium/test.json", 30, 364, 0, 2),
        ("trees/train.json", 9, 226, 0, 0),
        ("aerialcars/val.json", 20, 418, 0, 0),
        ("coco128/train.json", 128, 929, 0, 0),
        ("cocoval/val.json", 128, 898, 0, 0),
        ("cocoval/val_crowd.json", 128, 903, 5, 0),
        ("satveh_rf/valid/_annotations.coco.json", 43, 342, 0, 0),
    ],
)
def test_real_sets_have_their_counts(
    real_data: Path, path: str, num_images: int, num_boxes: int, num_crowd: int, num_zero_size: int
) -> None:
    index, findings = open_split(DataConfig(data=str(real_data / "data" / path)))
    assert (len(index), index.num_boxes, int(index.is_crowd.sum())) == (num_images, num_boxes, num_crowd)
    counts = {finding.kind.code: finding.count for finding in findings}
    assert counts.get("zero-size", 0) == num_zero_size
    assert "unreadable-picture" not in counts and "wrong-size" not in counts
