"""Where the files lie that come with the package."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def cfg_folder() -> Path:
    """The folder with recipes (``train/``), model sizes (``model/``) and data set descriptions (``data/``).

    A wheel carries it inside the package; in a checkout, installed editable or not at all, it lies beside the
    package. The inside is looked at first: what lies beside an installed package belongs to somebody else.

    Raises:
        FileNotFoundError: neither is there, so the installation is broken.
    """
    for folder in (PACKAGE / "cfg", PACKAGE.parent / "cfg"):
        if (folder / "train").is_dir():
            return folder
    raise FileNotFoundError(
        2, "the cfg folder of yolo_accum is missing; install the package again", str(PACKAGE / "cfg")
    )
