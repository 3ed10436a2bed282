"""Which folders belong to a data set, so that nothing is written into them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from yolo_accum.config.schema import DataConfig
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.formats.label_files import label_folder


def own_folders(config: DataConfig, named: Iterable[Path], splits: Iterable[DetectionIndex]) -> tuple[Path, ...]:
    """The folders of descriptions, pictures and labels, without symbolic links, sorted; all below them belongs to it.

    Args:
        config: --data, --val-data, --images and --val-images.
        named: folders that the descriptions name.
        splits: as they were read.
    """
    given = [Path(place) for place in (config.data, config.val_data, config.images, config.val_images) if place]
    folders = {place if place.is_dir() else place.parent for place in given} | set(named)
    for index in splits:
        of_pictures = {os.path.dirname(path) for path in index.image_paths}  # noqa: PTH120
        folders |= {index.source.parent, *map(Path, of_pictures), *map(Path, map(label_folder, of_pictures))}
    return tuple(sorted({folder.resolve() for folder in folders}))
