"""How many loader processes there are where nobody says."""

from __future__ import annotations

MAX_WORKERS = 8


def default_workers(num_cores: int) -> int:
    """Worker processes for a replica that may use ``num_cores`` cores: one each, at most 8.

    Workers and training share the cores without harm: when the network is the slower part, workers mostly wait.
    """
    return max(1, min(num_cores, MAX_WORKERS))
