"""`python -m yolo_accum VERB ...`."""

import sys

from yolo_accum.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
