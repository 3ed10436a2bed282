"""`--cache`: where the decoded training pictures are kept, whether they fit there, and how they get there."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from yolo_accum.cli.worker_count import available_cores
from yolo_accum.config.byte_size import byte_size, size_text
from yolo_accum.config.paths import user_cache_folder
from yolo_accum.config.schema import DataConfig
from yolo_accum.contracts import DetectionIndex
from yolo_accum.data.picture_cache import CacheLayout, PictureCache, allocated_bytes, make_file, only_one
from yolo_accum.engine.distributed import Replicas
from yolo_accum.engine.free_memory import free_memory_bytes
from yolo_accum.errors import UserError
from yolo_accum.report.console import Console

DEFAULT_SHARE = 0.8
"""Of what is free, that a cache may take without ``--cache-limit``."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EFBIG)
"""What says that there is no room."""


@contextmanager
def cached_pictures(
    config: DataConfig, index: DetectionIndex, replicas: Replicas, console: Console
) -> Iterator[PictureCache | None]:
    """The filled cache that ``--cache`` asks for, for the time of the context; None without one.

    All replicas come here together; those of one machine share the cache.

    Raises:
        UserError: it does not fit, or cannot be made there.
    """
    if config.cache == "none":
        yield None
        return
    layout = CacheLayout(index, config.imgsz)
    make = _in_memory if config.cache == "ram" else _on_disk
    with make(config, layout, replicas, console) as cache:
        yield cache


@contextmanager
def _in_memory(config: DataConfig, layout: CacheLayout, replicas: Replicas, console: Console) -> Iterator[PictureCache]:
    """A file without a name: its memory is free as soon as no process has it open, however these ended."""
    if not hasattr(os, "memfd_create"):
        raise UserError("--cache ram needs Linux; --cache disk keeps the pictures in a file")
    is_maker = replicas.local_rank == 0
    descriptor = -1
    try:
        name = ""
        if is_maker:
            _require_room(config, layout, free_memory_bytes(torch.device("cpu")), "of memory are available", console)
            descriptor = os.memfd_create("yolo-accum-pictures", os.MFD_CLOEXEC)
            name = f"/proc/{os.getpid()}/fd/{descriptor}"
            _make(Path(name), layout, config)
        name = replicas.gather([name])[replicas.rank - replicas.local_rank]
        cache = PictureCache(Path(name), layout)
        if is_maker:
            _fill(cache, replicas, console)
        replicas.barrier()
        yield cache
    finally:
        if descriptor >= 0:
            os.close(descriptor)


@contextmanager
def _on_disk(config: DataConfig, layout: CacheLayout, replicas: Replicas, console: Console) -> Iterator[PictureCache]:
    """A file that stays for the next run; whoever comes first fills it, others of the machine wait."""
    folder = cache_folder(config)
    path = folder / layout.name()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock")
        with only_one(lock, lambda: console.on_message(f"waiting for another process that fills {path}")):
            known = allocated_bytes(path)
            free = shutil.disk_usage(folder).free + known
            _require_room(config, layout, free, f"are free at {folder}", console)
            _make(path, layout, config)
            cache = PictureCache(path, layout)
            _fill(cache, replicas, console)
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(f"--cache disk: {folder}: a folder is needed, and a file is in its place") from error
    except OSError as error:
        raise UserError(f"--cache disk: {error.filename or path}: {error.strerror or error}") from error
    yield cache


def cache_folder(config: DataConfig) -> Path:
    """Where pictures are kept on disk."""
    return Path(config.cache_dir).expanduser() if config.cache_dir else user_cache_folder() / "pictures"


def _require_room(config: DataConfig, layout: CacheLayout, free_bytes: int, where: str, console: Console) -> None:
    """Says how much the cache takes, and refuses what is more than may be used."""
    limit = byte_size(config.cache_limit, "--cache-limit") if config.cache_limit else int(DEFAULT_SHARE * free_bytes)
    needed = size_text(layout.num_bytes)
    what = f"{len(layout.index)} pictures at {layout.size_px} px"
    if layout.num_bytes > min(limit, free_bytes):
        allowed = (
            f"--cache-limit {config.cache_limit} allows {size_text(limit)}"
            if config.cache_limit
            else f"{size_text(limit)} may be used, {DEFAULT_SHARE:.0%} of what is free; --cache-limit says otherwise"
        )
        other = "--cache disk needs a disk instead, and " if config.cache == "ram" else ""
        raise UserError(
            f"--cache {config.cache}: {what} need {needed}, and {size_text(free_bytes)} {where}: {allowed}. "
            f"{other}a smaller --imgsz or --fraction needs less"
        )
    console.on_message(f"--cache {config.cache}: {what} take {needed}; {size_text(free_bytes)} {where}")


def _make(path: Path, layout: CacheLayout, config: DataConfig) -> None:
    try:
        make_file(path, layout.num_bytes)
    except OSError as error:
        if error.errno not in _FULL:  # whatever lies there is not ours to remove
            raise UserError(f"--cache {config.cache}: {path}: cannot be made ({error.strerror})") from error
        if not path.is_relative_to("/proc"):
            with suppress(OSError):
                path.unlink()
        raise UserError(
            f"--cache {config.cache}: {path}: no room for {size_text(layout.num_bytes)} ({error.strerror})"
        ) from error


def _fill(cache: PictureCache, replicas: Replicas, console: Console) -> None:
    with console.progress("caching pictures", len(cache.layout.index)) as progress:
        cache.fill(available_cores(), progress)
