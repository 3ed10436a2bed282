"""Replicas: the only module that knows torch.distributed. One process is one replica, also when it is alone."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.nn.parallel import DistributedDataParallel

from yolo_accum.config.paths import PACKAGE
from yolo_accum.errors import TrainingError, UserError

LONGEST_WAIT = timedelta(hours=3)
"""Until torch gives up a collective. Others wait that long while the first replica measures or saves; whoever fails
says so at once, so no failure waits for this."""
JOIN_WITHIN = timedelta(minutes=15)
"""Until all replicas must have started."""
POLL_S = 0.5
"""How often a replica looks whether another one has failed."""
GRACE_S = 5.0
"""A replica that still waits for a failed one so long after the failure is ended."""
SHUTDOWN_S = 120
"""What our own launcher gives the replicas to finish their window and save, once they are asked to stop."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """This process's place among the replicas."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Number on this node."""
    local_size: int = 1
    """Replicas of this node."""

    @property
    def is_first(self) -> bool:
        """Whether this replica writes the files and speaks."""
        return self.rank == 0

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model as it is called in training: its gradients are averaged over the replicas in the backward pass.

        The weights of the first replica are copied to the others here, once.
        """
        if self.size == 1:
            return model
        gradient_bytes = sum(item.numel() * item.element_size() for item in model.parameters() if item.requires_grad)
        with warnings.catch_warnings():
            # The successor of `broadcast_buffers` does not exist in all versions of torch that this runs on.
            warnings.filterwarnings("ignore", message=".*broadcast_buffers", category=FutureWarning)
            return DistributedDataParallel(
                model,
                device_ids=[device] if device.type == "cuda" else None,
                broadcast_buffers=False,
                gradient_as_bucket_view=True,
                # One bucket: a window ends with one exchange, and every replica adds up in the same order.
                bucket_cap_mb=gradient_bytes // 2**20 + 1,
            )

    def sync_context(self, wrapped: nn.Module, is_last: bool) -> AbstractContextManager[None]:
        """Around forward and backward of a micro-batch: gradients are exchanged on the window's last one only."""
        if isinstance(wrapped, DistributedDataParallel) and not is_last:
            return wrapped.no_sync()
        return nullcontext()

    def sum_(self, values: Tensor) -> None:
        """Add ``values`` up over the replicas, in place."""
        if self.size > 1:
            dist.all_reduce(values)

    def average_(self, tensors: Sequence[Tensor]) -> None:
        """Replace floating-point tensors by their mean over the replicas, in place.

        In float64, so that values which agree everywhere stay what they are.
        """
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.detach().double().flatten() for tensor in tensors])
        dist.all_reduce(flat)
        flat /= self.size
        for tensor, mean in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(mean.view_as(tensor))

    def decide(self, choose: Callable[[], T]) -> T:
        """What ``choose`` returns on the first replica, on all of them; the others wait and do not call it."""
        if self.size == 1:
            return choose()
        message = [choose() if self.is_first else None]
        dist.broadcast_object_list(message)
        return message[0]  # type: ignore[return-value]

    def gather(self, items: Sequence[T]) -> list[T]:
        """The items of all replicas, by rank, on all of them."""
        if self.size == 1:
            return list(items)
        parts: list[Sequence[T]] = [()] * self.size
        dist.all_gather_object(parts, items)
        return [item for part in parts for item in part]

    def barrier(self) -> None:
        """Wait for the others."""
        if self.size > 1:
            self.sum_(torch.zeros(1))


def replicas_in_environment() -> Replicas:
    """The place that torchrun gave this process, before it joins; alone when there is none.

    Raises:
        UserError: the environment is incomplete.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Replicas()
    missing = [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise UserError(f"WORLD_SIZE is {size} but {', '.join(missing)} is not set; start replicas with torchrun")
    return Replicas(
        rank=int(os.environ["RANK"]),
        size=size,
        local_rank=int(os.environ["LOCAL_RANK"]),
        local_size=int(os.environ.get("LOCAL_WORLD_SIZE", str(size))),
    )


@contextlib.contextmanager
def join_replicas(exit_code: Callable[[BaseException], int]) -> Iterator[Replicas]:
    """Join the group that torchrun describes, for the time of the context; alone when there is none.

    When one replica fails, its error goes on there and is told there; on all others the context ends with
    ``SystemExit`` and the same exit code, so that they end quietly, also while they wait for the failed one.

    Args:
        exit_code: of an error.
    Raises:
        UserError: the environment is incomplete.
        TrainingError: another replica has gone without a word.
    """
    replicas = replicas_in_environment()
    if replicas.size == 1:
        yield replicas
        return
    store, _, _ = next(dist.rendezvous("env://", timeout=JOIN_WITHIN))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    dist.init_process_group(backend, store=store, rank=replicas.rank, world_size=replicas.size, timeout=LONGEST_WAIT)
    board = _FailureBoard(dist.PrefixStore("yolo-accum", store), replicas)
    try:
        yield replicas
        replicas.barrier()  # a replica that has ended could not take over the exit code of one that fails later
    except BaseException as error:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher's haste must not change the exit code now
        elsewhere = board.post(exit_code(error))
        if elsewhere is not None:
            raise SystemExit(elsewhere) from error
        if _is_lost_connection(error):
            raise TrainingError(
                "another replica has gone without a word (killed, short of memory, or its machine is unreachable); "
                f"the last checkpoint is untouched ({str(error).splitlines()[0]})"
            ) from error
        raise
    finally:
        board.close()
        dist.destroy_process_group()


def _is_lost_connection(error: BaseException) -> bool:
    """Whether a collective failed because a partner is not there any more; gloo says so by a plain RuntimeError."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


class _FailureBoard:
    """Where the first replica that fails leaves its exit code, and the thread that looks there.

    Args:
        store: shared by all replicas.
        replicas: this process's place among them.
    """

    def __init__(self, store: dist.Store, replicas: Replicas) -> None:
        self._store = store
        self._heard = [f"heard by {rank}" for rank in range(replicas.size)]
        self._rank = replicas.rank
        self._closed = threading.Event()
        # A store answers one caller at a time: the thread has a connection of its own.
        self._watcher = threading.Thread(target=self._watch, args=(store.clone(),), daemon=True)
        self._watcher.start()

    def post(self, code: int) -> int | None:
        """Leave an exit code; nothing that is left later concerns this process.

        Returns:
            that of an earlier failure elsewhere, or None when this one is the first.
        """
        self.close()
        try:
            is_first = self._store.add("failures", 1) == 1
            if is_first:
                self._store.set("code", str(code))
            earlier = self._hear(self._store)
            deadline_s = time.monotonic() + GRACE_S
            # Partners that wait for this process would mistake its end for a failure of their own.
            while is_first and not self._store.check(self._heard) and time.monotonic() < deadline_s:
                time.sleep(POLL_S / 5)
        except (dist.DistError, RuntimeError):  # the store has gone with its process
            return None
        return None if is_first else earlier

    def close(self) -> None:
        """No failure concerns this process any more."""
        self._closed.set()
        # A thread that asks the store while the interpreter ends would abort the process.
        self._watcher.join(GRACE_S)

    def _watch(self, store: dist.Store) -> None:
        while not self._closed.wait(POLL_S):
            try:
                if not store.check(["code"]):
                    continue
                code = self._hear(store)
            except (dist.DistError, RuntimeError):
                code = 3
            if not self._closed.wait(GRACE_S):  # the main thread hangs in a collective
                os._exit(code)
            return

    def _hear(self, store: dist.Store) -> int:
        """The exit code that was left first, and a note that this replica knows it."""
        code = int(store.get("code"))
        store.set(self._heard[self._rank], "")
        return code


def launch_replicas(num_replicas: int, words: Sequence[str], failed: int) -> int:
    """Run ``python -m yolo_accum WORDS`` as replicas on this node, through torch's own launcher.

    SIGINT and SIGTERM are passed on to the replicas, which get time to finish their window and to save.

    Args:
        num_replicas: processes.
        words: of the command line.
        failed: exit code when a replica was ended by a signal of the system, which has no code of its own.
    Returns:
        the exit code of the replicas.
    """
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # replicas tell what goes wrong
    # The replicas import the same package, installed or not.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]))
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(SHUTDOWN_S))
    with tempfile.TemporaryDirectory(prefix="yolo-accum-") as folder:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=num_replicas,
            run_id="yolo-accum",
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            local_addr="localhost",
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=folder),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "yolo_accum", *words)
        except ChildFailedError as error:
            rank, failure = error.get_first_failure()
            if failure.exitcode < 0:
                name = signal.Signals(-failure.exitcode).name
                print(f"error: replica {rank + 1} of {num_replicas} was ended by {name}", file=sys.stderr)
            return failure.exitcode if failure.exitcode > 0 else failed
        except SignalException as error:
            return 128 + error.sigval
    return 0
