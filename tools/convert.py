"""The same as `yolo-accum convert`, also without an installation."""

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("yolo_accum") is None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from yolo_accum.cli.entry import main

if __name__ == "__main__":
    sys.exit(main(["convert", *sys.argv[1:]]))
