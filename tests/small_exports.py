"""One small data set as the tools of this field export it: two pictures of 96 x 72 px with three objects.

``OBJECTS`` says what every reader must find.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from small_sets import HEIGHT_PX, WIDTH_PX, coco_content, write_picture

NAMES = ("cat", "dog")
OBJECTS: dict[str, list[tuple[str, float, float, float, float]]] = {
    "a.png": [("cat", 10, 20, 40, 60), ("dog", 50, 5, 70, 15)],
    "b.png": [("dog", 1, 1, 4, 5)],
}
"""Class, left, top, right, bottom in pixels, by picture."""

Split = dict[str, list[tuple[str, float, float, float, float]]]


def _pictures(folder: Path, names: Sequence[str] = tuple(OBJECTS)) -> None:
    for name in names:
        write_picture(folder / name)


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _coco(objects: Split = OBJECTS, prefix: str = "", first_id: int = 1) -> str:
    boxes = {
        prefix + name: [(NAMES.index(kind), x, y, right - x, bottom - y) for kind, x, y, right, bottom in rows]
        for name, rows in objects.items()
    }
    return json.dumps(coco_content(boxes, ids=(first_id, first_id + 1), names=NAMES))


def _yolo_rows(rows: Sequence[tuple[str, float, float, float, float]]) -> str:
    lines = [
        f"{NAMES.index(kind)} {(x + right) / 2 / WIDTH_PX:.6f} {(y + bottom) / 2 / HEIGHT_PX:.6f} "
        f"{(right - x) / WIDTH_PX:.6f} {(bottom - y) / HEIGHT_PX:.6f}\n"
        for kind, x, y, right, bottom in rows
    ]
    return "".join(lines)


def voc_xml(filename: str, rows: Sequence[tuple[str, float, float, float, float]]) -> str:
    """One annotation file."""
    objects = "".join(
        f"<object><name>{kind}</name><pose>Unspecified</pose><difficult>0</difficult><bndbox><xmin>{x}</xmin>"
        f"<ymin>{y}</ymin><xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>"
        for kind, x, y, right, bottom in rows
    )
    size = f"<size><width>{WIDTH_PX}</width><height>{HEIGHT_PX}</height><depth>3</depth></size>"
    return f"<annotation><filename>{filename}</filename>{size}{objects}</annotation>"


def coco_file(folder: Path) -> Path:
    """A JSON with ``images/`` beside it."""
    _pictures(folder / "images")
    _text(folder / "train.json", _coco())
    return folder / "train.json"


def roboflow_coco(folder: Path) -> Path:
    """A folder a split, the JSON among the pictures."""
    for split in ("train", "valid"):
        _pictures(folder / split)
        _text(folder / split / "_annotations.coco.json", _coco())
    _text(folder / "README.roboflow.txt", "exported")
    return folder


def roboflow_yolo(folder: Path) -> Path:
    """``../train/images`` in a YAML that lies beside ``train``."""
    for split in ("train", "valid"):
        _pictures(folder / split / "images")
        for name, rows in OBJECTS.items():
            _text((folder / split / "labels" / name).with_suffix(".txt"), _yolo_rows(rows))
    _text(
        folder / "data.yaml",
        "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n\nnc: 2\nnames: ['cat', 'dog']\n",
    )
    return folder


def roboflow_voc(folder: Path) -> Path:
    """Pictures and their XML files side by side, a folder a split."""
    for split in ("train", "valid"):
        _pictures(folder / split)
        for name, rows in OBJECTS.items():
            _text((folder / split / name).with_suffix(".xml"), voc_xml(name, rows))
    return folder


def voc_devkit(folder: Path) -> Path:
    """VOC's own folders, with lists of names."""
    _pictures(folder / "JPEGImages", (*OBJECTS, "unlisted.png"))
    for name, rows in OBJECTS.items():
        _text((folder / "Annotations" / name).with_suffix(".xml"), voc_xml(name, rows))
    for split in ("train", "val"):
        _text(folder / "ImageSets" / "Main" / f"{split}.txt", "a\nb\n")
        _text(folder / "ImageSets" / "Main" / f"cat_{split}.txt", "a  1\nb -1\n")
    return folder


def cvat_xml(folder: Path) -> Path:
    """CVAT for images 1.1."""
    images = "".join(
        f'<image id="{number}" name="{name}" width="{WIDTH_PX}" height="{HEIGHT_PX}">'
        + "".join(
            f'<box label="{kind}" source="manual" occluded="0" xtl="{x}" ytl="{y}" xbr="{right}" ybr="{bottom}" '
            'z_order="0"><attribute name="age">3</attribute></box>'
            for kind, x, y, right, bottom in rows
        )
        + "</image>"
        for number, (name, rows) in enumerate(OBJECTS.items())
    )
    labels = "".join(f"<label><name>{name}</name><color>#fff</color></label>" for name in NAMES)
    meta = f"<version>1.1</version><meta><task><labels>{labels}</labels></task></meta>"
    _pictures(folder / "images")
    _text(
        folder / "annotations.xml", f'<?xml version="1.0" encoding="utf-8"?>\n<annotations>{meta}{images}</annotations>'
    )
    return folder


def cvat_coco(folder: Path) -> Path:
    """CVAT's COCO 1.0."""
    _pictures(folder / "images" / "default")
    _text(folder / "annotations" / "instances_default.json", _coco())
    return folder


def cvat_yolo(folder: Path) -> Path:
    """CVAT's YOLO 1.1: Darknet's files, paths beginning with a folder that is not there."""
    for name, rows in OBJECTS.items():
        write_picture(folder / "obj_train_data" / name)
        _text((folder / "obj_train_data" / name).with_suffix(".txt"), _yolo_rows(rows))
    _text(folder / "obj.names", "cat\ndog\n")
    _text(folder / "obj.data", "classes = 2\ntrain = data/train.txt\nnames = data/obj.names\nbackup = backup/\n")
    _text(folder / "train.txt", "".join(f"data/obj_train_data/{name}\n" for name in OBJECTS))
    return folder


def cvat_ultralytics(folder: Path) -> Path:
    """CVAT's "Ultralytics YOLO Detection": a YAML, a list, pictures and labels."""
    _pictures(folder / "images" / "train")
    for name, rows in OBJECTS.items():
        _text((folder / "labels" / "train" / name).with_suffix(".txt"), _yolo_rows(rows))
    _text(folder / "train.txt", "".join(f"data/images/train/{name}\n" for name in OBJECTS))
    _text(folder / "data.yaml", "names:\n  0: cat\n  1: dog\npath: .\ntrain: train.txt\n")
    return folder


def label_studio_coco(folder: Path) -> Path:
    """``result.json``, categories from 0, names with the folders of another machine."""
    _pictures(folder / "images", tuple(f"0a1b2c3d-{name}" for name in OBJECTS))
    objects = {f"0a1b2c3d-{name}": rows for name, rows in OBJECTS.items()}
    _text(folder / "result.json", _coco(objects, prefix="../../label-studio/data/media/upload/1/", first_id=0))
    return folder


def label_studio_yolo(folder: Path) -> Path:
    """``classes.txt`` and ``notes.json`` beside pictures and labels."""
    _pictures(folder / "images")
    for name, rows in OBJECTS.items():
        _text((folder / "labels" / name).with_suffix(".txt"), _yolo_rows(rows))
    _text(folder / "classes.txt", "cat\ndog\n")
    _text(folder / "notes.json", json.dumps({"categories": [{"id": 0, "name": "cat"}], "info": {"year": 2026}}))
    return folder


def label_studio_voc(folder: Path) -> Path:
    """``Annotations`` and ``images``, file names without suffix."""
    _pictures(folder / "images")
    for name, rows in OBJECTS.items():
        _text((folder / "Annotations" / name).with_suffix(".xml"), voc_xml(Path(name).stem, rows))
    return folder


def label_studio_json(folder: Path) -> Path:
    """Tasks with results in percent; a cancelled annotation, a choice and the bare rectangle of each label."""
    tasks = []
    for number, (name, rows) in enumerate(OBJECTS.items(), 7):
        result: list[dict[str, object]] = [{"type": "choices", "value": {"choices": ["day"]}}]
        for kind, x, y, right, bottom in rows:
            value = {
                "x": 100 * x / WIDTH_PX,
                "y": 100 * y / HEIGHT_PX,
                "width": 100 * (right - x) / WIDTH_PX,
                "height": 100 * (bottom - y) / HEIGHT_PX,
                "rotation": 0,
            }
            size = {"original_width": WIDTH_PX, "original_height": HEIGHT_PX}
            result.append({"type": "rectangle", "value": value, **size})
            result.append({"type": "rectanglelabels", "value": {**value, "rectanglelabels": [kind]}, **size})
        cancelled = {"was_cancelled": True, "result": [{"type": "rectanglelabels", "value": {}}]}
        annotations = [{"was_cancelled": False, "result": result}, cancelled]
        tasks.append({"id": number, "data": {"image": f"/data/upload/3/0a1b2c3d-{name}"}, "annotations": annotations})
    _pictures(folder / "images")
    _text(folder / "project-3.json", json.dumps(tasks))
    return folder


def label_studio_min(folder: Path) -> Path:
    """JSON-MIN: one flat object a task."""
    tasks = []
    for number, (name, rows) in enumerate(OBJECTS.items(), 7):
        regions = [
            {
                "x": 100 * x / WIDTH_PX,
                "y": 100 * y / HEIGHT_PX,
                "width": 100 * (right - x) / WIDTH_PX,
                "height": 100 * (bottom - y) / HEIGHT_PX,
                "rotation": 0,
                "rectanglelabels": [kind],
                "original_width": WIDTH_PX,
                "original_height": HEIGHT_PX,
            }
            for kind, x, y, right, bottom in rows
        ]
        tasks.append({"image": f"/data/local-files/?d=photos/{name}", "id": number, "label": regions})
    _pictures(folder)
    _text(folder / "min.json", json.dumps(tasks))
    return folder / "min.json"


EXPORTS: dict[str, Callable[[Path], Path]] = {
    write.__name__: write
    for write in (
        coco_file,
        roboflow_coco,
        roboflow_yolo,
        roboflow_voc,
        voc_devkit,
        cvat_xml,
        cvat_coco,
        cvat_yolo,
        cvat_ultralytics,
        label_studio_coco,
        label_studio_yolo,
        label_studio_voc,
        label_studio_json,
        label_studio_min,
    )
}
"""By name: writes the data set into a folder and returns what is given as --data."""
WITH_TWO_SPLITS = frozenset(("roboflow_coco", "roboflow_yolo", "roboflow_voc", "voc_devkit"))
