"""Whether the process that trains is still there: who it was, and when it last gave a sign of life."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STATUS_FILE = "status.json"
HEARTBEAT_S = 10.0
"""A running process touches its status file this often, whatever else it is busy with."""
SILENT_AFTER_S = 90.0
"""Where the process itself cannot be looked for, it counts as gone after such a silence."""


def this_process() -> dict[str, Any]:
    """What identifies this process: number, machine, and when it was born, since numbers are used again."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "born": _born(os.getpid())}


def is_alive(process: Mapping[str, Any]) -> bool | None:
    """Whether a process that `this_process` described exists; None where that cannot be told from here."""
    if process.get("host") != socket.gethostname() or not isinstance(process.get("pid"), int):
        return None
    if process.get("born") is not None and Path("/proc/self/stat").is_file():
        return _born(process["pid"]) == process["born"]
    if os.name != "posix":
        return None
    try:
        os.kill(process["pid"], 0)  # only asks
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return None  # a process with this number exists; whether it is the same one, its signs of life have to tell


def _born(pid: int) -> str | None:
    """When a process was started, as Linux knows it; None when it is dead, or on other systems."""
    try:
        # pid (name) state ppid ...; the name may hold blanks and brackets. Field 22 counts ticks since boot.
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (OSError, ValueError):
        return None
    return None if state in ("Z", "X") else f"{boot} {fields[18]}"
