"""One sample at a time: training samples by key, evaluation samples by row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch.utils.data import Dataset

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.contracts import PAD_VALUE, DetectionIndex, Sample, SampleKey
from yolo_accum.data.colour import jitter_hsv
from yolo_accum.data.geometry import draw_warp
from yolo_accum.data.images import (
    ImageCache,
    UnreadableImageError,
    letterbox,
    read_image,
    read_working_image,
    require_size,
    to_channels_first,
)
from yolo_accum.data.mosaic import NUM_TILES, Picture, Scene, blend, mosaic_closed, mosaic_scene, single_scene
from yolo_accum.data.order import Stream, epoch_order, keyed_rng, recent_positions

PhotometricFn = Callable[[np.ndarray, np.random.Generator], np.ndarray]
"""[H, W, 3] uint8 RGB and a generator -> [H, W, 3] uint8; picklable."""

CLOSED_STRENGTH = 0.5
"""Share of rotation, shear, zoom and shift once mosaic has closed: the last epochs come nearer to whole pictures."""

MIXUP_BETA = 8.0
"""Both parameters of the beta distribution of mixup's share: mean a half, standard deviation 0.12."""


class TrainDataset(Dataset[Sample]):
    """Training samples, each a pure function of the seed and its key.

    A picture that cannot be read (any more) leaves its place grey and without boxes and is named in the sample's
    ``problems``; order and randomness of all samples stay what they are.

    Args:
        index: at least one image.
        augment: strength of every augmentation.
        seed: of the run.
        num_epochs: of the run, to know when mosaic closes.
        photometric: applied last, for example ``augment.Photometric``.
        cache_mib: memory for decoded pictures in every loader process.
    """

    def __init__(
        self,
        index: DetectionIndex,
        augment: AugmentConfig,
        *,
        seed: int,
        num_epochs: int,
        photometric: PhotometricFn | None = None,
        cache_mib: float = 128,
    ) -> None:
        self.index = index
        self._augment = augment
        self._seed = seed
        self._num_epochs = num_epochs
        self._photometric = photometric
        self._cache = ImageCache(cache_mib)

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, key: SampleKey) -> Sample:
        problems: list[str] = []
        scene = self._scene(key, problems)
        image = jitter_hsv(scene.image, self._rng(key, Stream.COLOUR), self._augment)
        if self._photometric is not None:
            image = self._photometric(image, self._rng(key, Stream.PHOTOMETRIC))
        return Sample(
            image=to_channels_first(image),
            boxes_xyxy_px=scene.boxes_xyxy_px,
            labels=scene.labels,
            image_index=self._row(key.epoch, key.position),
            epoch=key.epoch,
            problems=tuple(problems),
        )

    def _rng(self, key: SampleKey, stream: Stream) -> np.random.Generator:
        return keyed_rng(self._seed, key.epoch, key.position, stream)

    def _row(self, epoch: int, position: int) -> int:
        return int(epoch_order(self._seed, epoch, len(self.index))[position])

    def _scene(self, key: SampleKey, problems: list[str]) -> Scene:
        rng = self._rng(key, Stream.GEOMETRY)
        wants_mosaic = rng.random() < self._augment.mosaic
        if mosaic_closed(key.epoch, self._num_epochs, self._augment.close_mosaic):
            return self._single(key, key.position, rng, problems, CLOSED_STRENGTH)
        if not wants_mosaic:
            return self._single(key, key.position, rng, problems)
        warp = draw_warp(rng, self._augment, key.size_px)
        others = recent_positions(rng, key.position, len(self.index), NUM_TILES - 1)
        pictures = [self._picture(key, position, problems) for position in (key.position, *others)]
        scene = mosaic_scene(pictures, warp, key.size_px, self._augment, rng)
        rng = self._rng(key, Stream.MIXUP)
        if rng.random() >= self._augment.mixup:
            return scene
        share = rng.beta(MIXUP_BETA, MIXUP_BETA)
        [position] = recent_positions(rng, key.position, len(self.index), 1)
        return blend(scene, self._single(key, position, rng, problems), share)

    def _single(
        self, key: SampleKey, position: int, rng: np.random.Generator, problems: list[str], strength: float = 1.0
    ) -> Scene:
        warp = draw_warp(rng, self._augment, key.size_px, strength)
        return single_scene(self._picture(key, position, problems), warp, key.size_px, self._augment)

    def _picture(self, key: SampleKey, position: int, problems: list[str]) -> Picture:
        row = self._row(key.epoch, position)
        width_px, height_px = int(self.index.widths_px[row]), int(self.index.heights_px[row])
        image = None
        try:
            image = self._cache.get(
                (row, key.size_px),
                lambda: read_working_image(self.index.image_paths[row], width_px, height_px, key.size_px),
            )
        except UnreadableImageError as error:
            problems.append(str(error))
        boxes_xyxy_px, labels = _training_boxes(self.index, row)
        return Picture(image=image, width_px=width_px, height_px=height_px, boxes_xyxy_px=boxes_xyxy_px, labels=labels)


class EvalDataset(Dataset[Sample]):
    """Pictures as evaluation sees them: letterboxed, nothing else.

    A picture that cannot be read is grey, has no boxes and is named in the sample's ``problems``.

    Args:
        size_px: side of the square network input.
    """

    def __init__(self, index: DetectionIndex, size_px: int) -> None:
        self.index = index
        self._size_px = size_px

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, row: int) -> Sample:
        path = self.index.image_paths[row]
        width_px, height_px = int(self.index.widths_px[row]), int(self.index.heights_px[row])
        boxes_xyxy_px, labels = _training_boxes(self.index, row)
        problems: tuple[str, ...] = ()
        try:
            image = read_image(path)
            require_size(path, image, width_px, height_px)
        except UnreadableImageError as error:
            image = np.full((height_px, width_px, 3), PAD_VALUE, dtype=np.uint8)
            boxes_xyxy_px, labels = boxes_xyxy_px[:0], labels[:0]
            problems = (str(error),)
        canvas, geometry = letterbox(image, self._size_px)
        return Sample(
            image=to_channels_first(canvas),
            boxes_xyxy_px=(boxes_xyxy_px * geometry.scale).astype(np.float32),
            labels=labels.astype(np.int64),
            image_index=row,
            letterbox=geometry,
            problems=problems,
        )


def _training_boxes(index: DetectionIndex, row: int) -> tuple[np.ndarray, np.ndarray]:
    """[N, 4] and [N]: boxes and labels of an image, crowd regions left out."""
    rows = index.rows(row)
    single = ~index.is_crowd[rows]
    return index.boxes_xyxy_px[rows][single], index.labels[rows][single]
