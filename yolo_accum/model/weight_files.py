"""Weight files: found, opened and read as plain content. Nothing is ever downloaded or unpickled."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from yolo_accum.config.schema import NormConfig
from yolo_accum.errors import UserError
from yolo_accum.model.sizes import model_sizes

NORMS: tuple[str, ...] = get_args(get_type_hints(NormConfig)["norm"])
SUFFIXES = (".pth", ".pt", ".safetensors")
# what `best_ap` and the like are in checkpoints of trainers that store numpy numbers: plain data, no code
_SCALAR = np.float64(0).__reduce__()[0]
_NUMPY_SCALARS: list[Any] = [
    (_SCALAR, "numpy.core.multiarray.scalar"),
    (_SCALAR, "numpy._core.multiarray.scalar"),
    np.dtype,
    *(type(np.dtype(code)) for code in "?ilqfd"),
]


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a file of ours says of its weights; nothing known by default."""

    class_names: tuple[str, ...] = ()
    class_ids: tuple[int | str, ...] = ()
    norm: str = "bn"
    trained_size_px: int | None = None


def read_file(path: str | Path) -> tuple[Path, Mapping[str, Any]]:
    """What a weights file holds.

    Args:
        path: ``.pth``, ``.pt`` or ``.safetensors``.
    Returns:
        the file, and its content; that of a safetensors file is its metadata and, under ``model``, its tensors.
    Raises:
        UserError: no such file, a web address, damaged, or pickled objects.
    """
    file = _existing_file(path)
    return file, _read_safetensors(file) if file.suffix == ".safetensors" else _read_torch(file)


def read_description(file: Path, content: Mapping[str, Any]) -> Description:
    """What stands beside the weights in a file of ours.

    Args:
        file: for messages.
        content: what `read_file` gave.
    Raises:
        UserError: an entry is of another kind than this program writes.
    """
    config = _entry(file, content, "config", {}, "a mapping of options", lambda value: isinstance(value, Mapping))
    return Description(
        class_names=tuple(_entry(file, content, "class_names", (), "a list of names", _is_list_of(str))),
        class_ids=tuple(_entry(file, content, "class_ids", (), "a list of numbers or texts", _is_list_of(int, str))),
        norm=_entry(file, content, "norm", "bn", f"one of {', '.join(NORMS)}", lambda value: value in NORMS),
        trained_size_px=_entry(file, config, "imgsz", None, "a multiple of 32", _is_size),
    )


def _existing_file(path: str | Path) -> Path:
    text = str(path)
    official = ", ".join(f"{name}.pth" for name in model_sizes())
    where = f"official files are {official} in release 0.1.1rc0 of github.com/Megvii-BaseDetection/YOLOX"
    if re.match(r"\w+:/", text):
        raise UserError(f"--weights {text}: nothing is downloaded; fetch the file yourself and give its path ({where})")
    file = Path(text).expanduser()
    if file.is_dir():
        raise UserError(f"--weights {text}: is a folder; a file is needed, for example {file / 'weights' / 'best.pt'}")
    if not file.is_file():
        raise UserError(f"--weights {text}: no such file, and nothing is downloaded ({where})")
    if file.suffix not in SUFFIXES:
        raise UserError(f"--weights {text}: {', '.join(SUFFIXES)} files can be read, not {file.suffix or 'this one'}")
    return file


def _read_torch(file: Path) -> Mapping[str, Any]:
    try:
        with torch.serialization.safe_globals(_NUMPY_SCALARS):
            content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        pickled = re.search(r"GLOBAL ([\w.]+)", str(error))
        if pickled is None:
            raise UserError(f"{file} is damaged or holds no weights; a torch state dict is needed") from error
        raise UserError(
            f"{file} holds pickled Python objects ({pickled[1]}), which are not loaded because they can run code; "
            "save the state dict alone, with torch.save(model.state_dict(), ...)"
        ) from error
    except Exception as error:  # torch raises a dozen kinds for files that are cut off or something else
        reason = "is a TorchScript archive" if "TorchScript" in str(error) else "is damaged or holds no weights"
        raise UserError(f"{file} {reason}; a torch state dict is needed") from error
    if not isinstance(content, Mapping):
        raise UserError(f"{file} holds a {type(content).__name__}; a torch state dict is needed")
    return content


def _read_safetensors(file: Path) -> dict[str, Any]:
    try:
        with safe_open(file, framework="pt") as tensors:
            state = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 (not a mapping)
            metadata = tensors.metadata() or {}
    except SafetensorError as error:
        raise UserError(f"{file} is damaged or no safetensors file ({error})") from error
    known = {key: metadata[key] for key in ("format", "norm") if key in metadata}
    content: dict[str, Any] = {**known, "model": state}
    if "class_names" in metadata:
        try:
            content["class_names"] = json.loads(metadata["class_names"])
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{file}: its class_names are {metadata['class_names']!r:.80}; a list of names as JSON is needed"
            ) from error
    return content


def _entry(
    file: Path, content: Mapping[str, Any], key: str, default: Any, needed: str, allows: Callable[[Any], bool]
) -> Any:
    if key not in content:
        return default
    if not allows(content[key]):
        raise UserError(f"{file}: its {key} is {content[key]!r:.80}; {needed} is needed")
    return content[key]


def _is_list_of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(type(item) in kinds for item in value)


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 32 and value % 32 == 0
