"""Run a folder of faulty data sets, each with a case.json that says what must happen."""

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("yolo_accum") is None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from yolo_accum.cli.run_cases import main

if __name__ == "__main__":
    sys.exit(main())
