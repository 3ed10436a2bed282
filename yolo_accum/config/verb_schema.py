"""The options of verbs other than `train`, declared as in `schema`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from yolo_accum.config.checks import check, check_at_least, check_range


@dataclass(frozen=True, kw_only=True)
class PlanConfig:
    """What is planned, and where the plan goes."""

    num_images: int | None = None
    """Training images of an epoch, to plan from numbers alone; without --data, a whole number as --images says the
    same."""
    replicas: int | None = None
    """Data-parallel processes; by default one for each device that --device lists."""
    all: bool = False
    """List every window instead of the first ones; --json always holds them all."""
    plot: str | None = None
    """PNG file to draw the plan into."""

    def __post_init__(self) -> None:
        if self.num_images is not None:
            check_at_least(self, 1, "num_images")
        if self.replicas is not None:
            check_at_least(self, 1, "replicas")


@dataclass(frozen=True, kw_only=True)
class PreviewConfig:
    """Which training pictures are shown."""

    epoch: int = 0
    """Epoch to show, from 0 on as in updates.csv."""
    position: int | None = None
    """Show one picture alone: its place in the order of the epoch, from 0 on."""
    batches: int = 2
    """Number of micro-batches that are shown, from the start of the epoch on."""

    def __post_init__(self) -> None:
        check_at_least(self, 0, "epoch")
        check_range(self, 1, 1000, "batches")
        if self.position is not None:
            check_at_least(self, 0, "position")


BENCHMARK_PARTS = ("samples", "index", "workers", "evaluation")
"""What ``benchmark data`` can measure."""


@dataclass(frozen=True, kw_only=True)
class DataBenchmarkConfig:
    """What `benchmark data` measures, and at which size."""

    parts: tuple[str, ...] = BENCHMARK_PARTS
    """Some of samples, index, workers and evaluation, separated by commas."""
    rounds: int = 7
    """Alternations of what is compared; ratios are medians over them."""
    index_images: int = 118_000
    """Pictures of the COCO JSON that is made up for `index` and `workers`, with 7.3 boxes each."""

    def __post_init__(self) -> None:
        for part in self.parts:
            check("parts", part, part in BENCHMARK_PARTS, f"some of {', '.join(BENCHMARK_PARTS)} are needed")
        check("parts", "", bool(self.parts), f"some of {', '.join(BENCHMARK_PARTS)} are needed")
        check_range(self, 1, 1000, "rounds")
        check_range(self, 10, 10_000_000, "index_images")


@dataclass(frozen=True, kw_only=True)
class CheckConfig:
    """How thoroughly a data set is looked at."""

    pictures: bool = True
    """Decode every picture; without it damage inside of pictures stays unseen, and duplicates too."""
    sample: int | None = None
    """Decode only so many pictures, spread evenly over the splits."""
    strict: bool = False
    """End with exit code 1 when there are warnings."""

    def __post_init__(self) -> None:
        if self.sample is not None:
            check_at_least(self, 1, "sample")


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Which page is made."""

    out: str | None = None
    """File to write; by default report.html in a run folder, compare.html in that of a comparison."""


@dataclass(frozen=True, kw_only=True)
class ConvertConfig:
    """Where a converted data set goes."""

    to: str | None = None
    """New folder for the COCO JSON of each split, and a data YAML that names them."""
    copy: bool = False
    """Copy the pictures into the new folder as well; by default the JSON names them where they are."""


@dataclass(frozen=True, kw_only=True)
class ScoreConfig:
    """What is measured in place of a detector."""

    predictions: str | None = None
    """COCO results file with detections to be measured; then neither --weights nor, for a COCO JSON, pictures are
    needed."""


@dataclass(frozen=True, kw_only=True)
class VerifyConfig:
    """Which gradients are compared."""

    micro_batches: str = "2,4,8,16"
    """Images of a micro-batch, separated by commas: the ways of cutting the nominal batch that are compared with it."""
    norms: str = "bn,cmbn,wrn,gn,frozen"
    """Norms to compare, separated by commas."""
    large_batch: Literal["auto", "plain", "checkpointed"] = "auto"
    """How the nominal batch is computed in one go: as it is, or with checkpointed activations; auto: as it is where it
    fits into the memory at hand."""

    def __post_init__(self) -> None:
        for number in self.micro_batches.split(","):
            check(
                "micro_batches",
                self.micro_batches,
                number.strip().isdecimal() and int(number) > 0,
                "whole numbers of at least 1 are needed, separated by commas",
            )
        for name in self.norm_names:
            ok = name in ("bn", "cmbn", "wrn", "gn", "frozen")
            check("norms", self.norms, ok, "some of bn, cmbn, wrn, gn, frozen are needed, separated by commas")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The micro-batches, each once, the smallest first."""
        return tuple(sorted({int(number) for number in self.micro_batches.split(",")}))

    @property
    def norm_names(self) -> tuple[str, ...]:
        """The norms, each once."""
        return tuple(dict.fromkeys(name.strip() for name in self.norms.split(",")))


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    """What is compared, and how often."""

    arms: str | None = None
    """Further ways to train: what differs from the other options, such as batch=4,norm=gn, one word an arm, or a YAML
    file with their options by name."""
    default_arms: bool = True
    """Compare accumulation, as the other options say, with the large batch: the images of a full window at once."""
    seeds: int = 1
    """Number of seeds, from --seed on, that every arm is trained with. Three or more tell a difference from chance."""
    reference: str | None = None
    """Arm that the others are compared with; by default the large batch, else the first."""
    margin: float = 0.01
    """Difference in AP that is none: two arms are equal when the confidence interval lies within it."""
    devices: str | None = None
    """Devices to spread the runs over, one at a time on each, separated by commas; by default they run one after
    another on --device."""
    verify: bool = True
    """Also show where differences come from: compare the gradients of one window on the start weights, as `verify`."""

    def __post_init__(self) -> None:
        check_range(self, 1, 1000, "seeds")
        check_range(self, 0, 1, "margin")
        if self.devices is not None:
            ok = all(name.strip() for name in self.devices.split(","))
            check("devices", repr(self.devices), ok, "names of devices are needed, separated by commas")
