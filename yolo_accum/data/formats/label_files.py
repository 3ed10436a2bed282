"""Where the label file of a picture lies in the YOLO layout."""

from __future__ import annotations

import os
from pathlib import Path

from yolo_accum.data.picture_size import PICTURE_SUFFIXES

_LABELS_FOR = {"images": "labels", "Images": "Labels", "IMAGES": "LABELS"}

_SUFFIXES = (".txt", ".TXT")
_NOT_LABELS = frozenset(("classes.txt", "labels.txt", "notes.txt", "readme.txt"))
"""What labelling tools leave among the labels, in lower case."""


class LabelFiles:
    """Finds label files; every folder is listed once, so a split costs no look-up a picture.

    It remembers folders: make a new one for every reading.
    """

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str]] = {}
        self._label_folders: dict[str, str] = {}

    @property
    def folders(self) -> list[str]:
        """Where labels were looked for."""
        return sorted(set(self._label_folders.values()))

    def of_picture(self, picture: str) -> str | None:
        """The label file of a picture given by its absolute path; None where there is none."""
        parent, name = os.path.split(picture)
        folder = self._label_folders.get(parent)
        if folder is None:
            folder = self._label_folders[parent] = label_folder(parent)
        stem = os.path.splitext(name)[0]  # noqa: PTH122
        label = next((stem + suffix for suffix in _SUFFIXES if stem + suffix in self._listing(folder)), None)
        return os.path.join(folder, label) if label is not None else None  # noqa: PTH118

    def without_picture(self) -> list[str]:
        """Label files in the folders looked at so far that have no picture, of whatever split."""
        orphans: list[str] = []
        for parent, folder in self._label_folders.items():
            if folder == parent:
                continue  # labels beside the pictures: other text files may well lie there too
            stems = {Path(name).stem for name in self._listing(parent) if Path(name).suffix.lower() in PICTURE_SUFFIXES}
            labels = [name for name in self._listing(folder) if name.endswith(_SUFFIXES)]
            orphans += [
                os.path.join(folder, name)  # noqa: PTH118
                for name in labels
                if os.path.splitext(name)[0] not in stems  # noqa: PTH122
                and name.lower() not in _NOT_LABELS
            ]
        return sorted(orphans)

    def _listing(self, folder: str) -> frozenset[str]:
        if folder not in self._names:
            try:
                self._names[folder] = frozenset(os.listdir(folder))  # noqa: PTH208
            except OSError:  # a listed picture may name a folder that is not there
                self._names[folder] = frozenset()
        return self._names[folder]


def label_folder(picture_folder: str) -> str:
    """The folder with ``images`` replaced where there is such a one, else the folder of the pictures itself."""
    parts = list(Path(picture_folder).parts)
    place = max((place for place, part in enumerate(parts) if part.lower() == "images"), default=None)
    if place is None:
        return picture_folder
    usual = _LABELS_FOR.get(parts[place], "labels")
    for name in dict.fromkeys((usual, *_LABELS_FOR.values())):
        folder = Path(*parts[:place], name, *parts[place + 1 :])
        if folder.is_dir():
            return str(folder)
    return picture_folder
