"""What kind of data set a file or folder is.

A layout is recognised by what it must have: a data YAML names its splits, an export of a tool has files of known
names. A folder that looks like more than one is never guessed at.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from yolo_accum.data.findings import FindingLog
from yolo_accum.data.formats.coco import read_coco
from yolo_accum.data.formats.cvat import ROOT as CVAT_ROOT
from yolo_accum.data.formats.darknet import names_in_lines
from yolo_accum.data.formats.data_yaml import split_name
from yolo_accum.data.formats.label_studio import read_label_studio
from yolo_accum.data.formats.layout_files import (
    COCO_JSON,
    DATA_YAML,
    Binder,
    Layout,
    bound,
    coco_or_label_studio,
    cvat_xml,
    darknet_file,
    data_yaml,
    file_layout,
    first_character,
)
from yolo_accum.data.formats.voc import VocSplit, read_voc
from yolo_accum.data.formats.xml_records import xml_root
from yolo_accum.data.formats.yolo import read_yolo
from yolo_accum.errors import UserError

ROBOFLOW_COCO = "_annotations.coco.json"
_YOLO_FOLDER = "YOLO folder"
_COCO_KINDS = (COCO_JSON, "COCO folder", "Roboflow COCO folder")


def find_layout(path: Path, log: FindingLog, images: Path | None = None) -> Layout:
    """Recognises a data set.

    Args:
        path: an existing file or folder.
        log: takes findings about the description itself.
        images: where the pictures are, for formats that name them; their own places by default.
    Raises:
        UserError: it is no data set of a known kind, or of more than one.
    """
    if images is not None and not images.is_dir():
        raise UserError(f"the folder of pictures {images} does not exist (tried {images.absolute()})")
    if path.is_dir():
        return _folder(path, log, images)
    return file_layout(path, log, images)


def _folder(folder: Path, log: FindingLog, images: Path | None) -> Layout:
    looks = (_yaml_in, _roboflow_coco, _coco_folder, _cvat_folder, _darknet_in, _voc_folder, _yolo_folder)
    candidates = [layout for look in looks for layout in look(folder, log, images)]
    described = [layout for layout in candidates if layout.kind == DATA_YAML]
    if len(described) == 1:  # it speaks of the files of its own kind
        other = _COCO_KINDS if described[0].has_image_ids else (_YOLO_FOLDER,)
        candidates = [layout for layout in candidates if layout.kind not in other]
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        told = "; ".join(f"{layout.kind}: {_choice(layout, folder)}" for layout in candidates[:6])
        raise UserError(
            f"--data {folder}: this folder can be read in {len(candidates)} ways ({told}); name one of these files or "
            "folders as --data"
        )
    raise UserError(
        f"--data {folder}: no data set was recognised in this folder; known are a data YAML, COCO JSON, YOLO and "
        "Pascal VOC layouts, and what Roboflow, CVAT and Label Studio export (docs/data.md lists their files)"
    )


def _choice(layout: Layout, folder: Path) -> str:
    """What to name: the folder itself would lead back to the same question."""
    return ", ".join(_relative(path, folder) for path in layout.files or (layout.path,))


def _relative(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path != folder and path.is_relative_to(folder) else str(path)


def _yaml_in(folder: Path, log: FindingLog, images: Path | None) -> list[Layout]:
    files = [path for path in _files(folder) if path.suffix.lower() in (".yaml", ".yml")]
    return [data_yaml(path, log) for path in files if images is None and _names_splits(path)]


def _names_splits(path: Path) -> bool:
    """Other YAML files may well lie there: a recipe, settings of a tool."""
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        return False
    return any(line.startswith(("train:", "val:", "test:")) for line in text.splitlines())


def _roboflow_coco(folder: Path, log: FindingLog, images: Path | None) -> list[Layout]:
    """``train/_annotations.coco.json`` among the pictures; one split alone is such a folder itself."""
    own = folder / ROBOFLOW_COCO
    if own.is_file():
        return [coco_or_label_studio(own, images)]
    return _from_splits("Roboflow COCO folder", folder, _split_files(folder, ROBOFLOW_COCO), images)


def _split_files(folder: Path, name: str) -> list[tuple[str, Path]]:
    return [(child.name, child / name) for child in _folders(folder) if (child / name).is_file()]


def _coco_folder(folder: Path, log: FindingLog, images: Path | None) -> list[Layout]:
    """``train.json`` and its like, in the folder or in ``annotations/``; CVAT and Label Studio name one file."""
    for place in (folder, folder / "annotations"):
        files = [path for path in _files(place) if path.suffix.lower() == ".json" and path.name != ROBOFLOW_COCO]
        files = [path for path in files if _is_annotation_json(path)]
        named = [(path.stem, path) for path in files if _split_of_stem(path.stem) is not None]
        others = [path for path in files if _split_of_stem(path.stem) is None]
        if not files:
            continue
        if named and not others:
            return _from_splits("COCO folder", folder, named, images)
        if len(files) == 1:
            return [_in_folder(coco_or_label_studio(files[0], images), files[0], folder, "default", images)]
        return [coco_or_label_studio(path, images) for path in files]
    return []


def _is_annotation_json(path: Path) -> bool:
    """A notes.json of a labelling tool, or a package.json, is none; the first megabyte shows which keys there are."""
    first = first_character(path)
    try:
        with path.open("rb") as file:
            head = file.read(1 << 20)
    except OSError:
        return False
    if first == "[":
        return b'"annotations"' in head or b'"original_width"' in head
    if b'"images"' in head or b'"annotations"' in head:
        return True
    return len(head) == 1 << 20 and first == "{"


def _split_of_stem(stem: str) -> str | None:
    """``instances_val2017`` -> "val"; None where no word or more than one names a split."""
    words = "".join(letter if letter.isalpha() else " " for letter in stem.lower()).split()
    splits = {split for word in words if (split := split_name(word)) is not None}
    return splits.pop() if len(splits) == 1 else None


def _from_splits(kind: str, folder: Path, files: list[tuple[str, Path]], images: Path | None) -> list[Layout]:
    """One data set from a JSON a split; each by itself where two claim the same split."""
    splits: dict[str, Binder] = {}
    for stem, path in files:
        split = _split_of_stem(stem)
        if split is None or split in splits:
            return [coco_or_label_studio(path, images) for _, path in files]
        [bind] = _in_folder(
            coco_or_label_studio(path, images), path, folder, _picture_folder(stem), images
        ).splits.values()
        splits[split] = bind
    paths = tuple(path for _, path in files)
    return [Layout(kind=kind, path=folder, splits=splits, files=paths, has_image_ids=True)] if splits else []


def _picture_folder(stem: str) -> str:
    """``instances_val2017`` describes the pictures in ``val2017``."""
    return stem.rpartition("_")[2] if stem.startswith("instances_") else stem


def _in_folder(layout: Layout, path: Path, folder: Path, subset: str, images: Path | None) -> Layout:
    """The same JSON, its pictures also looked for where a whole data set has them."""
    if images is not None:
        return layout
    places = [path.parent, folder / "images" / subset, folder / subset, folder / "images", folder]
    folders = [place for place in dict.fromkeys(places) if place.is_dir()]
    reader = read_coco if layout.kind == COCO_JSON else read_label_studio
    bind = partial(bound, partial(reader, path, folders=folders))
    return Layout(kind=layout.kind, path=path, splits={"": bind}, has_image_ids=True)


def _cvat_folder(folder: Path, log: FindingLog, images: Path | None) -> list[Layout]:
    files = [path for path in _files(folder) if path.suffix.lower() == ".xml" and xml_root(path) == CVAT_ROOT]
    return [cvat_xml(path, images) for path in files]


def _darknet_in(folder: Path, log: FindingLog, images: Path | None) -> list[Layout]:
    return [darknet_file(path) for path in _files(folder) if path.suffix.lower() == ".data" and images is None]


def _voc_folder(folder: Path, log: FindingLog, images: Path | None) -> list[Layout]:
    """VOC's own folders with lists of names, split folders as Roboflow writes them, or one folder of pairs."""
    annotations = next((folder / name for name in ("Annotations", "annotations") if (folder / name).is_dir()), None)
    pictures = next((folder / name for name in ("JPEGImages", "images", "Images") if (folder / name).is_dir()), None)
    parts: dict[str, VocSplit] = {}
    if annotations is not None and _has(annotations, ".xml"):
        here = VocSplit(annotations=annotations, pictures=images or pictures or annotations)
        parts = {
            split: VocSplit(annotations=here.annotations, pictures=here.pictures, listing=listing)
            for split, listing in _listings(folder).items()
        } or {"": here}
    elif _is_voc(folder):
        parts = {"": VocSplit(annotations=folder, pictures=images or folder)}
    else:
        children = {split_name(child.name): child for child in _folders(folder) if _is_voc(child)}
        parts = {
            split: VocSplit(annotations=child, pictures=child) for split, child in children.items() if split is not None
        }
    if not parts:
        return []
    every = list(parts.values())
    splits = {split: partial(bound, partial(read_voc, part, all_splits=every)) for split, part in parts.items()}
    return [Layout(kind="Pascal VOC folder", path=folder, splits=splits)]


def _is_voc(folder: Path) -> bool:
    first = next((path for path in _files(folder) if path.suffix.lower() == ".xml"), None)
    return first is not None and xml_root(first) == "annotation"


def _listings(folder: Path) -> dict[str, Path]:
    """Lists of ``ImageSets/Main`` by split; "" for the only list of another name (CVAT calls it default)."""
    lists = [path for path in _files(folder / "ImageSets" / "Main") if path.suffix.lower() == ".txt"]
    named = {split: path for path in lists if (split := split_name(path.stem)) is not None}
    if named:
        return named
    return {"": lists[0]} if len(lists) == 1 else {}


def _yolo_folder(folder: Path, log: FindingLog, images: Path | None) -> list[Layout]:
    """``images/`` and ``labels/`` with ``classes.txt``, as Label Studio exports them."""
    names = next((folder / name for name in ("classes.txt", "obj.names") if (folder / name).is_file()), None)
    if names is None or not (folder / "labels").is_dir() or not (folder / "images").is_dir():
        return []
    classes = names_in_lines(names)
    pictures = folder / "images"
    children = {split: child for child in _folders(pictures) if (split := split_name(child.name)) is not None}
    entries = children or {"": pictures}
    splits = {
        split: partial(bound, partial(read_yolo, names, entries=[entry], classes=classes))
        for split, entry in entries.items()
    }
    return [Layout(kind=_YOLO_FOLDER, path=folder, splits=splits)]


def _files(folder: Path) -> list[Path]:
    return (
        sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
        if (folder.is_dir())
        else []
    )


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _has(folder: Path, suffix: str) -> bool:
    return any(path.suffix.lower() == suffix for path in folder.rglob("*"))
