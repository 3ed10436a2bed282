"""The command line of `benchmark data`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from yolo_accum.config.load import OptionParser, build
from yolo_accum.config.options import declared_options, selected, title
from yolo_accum.config.schema import DataConfig, OutputConfig
from yolo_accum.config.verb_schema import DataBenchmarkConfig


@dataclass(frozen=True, kw_only=True)
class DataBenchmarkArguments:
    """What `benchmark data` was asked for."""

    benchmark: DataBenchmarkConfig
    data: DataConfig
    """The pictures; without --data the embedded data set."""
    json: bool
    debug: bool


def parse_data_benchmark(argv: Sequence[str]) -> DataBenchmarkArguments:
    """The options of `benchmark data`.

    Raises:
        UserError: an option that does not exist, or a value that is not allowed.
    """
    given = _parser().read(argv)
    json, debug = given.pop("json", False), given.pop("debug", False)
    return DataBenchmarkArguments(
        benchmark=build(DataBenchmarkConfig, given), data=build(DataConfig, given), json=json, debug=debug
    )


@functools.cache
def _parser() -> OptionParser:
    names = {DataBenchmarkConfig: ("parts", "rounds", "index_images"), DataConfig: ("data", "images")}
    return OptionParser(
        "benchmark data",
        "Measure the speed of the data layer: training pictures, the index of a large data set, evaluation.",
        {**selected(names, {}), title(OutputConfig): declared_options(OutputConfig)},
    )
