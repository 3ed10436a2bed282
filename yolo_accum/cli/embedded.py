"""The embedded data set, which is used where no other is named."""

from __future__ import annotations

from pathlib import Path

from yolo_accum.config.paths import PACKAGE
from yolo_accum.data.synthetic import NUM_IMAGES, ensure_shapes
from yolo_accum.report.console import Console


def default_data_folder() -> Path:
    """Where the embedded data set lies: in the checkout, or below the working directory of an installed program."""
    checkout = PACKAGE.parent
    return (checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()) / "data" / "shapes"


def embedded_data(console: Console) -> Path:
    """The data YAML of the embedded set, which is drawn first where it is missing."""
    with console.progress("drawing the embedded data set", sum(NUM_IMAGES.values())) as progress:
        return ensure_shapes(default_data_folder(), lambda done, total: progress(done))
