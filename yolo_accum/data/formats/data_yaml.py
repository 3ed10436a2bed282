"""The data YAML: where each split lies and what the classes are called."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from yolo_accum.data import findings as found
from yolo_accum.data.classes import Classes
from yolo_accum.data.findings import FindingLog
from yolo_accum.errors import UserError

SPLITS = ("train", "val", "test")
_SPELLINGS = {"valid": "val", "validation": "val", "training": "train", "testing": "test"}


def split_name(word: str) -> str | None:
    """The split that a word means, "valid" and "Validation" too; None for any other word."""
    split = _SPELLINGS.get(word.lower(), word.lower())
    return split if split in SPLITS else None


@dataclass(frozen=True, kw_only=True)
class DataYaml:
    """What a data YAML says, paths not yet looked at."""

    path: Path
    """Absolute."""
    root: Path
    """The folder that its entries are relative to."""
    entries: Mapping[str, Sequence[str]]
    """For each split that is named, one text or more."""
    image_folders: Mapping[str, str]
    """By split, for COCO JSONs: folder of the pictures as written; absent where none is named."""
    classes: Classes | None
    """From ``names``; None without it."""

    def resolve(self, split: str, entry: str, log: FindingLog) -> Path:
        """The existing file or folder that an entry means, absolute.

        Some exports write ``../train/images`` into a YAML that lies beside ``train``; such a path is read without the
        leading ``../`` when it does not exist as written.

        Raises:
            UserError: it does not exist.
        """
        tried = [self.root / entry]
        shorter = entry = entry.replace("\\", "/")  # as Windows tools write them
        while shorter.startswith("../"):
            shorter = shorter[3:]
        tried += [self.root / spelling for spelling in (entry, shorter) if self.root / spelling not in tried]
        for candidate in tried:
            if candidate.exists():
                if candidate == self.root / shorter and shorter != entry:
                    log.add(found.DROPPED_DOTS, self.path, 1, [f"{split}: {entry}"])
                return Path(os.path.normpath(candidate))
        raise UserError(
            f"{self.path}: {split}: {entry!r} does not exist (tried {' and '.join(map(str, tried))}); "
            f"entries are relative to {self.root}"
        )


def load_data_yaml(path: Path, log: FindingLog) -> DataYaml:
    """Reads a data YAML.

    Keys: ``train``, ``val``, ``test`` (a folder, a list file, a COCO JSON, or a list of folders and list files),
    ``path`` (a folder that the others are relative to, itself relative to the file), ``names`` (list, or mapping from
    0 on), ``nc``, and for COCO JSONs ``images`` or ``train_images``, ``val_images``, ``test_images``.

    Raises:
        UserError: names what is wrong.
    """
    path = Path(os.path.normpath(path.absolute()))
    content = _parse(path)
    for spelling, key in _SPELLINGS.items():
        if spelling in content and key not in content:
            raise UserError(f"{path}: {spelling!r} is no key of a data YAML; {key!r} is")
    entries = {split: _texts(path, split, content[split]) for split in SPLITS if content.get(split)}
    if not entries:
        raise UserError(f"{path} is no data YAML: none of {', '.join(SPLITS)} is in it")
    image_folders = {}
    for split in SPLITS:
        key = f"{split}_images" if f"{split}_images" in content else "images"
        if content.get(key):
            (image_folders[split],) = _texts(path, key, content[key])[:1]
    return DataYaml(
        path=path,
        root=_root(path, content, log),
        entries=entries,
        image_folders=image_folders,
        classes=_classes(path, content),
    )


def _parse(path: Path) -> dict[str, Any]:
    try:
        # The base loader keeps every scalar as the text that was written: a class called "no" or "007" stays so.
        content = yaml.load(path.read_bytes().decode("utf-8-sig"), Loader=yaml.BaseLoader)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}); a data YAML is needed") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is no data YAML: keys such as train, val and names are needed")
    return content


def _texts(path: Path, key: str, value: Any) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise UserError(f"{path}: {key}: {value!r:.80} is neither a path nor a list of paths")
    return texts


def _root(path: Path, content: dict[str, Any], log: FindingLog) -> Path:
    if not content.get("path"):
        return path.parent
    (text,) = _texts(path, "path", content["path"])[:1]
    root = path.parent / text
    if root.is_dir():
        return root
    log.add(found.MISSING_ROOT, path, 1, [text])
    return path.parent


def _classes(path: Path, content: dict[str, Any]) -> Classes | None:
    if "names" not in content:
        return None
    names = content["names"]
    if isinstance(names, dict):
        numbers = {str(number) for number in range(len(names))}
        if set(names) != numbers:
            raise UserError(
                f"{path}: names has the keys {', '.join(map(str, names))}; all of 0 to {len(names) - 1} are needed"
            )
        names = [names[str(number)] for number in range(len(names))]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise UserError(
            f"{path}: names is {content['names']!r:.80}; a list of class names or a mapping such as "
            '"0: cat" (with a space after the colon) is needed'
        )
    if "nc" in content and content["nc"] != str(len(names)):
        raise UserError(f"{path}: nc is {content['nc']}, but names has {len(names)} classes; they must agree")
    if len(set(names)) < len(names):
        again = next(name for place, name in enumerate(names) if name in names[:place])
        raise UserError(f"{path}: names has {again!r} more than once; every class needs a name of its own")
    return Classes(names=tuple(names), ids=tuple(range(len(names))))
