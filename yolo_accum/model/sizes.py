"""The sizes of the YOLOX family, one YAML file each under ``cfg/model``."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

import yaml

from yolo_accum.config.paths import cfg_folder
from yolo_accum.errors import UserError

STEM_CHANNELS = 64
"""Channels of the stem at width 1."""
BLOCKS = 3
"""Bottlenecks of a stage at depth 1; the two middle stages of the backbone have three times as many."""


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """One member of the family."""

    name: str
    depth: float
    """Multiplies the number of bottlenecks."""
    width: float
    """Multiplies the channels."""
    depthwise: bool
    """3x3 convolutions are depthwise, each followed by a 1x1 convolution."""

    @property
    def stem_channels(self) -> int:
        return int(self.width * STEM_CHANNELS)

    @property
    def num_blocks(self) -> int:
        """Bottlenecks of the shortest stage of the backbone."""
        return max(round(self.depth * BLOCKS), 1)


@cache
def model_sizes() -> dict[str, ModelSize]:
    """All sizes by name, the smallest first."""
    files = (cfg_folder() / "model").glob("*.yaml")
    sizes = [ModelSize(name=file.stem, **yaml.safe_load(file.read_text(encoding="utf-8"))) for file in files]
    return {size.name: size for size in sorted(sizes, key=lambda size: (size.width, size.depth))}


def model_size(name: str) -> ModelSize:
    """The size of that name.

    Raises:
        UserError: there is none; the message names the closest and all that there are.
    """
    sizes = model_sizes()
    if name in sizes:
        return sizes[name]
    closest = get_close_matches(name.lower(), sizes, n=1, cutoff=0.4)
    guess = f"did you mean {closest[0]}? " if closest else ""
    raise UserError(f"--model {name}: no such model; {guess}There are {', '.join(sizes)}")
