"""Amounts of memory as people write them."""

from __future__ import annotations

import re

from yolo_accum.errors import UserError

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12} | {
    unit: 2**power
    for power, units in ((10, "kib k"), (20, "mib m"), (30, "gib g"), (40, "tib t"))
    for unit in units.split()
}
"""By unit in small letters; K, M, G and T alone are the binary ones."""


def byte_size(text: str, option: str) -> int:
    """Bytes of an amount such as 8GiB, 1.5 GB or 800MiB.

    Args:
        text: a positive number and a unit.
        option: where it stands, for the message.
    Raises:
        UserError: it is no such amount.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", text)
    size = int(float(found[1]) * _UNITS.get(found[2].lower(), 0)) if found else 0
    if size < 1:
        raise UserError(f"{option} {text}: auto, or an amount with its unit such as 8GiB or 800MiB, is needed")
    return size


def size_text(num_bytes: float) -> str:
    """For people: 1.23 GiB, 345 MiB, 12 KiB."""
    if num_bytes < 2**20:
        return f"{num_bytes / 2**10:.0f} KiB"
    return f"{num_bytes / 2**30:.2f} GiB" if num_bytes >= 2**30 else f"{num_bytes / 2**20:.0f} MiB"
