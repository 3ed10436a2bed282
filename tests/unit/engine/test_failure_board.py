"""The thread that looks for failures of other replicas."""

from __future__ import annotations

import torch.distributed as dist

from yolo_accum.engine.distributed import Replicas, _FailureBoard


def test_the_thread_is_over_when_the_board_is_closed() -> None:
    """One that still asked the store while the interpreter ends aborted the process, once in some hundred runs."""
    store = dist.TCPStore("localhost", 0, 1, is_master=True)
    board = _FailureBoard(dist.PrefixStore("test", store), Replicas())
    assert board._watcher.is_alive()
    board.close()
    assert not board._watcher.is_alive()
