"""Where the files lie that come with the package."""

from __future__ import annotations

import os
import sys
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


def user_cache_folder() -> Path:
    """Where this user keeps what can be made again; it need not exist. ``YOLO_ACCUM_CACHE`` names another folder."""
    if named := os.environ.get("YOLO_ACCUM_CACHE"):
        return Path(named).expanduser().absolute()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "yolo-accum"
