"""Where the pictures of a data set lie, for every format."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from yolo_accum.data import findings as found
from yolo_accum.data.findings import FindingLog
from yolo_accum.data.picture_size import PICTURE_SUFFIXES


def pictures_in_folder(folder: Path) -> list[str]:
    """Absolute paths of all pictures in a folder and its subfolders, sorted; symbolic links are followed once."""
    pictures = []
    seen: set[str] = set()
    for parent, folders, names in os.walk(folder.absolute(), followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:  # a link that leads back up would be followed for ever
            folders.clear()
            continue
        seen.add(real)
        # "._x.jpg" is what macOS writes beside x.jpg on foreign disks.
        pictures += [
            os.path.join(parent, name)  # noqa: PTH118
            for name in names
            if os.path.splitext(name)[1].lower() in PICTURE_SUFFIXES and not name.startswith("._")  # noqa: PTH122
        ]
    return sorted(pictures)


def locate_pictures(source: Path, names: Sequence[str], folders: Sequence[Path], log: FindingLog) -> list[str | None]:
    """The files that a description names; None for one that is not there, which is an error in ``log``.

    Exports write names for another place: with the folders of the machine that labelled, as an address, or with %20
    for a space. A file of the very name that is written always comes first; the others are tried after it.

    Args:
        source: the description, for messages.
        names: n, as written.
        folders: searched in this order.
        log: takes the findings.
    Returns:
        n absolute paths.
    """
    roots = [str(folder.absolute()) for folder in folders]
    paths = [_existing(roots, (name, name.replace("\\", "/"))) for name in names]
    lost = [place for place, path in enumerate(paths) if path is None]
    if lost:
        num_of_name = Counter(_plain_name(name) for name in names)
        for place in lost:
            paths[place] = _existing(roots, _other_spellings(names[place], num_of_name))
        respelled = [f"{names[place]} -> {paths[place]}" for place in lost if paths[place] is not None]
        log.add(found.RESPELLED_PICTURE, source, len(respelled), respelled)
    missing = [name for name, path in zip(names, paths, strict=True) if path is None]
    log.add(found.MISSING_PICTURE, source, len(missing), missing, note=f"searched in {' and '.join(roots)}")
    again = repeated(path for path in paths if path is not None)
    log.add(found.DUPLICATE_PICTURE, source, len(again), again)
    return paths


def _existing(roots: list[str], spellings: Iterable[str]) -> str | None:
    for spelling in spellings:
        for root in roots:
            candidate = os.path.normpath(os.path.join(root, spelling))  # noqa: PTH118  (a third of Path's time)
            if os.path.isfile(candidate):  # noqa: PTH113
                return candidate
    return None


def _other_spellings(name: str, num_of_name: Counter[str]) -> Iterator[str]:
    """What may be meant by a name that is no file; the name without folders only where one picture has it."""
    decoded = unquote(name.replace("\\", "/"))
    yield decoded
    plain = _plain_name(name)
    if num_of_name[plain] == 1:
        yield plain
        if "__" not in plain and len(plain) > 9 and plain[8] == "-" and _is_hex(plain[:8]):
            yield plain[9:]  # Label Studio puts eight digits before the names of uploaded files


def _plain_name(name: str) -> str:
    """The last part of a path or address, decoded, without what follows a question mark."""
    decoded = unquote(name.replace("\\", "/"))
    address, _, query = decoded.partition("?")
    if query.startswith("d="):  # Label Studio's address of a local file
        address = query[2:]
    return PurePosixPath(address).name


def _is_hex(text: str) -> bool:
    return all(character in "0123456789abcdef" for character in text)


def picture_ids(paths: Sequence[str]) -> list[int | str]:
    """Ids where a format has none: file names without suffix; where several pictures share one, with the folder, and
    the suffix if need be."""
    if not paths:
        return []
    root = os.path.commonpath([os.path.dirname(path) for path in paths])  # noqa: PTH120
    stems = [os.path.splitext(os.path.basename(path))[0] for path in paths]  # noqa: PTH119, PTH122
    num_stems = Counter(stems)
    shared = [Path(path).relative_to(root) for path, stem in zip(paths, stems, strict=True) if num_stems[stem] > 1]
    num_with_folder = Counter(file.with_suffix("") for file in shared)
    spelled = iter(file.with_suffix("") if num_with_folder[file.with_suffix("")] == 1 else file for file in shared)
    return [stem if num_stems[stem] == 1 else next(spelled).as_posix() for stem in stems]


def repeated(values: Iterable[Any]) -> list[Any]:
    """Every value that has come before."""
    seen: set[Any] = set()
    again = []
    for value in values:
        if value in seen:
            again.append(value)
        seen.add(value)
    return again
