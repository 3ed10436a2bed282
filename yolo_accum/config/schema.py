"""Every option, declared once: name, type, default, meaning, range.

Frozen dataclasses; the names are flat on the command line (``--batch``, ``--warmup-epochs``). What is derived from
them (the window length, the decay in force ...) lives in the plan and never comes back here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from yolo_accum.config.byte_size import byte_size
from yolo_accum.config.checks import check, check_at_least, check_range

LOGGERS = ("tensorboard", "wandb", "mlflow")
"""What ``--log`` knows."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which pictures, at which size."""

    data: str | None = None
    """Data set: a data YAML, the COCO JSON of the training split (for `val`, of the split to evaluate), or a folder
    that a tool exported; docs/data.md has all forms. Without it the embedded default set is used."""
    val_data: str | None = None
    """Validation split, when --data is a COCO JSON or another single split."""
    images: str | None = None
    """Folder of the pictures, when they are neither beside the COCO JSON nor in its images/ folder."""
    val_images: str | None = None
    """Folder of the validation pictures; --images when not given."""
    imgsz: int = 640
    """Side of the square network input in pixels, a multiple of 32; val and predict take that of the weights where it
    is not given."""
    workers: int | None = None
    """Loader processes of a replica; by default one for each of its cores, at most 8."""
    cache: Literal["none", "ram", "disk"] = "none"
    """Keep the decoded training pictures, one copy for all processes of the machine: in memory for this run, or in a
    file for later runs too."""
    cache_dir: str | None = None
    """Folder of the file of --cache disk; by default in the user's cache folder."""
    cache_limit: str | None = None
    """The most that --cache may take, such as 20GiB; by default 80 % of the memory or disk that is free."""
    classes: tuple[str, ...] = ()
    """Train on these classes alone: their ids in the data set or their names, for example 0,2. Pictures of others stay,
    as background."""
    single_cls: bool = False
    """Take all objects for one class, called object, with the id 0."""
    fraction: float = 1.0
    """Share of the training pictures that are used, drawn the same for every --seed; above 0, up to 1."""
    balance: float = 0.0
    """Show pictures of rare classes more often: a class on a share f of the pictures, below this value, comes up
    sqrt(balance / f) times as often; 0 shows each picture once an epoch; 0 to 1."""

    def __post_init__(self) -> None:
        check(
            "imgsz",
            self.imgsz,
            32 <= self.imgsz <= 16384 and self.imgsz % 32 == 0,
            "a multiple of 32 from 32 to 16384 is needed",
        )
        if self.workers is not None:
            check_range(self, 0, 256, "workers")
        if self.cache_limit is not None:
            byte_size(str(self.cache_limit), "--cache-limit")
        if self.cache_dir is not None:
            is_path = bool(self.cache_dir.strip()) and "\0" not in self.cache_dir
            check("cache_dir", repr(self.cache_dir), is_path, "the path of a folder is needed")
        check("fraction", self.fraction, 0 < self.fraction <= 1, "a number above 0, up to 1, is needed")
        check_range(self, 0, 1, "balance")


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """How training pictures are varied. Every draw is a function of seed, epoch and position in the order."""

    mosaic: float = 1.0
    """Probability of a mosaic of four pictures."""
    mixup: float = 0.0
    """Probability of blending a second picture into a mosaic."""
    degrees: float = 0.0
    """Rotation, drawn from -degrees..degrees."""
    translate: float = 0.1
    """Shift, drawn from -translate..translate as a share of the input side."""
    scale: float = 0.5
    """Zoom, drawn from 1-scale..1+scale."""
    shear: float = 0.0
    """Shear angle, drawn from -shear..shear degrees."""
    fliplr: float = 0.5
    """Probability of a left-right flip."""
    flipud: float = 0.0
    """Probability of an up-down flip."""
    hsv_h: float = 0.015
    """Hue change, share of the colour circle."""
    hsv_s: float = 0.7
    """Saturation change, as a share."""
    hsv_v: float = 0.4
    """Brightness change, as a share."""
    photometric: float = 0.0
    """Probability of each of blur, noise, grey, local contrast and JPEG artefacts (albumentations)."""
    cutout: float = 0.0
    """Probability of hiding one to four rectangles of the picture in grey."""
    copy_paste: float = 0.0
    """Probability of pasting one to three objects of another picture."""
    augmentations: str | None = None
    """Augmentations of your own, applied last: a YAML file of albumentations, module:NAME or path/to/file.py:NAME
    (docs/augmentation.md)."""
    multi_scale: float = 0.0
    """Draw the side of the network input anew for each window, in multiples of 32 from 1-multi_scale to 1+multi_scale
    times --imgsz."""
    close_mosaic: int = 10
    """Number of last epochs without mosaic, mixup and copy-paste; at most half of the epochs."""
    min_visible: float = 0.1
    """A box is kept when at least this share of its area is left inside the picture."""
    min_box_px: float = 2.0
    """A box is kept when both sides, clipped, are at least this long in input pixels, or as long as unaugmented."""

    def __post_init__(self) -> None:
        check_range(self, 0, 1, "mosaic", "mixup", "fliplr", "flipud", "hsv_s", "hsv_v", "min_visible")
        check_range(self, 0, 1, "photometric", "cutout", "copy_paste")
        check_range(self, 0, 0.9, "multi_scale")
        check_range(self, 0, 0.5, "hsv_h")
        check_range(self, 0, 0.99, "scale", "translate")
        check_range(self, 0, 180, "degrees")
        check_range(self, 0, 60, "shear")
        check_at_least(self, 0, "close_mosaic", "min_box_px")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Which network, from which weights."""

    model: str | None = None
    """Network: yolox_nano, yolox_tiny, yolox_s, yolox_m, yolox_l or yolox_x.
    By default that of --weights, else yolox_nano."""
    weights: str | None = None
    """Weights to start from: .pth, .pt or .safetensors."""
    freeze: tuple[str, ...] = ()
    """Parts that are not trained: names or prefixes of modules, for example backbone.backbone or head.stems."""
    checkpoint_activations: bool = False
    """Compute blocks again in the backward pass instead of keeping their activations: less than half of the memory,
    about a third more time, the same gradients."""


@dataclass(frozen=True, kw_only=True)
class NormConfig:
    """How activations are normalised. docs/norms.md compares the kinds."""

    norm: Literal["bn", "syncbn", "cmbn", "wrn", "gn", "frozen"] = "bn"
    """Statistics: bn over the micro-batch of one replica, syncbn of all replicas; cmbn and wrn over the window so far;
    gn of each image, in groups; frozen keeps the running statistics of --weights."""
    bn_momentum_correction: bool = True
    """For bn and syncbn: spread the momentum of the running statistics over the window's micro-batches."""
    freeze_affine: bool = False
    """For frozen: do not train scale and shift of the norms either."""
    calibrate_bn: int = 0
    """Before training: measure the norms' inputs on so many training images and re-express --weights with these
    statistics, outputs in evaluation mode unchanged; for weights whose norms were folded away. 64 are enough."""
    precise_bn: int = 0
    """Before the final evaluation: measure the running statistics of the best weights anew on so many training
    images."""

    def __post_init__(self) -> None:
        check_at_least(self, 0, "calibrate_bn", "precise_bn")
        if self.norm == "gn" and self.calibrate_bn:
            check("calibrate_bn", self.calibrate_bn, False, "--norm gn has no running statistics")
        if self.norm in ("gn", "frozen") and self.precise_bn:
            none = "has no running statistics" if self.norm == "gn" else "keeps its running statistics"
            check("precise_bn", self.precise_bn, False, f"--norm {self.norm} {none}")
        if self.norm != "frozen" and self.freeze_affine:
            check("freeze_affine", "true", False, "this belongs to --norm frozen; --freeze freezes parts of the model")


@dataclass(frozen=True, kw_only=True)
class AccumulationConfig:
    """How the images of an update are cut into micro-batches."""

    batch: int | Literal["auto"] = 8
    """Images of one micro-batch over all replicas; auto: the most that --memory holds and --nbs divides into."""
    nbs: int = 64
    """Nominal batch size: images per update that the learning rate is meant for."""
    ramp: bool = True
    """Let the window grow from one micro-batch to its full length during warm-up."""
    tail: Literal["step", "carry", "drop"] = "step"
    """Open window at the end of an epoch: update with what it holds, carry it into the next epoch, or drop it."""
    window_batch: int | None = None
    """Plan the windows as for micro-batches of so many images, then cut them into those of --batch: with the same
    value, runs have the same windows whatever their --batch, also while these grow. By default --batch itself."""
    memory: str | None = None
    """Memory that a replica may fill, such as 8GiB or 800MiB; auto: what its device has free. For --batch auto, and
    for `plan`, which then shows what fits."""

    def __post_init__(self) -> None:
        if self.batch != "auto":
            check("batch", self.batch, self.batch >= 1, "at least one image a micro-batch is needed")
            check_range(self, 1, 1_000_000, "batch")
        if self.window_batch is not None:
            check_range(self, 1, 1_000_000, "window_batch")
        if self.memory not in (None, "auto"):
            byte_size(str(self.memory), "--memory")
        check("nbs", self.nbs, self.nbs >= 1, "a nominal batch size of at least 1 is needed")
        check_range(self, 1, 1_000_000_000, "nbs")

    @property
    def micro_batch(self) -> int:
        """``batch`` as the number that it is once auto has been resolved."""
        assert self.batch != "auto", "--batch auto is resolved before a run is built"
        return self.batch


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """How the weights move."""

    epochs: int = 100
    """Passes over the training images."""
    optimizer: Literal["auto", "sgd", "adamw", "adam"] = "auto"
    """auto: adamw for short runs (under 10,000 updates), sgd with nesterov momentum for longer ones."""
    lr0: float | None = None
    """Peak learning rate per nominal batch; by default 0.01 for sgd and 0.002 for adamw and adam."""
    lrf: float = 0.05
    """Learning rate at the end, as a share of lr0."""
    schedule: Literal["cosine", "linear"] = "cosine"
    """Course of the learning rate after warm-up."""
    momentum: float = 0.9
    """Momentum of sgd, beta1 of adamw and adam."""
    weight_decay: float = 0.0005
    """Decay of the weights of convolutions and linear layers at the nominal batch size; norms and biases have none."""
    warmup_epochs: float = 3.0
    """Length of the warm-up of learning rate, momentum and window; at most epochs - 1."""
    warmup_lr: float = 0.1
    """Learning rate at the start of warm-up, as a share of lr0."""
    warmup_momentum: float = 0.8
    """Momentum at the start of warm-up."""
    max_grad_norm: float = 10.0
    """Gradients of an update are clipped to this global L2 norm; 0 switches clipping off."""
    ema_decay: float = 0.9998
    """Final decay of the averaged weights, per applied update; 0 switches averaging off."""
    ema_tau: float = 2000.0
    """Time constant of the growth of the decay, in applied updates: decay * (1 - exp(-updates / tau))."""
    max_skipped: int = 20
    """Number of updates in a row that may be refused for a non-finite gradient before the run ends with an error."""

    def __post_init__(self) -> None:
        check_range(self, 1, 1_000_000, "epochs")
        check_at_least(self, 1, "max_skipped")
        if self.lr0 is not None:
            check("lr0", self.lr0, self.lr0 > 0, "a positive number is needed")
        check_range(self, 0, 1, "lrf", "warmup_lr", "weight_decay")
        check_range(self, 0, 0.9999, "momentum", "warmup_momentum")
        check("ema_decay", self.ema_decay, 0 <= self.ema_decay < 1, "a number from 0 to below 1 is needed")
        check_at_least(self, 0, "warmup_epochs", "max_grad_norm")
        check("ema_tau", self.ema_tau, self.ema_tau > 0, "a positive number is needed")


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """Weights of the loss terms."""

    box_gain: float = 5.0
    """Weight of the IoU term."""
    obj_gain: float = 1.0
    """Weight of the objectness term."""
    cls_gain: float = 1.0
    """Weight of the class term."""
    l1_gain: float = 1.0
    """Weight of the L1 term on raw box values, used after mosaic has closed; 0 switches it off."""

    def __post_init__(self) -> None:
        check_at_least(self, 0, "box_gain", "obj_gain", "cls_gain", "l1_gain")


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """How detections are made and measured."""

    conf: float = 0.01
    """Lowest score of a detection."""
    iou: float = 0.65
    """Boxes of one class that overlap a better one by more than this IoU are suppressed."""
    max_det: int = 100
    """Detections kept an image, and counted in AP."""
    evaluator: Literal["hotcoco", "pycocotools"] = "hotcoco"
    """Library that computes the COCO numbers; both give the same."""
    val_batch: int | None = None
    """Images of one evaluation batch; by default that of training, at most 32."""
    rect: bool = False
    """Put pictures of like shape into batches, whose inputs then need less grey than a square; faster on pictures that
    are far from square, AP may change by a few thousandths."""

    def __post_init__(self) -> None:
        check_range(self, 0, 1, "conf", "iou")
        check_at_least(self, 1, "max_det")
        if self.val_batch is not None:
            check_at_least(self, 1, "val_batch")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Where and how a run is carried out."""

    device: str = "auto"
    """auto, cpu, cuda, or the number of a GPU. A list such as 0,1 (or cpu,cpu) trains on a replica each."""
    amp: Literal["auto", "fp16", "bf16", "off"] = "auto"
    """Mixed precision. auto: fp16 with a gradient scaler on CUDA; on a CPU bf16 if a short measurement finds it
    faster."""
    channels_last: bool | None = None
    """Memory format of the images and weights; by default wherever it is known to pay."""
    threads: int | None = None
    """Threads of torch on the CPU in each replica; by default all cores, shared by the replicas of a machine."""
    seed: int = 0
    """Seed of the order of images, of every augmentation and of new weights."""
    patience: int = 0
    """End the run after this number of epochs without a better AP; 0 never does."""
    val_every: int = 1
    """Evaluate every so many epochs, and after the last one."""
    save_minutes: float = 10.0
    """Save a checkpoint at the next window end when the last one is older than this, besides one an epoch."""
    project: str = "runs/train"
    """Folder of the run folders."""
    name: str = "exp"
    """Name of the run folder; a number is added when it exists. Nothing is ever overwritten."""
    plots: bool = True
    """Draw the pictures of the run folder, and make its page."""
    save_gradients: str | None = None
    """Numbers of updates, from 1 and separated by commas, whose gradient before clipping is kept in the run folder."""
    log: tuple[str, ...] = ()
    """Also record the run, in its folder, for tensorboard, wandb or mlflow, or several of them: tensorboard,mlflow."""
    callbacks: tuple[str, ...] = ()
    """Callbacks of your own, module:NAME or path/to/file.py:NAME each (docs/callbacks.md)."""

    def __post_init__(self) -> None:
        for name in self.log:
            check("log", name, name in LOGGERS, f"some of {', '.join(LOGGERS)} are needed, separated by commas")
        for number in (self.save_gradients or "1").split(","):
            ok = number.strip().isdecimal() and int(number) > 0
            check("save_gradients", self.save_gradients, ok, "whole numbers of at least 1 are needed, with commas")
        check_range(self, 0, 2**63 - 1, "seed")
        check_at_least(self, 0, "patience", "save_minutes")
        check_at_least(self, 1, "val_every")
        if self.threads is not None:
            check_range(self, 1, 1024, "threads")
        is_plain = bool(self.name.strip()) and self.name not in (".", "..") and not set(self.name) & set("/\\\0")
        check(
            "name", repr(self.name), is_plain, "the name of a folder is needed, without / or \\; --project says where"
        )
        is_path = bool(self.project.strip()) and "\0" not in self.project
        check("project", repr(self.project), is_path, "the path of a folder is needed")

    @property
    def gradient_updates(self) -> tuple[int, ...]:
        """The numbers in ``save_gradients``."""
        return tuple(int(number) for number in self.save_gradients.split(",")) if self.save_gradients else ()


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """All options of a training run."""

    data: DataConfig
    augment: AugmentConfig
    model: ModelConfig
    norm: NormConfig
    accumulation: AccumulationConfig
    optim: OptimConfig
    loss: LossConfig
    eval: EvalConfig
    run: RunConfig


@dataclass(frozen=True, kw_only=True)
class StartConfig:
    """Where a training starts from."""

    recipe: str | None = None
    """YAML file with options, or the name of one under cfg/train; the command line goes before it."""
    resume: str | None = None
    """Run folder to go on with, at its last saved update."""


@dataclass(frozen=True, kw_only=True)
class OutputConfig:
    """What is printed."""

    json: bool = False
    """Print the result as one JSON object on standard output; messages go to standard error."""
    debug: bool = False
    """Show the traceback of an error."""
