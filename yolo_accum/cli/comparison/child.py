"""A verb in a process of its own, below a comparison: ``python -m yolo_accum.cli.comparison.child PARENT VERB ...``.

When the comparison is killed, nobody would end its runs, and they would go on writing where the next start wants to go
on. So a run looks whether its parent is still there, and asks itself to stop when it is not.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from yolo_accum.cli.main import main

LOOK_EVERY_S = 0.5


def follow(parent: int) -> None:
    """Until the parent is gone; then let this process end."""
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGTERM)  # a training saves its state at the end of the window


if __name__ == "__main__":
    threading.Thread(target=follow, args=(int(sys.argv[1]),), daemon=True).start()
    sys.exit(main(sys.argv[2:]))
