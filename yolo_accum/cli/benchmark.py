"""`benchmark`: measured claims about speed and memory, each a ratio of things taken side by side in one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from yolo_accum.cli.benchmarks.data import benchmark_data
from yolo_accum.cli.benchmarks.engine import benchmark_engine
from yolo_accum.cli.benchmarks.memory import benchmark_memory
from yolo_accum.config.options import closest
from yolo_accum.errors import UserError

KINDS = {
    "engine": benchmark_engine,
    "memory": benchmark_memory,
    "data": benchmark_data,
}
"""What can be measured."""

_USAGE = """usage: yolo-accum benchmark engine|memory [options of train]
       yolo-accum benchmark data [--data DATA] [--parts samples,index,workers,evaluation] [--rounds N]

engine   images/s of the training loop over a bare forward-loss-backward loop on preloaded tensors, alternating in one
         process with the same threads; and peak memory of the window against one micro-batch, each in a process of
         its own. --workers, --batch, --nbs, --imgsz, --model, --amp and --data say what is measured.
memory   peak memory and time of --batch images in one go with --checkpoint-activations over those without, memory in
         processes of their own, time alternating in one.
data     what a training picture costs over cv2.imread of the same picture, alternating in one process and thread, with
         --cache ram and from files; time and memory of reading a made-up COCO JSON of COCO's size, cold and kept; what
         loader processes hold of it; time and memory of an evaluation. benchmark data --help has its options."""


def run(argv: Sequence[str]) -> Mapping[str, Any] | int:
    """Measure; returns the figures."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_USAGE)
        return 0
    kind, *rest = argv
    if kind not in KINDS:
        raise UserError(f"benchmark {kind}: no such benchmark{closest(kind, KINDS)}; there are: {', '.join(KINDS)}")
    return KINDS[kind](rest)
