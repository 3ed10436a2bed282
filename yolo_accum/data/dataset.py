"""One sample at a time: training samples by key, evaluation samples by row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch.utils.data import Dataset

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.contracts import PAD_VALUE, DetectionIndex, Sample, SampleKey
from yolo_accum.data.colour import jitter_hsv
from yolo_accum.data.copy_paste import paste_objects
from yolo_accum.data.geometry import draw_warp, mirror_boxes, mirror_planes
from yolo_accum.data.hiding import cut_out
from yolo_accum.data.images import (
    ImageCache,
    UnreadableImageError,
    letterbox,
    read_image,
    read_working_image,
    require_size,
    to_channels_first,
    to_channels_last,
)
from yolo_accum.data.mosaic import NUM_TILES, Picture, Scene, blend, flipped, mosaic_closed, mosaic_scene, single_scene
from yolo_accum.data.order import Stream, keyed_rng, recent_positions
from yolo_accum.data.picture_cache import PictureCache
from yolo_accum.data.rectangles import RectangularBatches
from yolo_accum.data.sampling import ImageOrder
from yolo_accum.errors import UserError

PhotometricFn = Callable[[np.ndarray, np.random.Generator], np.ndarray]
"""[H, W, 3] uint8 RGB and a generator -> [H, W, 3] uint8; picklable."""

SceneFn = Callable[[Scene, np.random.Generator], Scene]
"""A square picture with its boxes and a generator -> the same of that size; picklable. What it cannot do is a
UserError."""

CLOSED_STRENGTH = 0.5
"""Share of rotation, shear, zoom and shift once mosaic has closed: the last epochs come nearer to whole pictures."""

MIXUP_BETA = 8.0
"""Both parameters of the beta distribution of mixup's share: mean a half, standard deviation 0.12."""


class AugmentationError(UserError):
    """The user's own augmentations cannot be applied to a training picture.

    Args:
        picture: its file.
        reason: the transform and what it did.
    """

    def __init__(self, picture: str, reason: str = "") -> None:
        # A loader process hands over one text, its traceback; the sentence is in its last line.
        sentence = f"--augmentations, picture {picture}: {reason}" if reason else picture.rstrip().splitlines()[-1]
        super().__init__(sentence.removeprefix(f"{type(self).__module__}.{type(self).__name__}: "))


class TrainDataset(Dataset[Sample]):
    """Training samples, each a pure function of the seed and its key.

    A picture that cannot be read (any more) leaves its place grey and without boxes and is named in the sample's
    ``problems``; order and randomness of all samples stay what they are.

    Args:
        index: at least one image.
        augment: strength of every augmentation.
        seed: of the run.
        num_epochs: of the run, to know when mosaic closes.
        photometric: applied after the other changes of colour, for example ``augment.Photometric``.
        augmentations: applied last, for example ``pipeline.UserAugmentations``.
        order: which image stands at which place of an epoch; by default each once.
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
        augmentations: SceneFn | None = None,
        order: ImageOrder | None = None,
        cache_mib: float = 128,
    ) -> None:
        self.index = index
        self._augment = augment
        self._seed = seed
        self._num_epochs = num_epochs
        self._photometric = photometric
        self._augmentations = augmentations
        self.order = order or ImageOrder(seed, len(index))
        self._cache = ImageCache(cache_mib)
        self.pictures: PictureCache | None = None
        """Decoded pictures that all processes share; used where it has been set, for its own input size."""

    def __len__(self) -> int:
        return self.order.num_positions

    def __getitem__(self, key: SampleKey) -> Sample:
        return self.sample(key)

    def shape_px(self, key: SampleKey) -> tuple[int, int]:
        """Height and width of the network input."""
        return key.size_px, key.size_px

    def sample(self, key: SampleKey, out: np.ndarray | None = None) -> Sample:
        """The sample of a key.

        Args:
            out: [3, H, W] uint8, takes the picture; new memory by default.
        """
        problems: list[str] = []
        scene = self._scene(key, problems)
        image = to_channels_first(scene.image, out)
        mirror_planes(image, scene.flip_x, scene.flip_y)
        boxes_xyxy_px = mirror_boxes(scene.boxes_xyxy_px, key.size_px, scene.flip_x, scene.flip_y)
        scene = Scene(scene.image, boxes_xyxy_px, scene.labels)
        jitter_hsv(image, self._rng(key, Stream.COLOUR), self._augment)
        if self._photometric is not None or self._augment.cutout or self._augmentations is not None:
            scene = self._finished(key, Scene(to_channels_last(image), scene.boxes_xyxy_px, scene.labels))
            to_channels_first(scene.image, image)
        return Sample(
            image=image,
            boxes_xyxy_px=scene.boxes_xyxy_px,
            labels=scene.labels,
            image_index=self._row(key.epoch, key.position),
            epoch=key.epoch,
            problems=tuple(problems),
        )

    def _rng(self, key: SampleKey, stream: Stream) -> np.random.Generator:
        return keyed_rng(self._seed, key.epoch, key.position, stream)

    def _row(self, epoch: int, position: int) -> int:
        return int(self.order.rows(epoch)[position])

    def _finished(self, key: SampleKey, scene: Scene) -> Scene:
        """What is done to the picture as the network will see it: photometric, cutout, then what is the user's own."""
        if self._photometric is not None:
            image = self._photometric(scene.image, self._rng(key, Stream.PHOTOMETRIC))
            scene = Scene(image, scene.boxes_xyxy_px, scene.labels)
        if self._augment.cutout:
            rng = self._rng(key, Stream.CUTOUT)
            if rng.random() < self._augment.cutout:
                image, keep = cut_out(scene.image, scene.boxes_xyxy_px, self._augment.min_visible, rng)
                scene = Scene(image, scene.boxes_xyxy_px[keep], scene.labels[keep])
        if self._augmentations is None:
            return scene
        try:
            return self._augmentations(scene, self._rng(key, Stream.AUGMENTATIONS))
        except UserError as error:
            raise AugmentationError(self.picture_path(key), str(error)) from error

    def picture_path(self, key: SampleKey) -> str:
        """File of the picture that a key stands for."""
        return self.index.image_paths[self._row(key.epoch, key.position)]

    def _scene(self, key: SampleKey, problems: list[str]) -> Scene:
        rng = self._rng(key, Stream.GEOMETRY)
        wants_mosaic = rng.random() < self._augment.mosaic
        if mosaic_closed(key.epoch, self._num_epochs, self._augment.close_mosaic):
            return self._single(key, key.position, rng, problems, CLOSED_STRENGTH)
        scene = self._open_scene(key, rng, wants_mosaic, problems)
        if not self._augment.copy_paste:
            return scene
        rng = self._rng(key, Stream.COPY_PASTE)
        if rng.random() >= self._augment.copy_paste:
            return scene
        [position] = recent_positions(rng, key.position, len(self), 1)
        return paste_objects(flipped(scene), self._picture(key, position, problems), key.size_px, self._augment, rng)

    def _open_scene(self, key: SampleKey, rng: np.random.Generator, wants_mosaic: bool, problems: list[str]) -> Scene:
        """One picture or a mosaic, perhaps with a second one blended in."""
        if not wants_mosaic:
            return self._single(key, key.position, rng, problems)
        warp = draw_warp(rng, self._augment, key.size_px)
        others = recent_positions(rng, key.position, len(self), NUM_TILES - 1)
        pictures = [self._picture(key, position, problems) for position in (key.position, *others)]
        scene = mosaic_scene(pictures, warp, key.size_px, self._augment, rng)
        if not self._augment.mixup:
            return scene
        rng = self._rng(key, Stream.MIXUP)
        if rng.random() >= self._augment.mixup:
            return scene
        share = rng.beta(MIXUP_BETA, MIXUP_BETA)
        [position] = recent_positions(rng, key.position, len(self), 1)
        return blend(flipped(scene), flipped(self._single(key, position, rng, problems)), share)

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
            image = self._image(row, width_px, height_px, key.size_px)
        except UnreadableImageError as error:
            problems.append(str(error))
        boxes_xyxy_px, labels = _training_boxes(self.index, row)
        return Picture(image=image, width_px=width_px, height_px=height_px, boxes_xyxy_px=boxes_xyxy_px, labels=labels)

    def _image(self, row: int, width_px: int, height_px: int, size_px: int) -> np.ndarray:
        def load() -> np.ndarray:
            return read_working_image(self.index.image_paths[row], width_px, height_px, size_px)

        if self.pictures is not None and self.pictures.size_px == size_px:
            return self.pictures.get(row, load)
        return self._cache.get((row, size_px), load)


class EvalDataset(Dataset[Sample]):
    """Pictures as evaluation sees them: letterboxed, nothing else.

    A picture that cannot be read is grey, has no boxes and is named in the sample's ``problems``.

    Args:
        size_px: side of the square network input.
        rectangles: shapes of the network input, where they are not square.
    """

    def __init__(self, index: DetectionIndex, size_px: int, rectangles: RectangularBatches | None = None) -> None:
        self.index = index
        self._size_px = size_px
        self._shapes_px = rectangles.shapes_px if rectangles is not None else None

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, row: int) -> Sample:
        return self.sample(row)

    def shape_px(self, row: int) -> tuple[int, int]:
        """Height and width of the network input."""
        if self._shapes_px is None:
            return self._size_px, self._size_px
        return int(self._shapes_px[row, 0]), int(self._shapes_px[row, 1])

    def sample(self, row: int, out: np.ndarray | None = None) -> Sample:
        """The sample of a row of the index; ``out``, [3, H, W] uint8, takes the picture, new memory by default."""
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
        canvas, geometry = letterbox(image, self._size_px, self.shape_px(row))
        return Sample(
            image=to_channels_first(canvas, out),
            boxes_xyxy_px=(boxes_xyxy_px * geometry.scale).astype(np.float32),
            labels=labels.astype(np.int64),
            image_index=row,
            letterbox=geometry,
            problems=problems,
        )


def _training_boxes(index: DetectionIndex, row: int) -> tuple[np.ndarray, np.ndarray]:
    """[N, 4] and [N]: boxes and labels of an image, crowd regions left out."""
    rows = index.rows(row)
    boxes_xyxy_px, labels, is_crowd = index.boxes_xyxy_px[rows], index.labels[rows], index.is_crowd[rows]
    return (boxes_xyxy_px[~is_crowd], labels[~is_crowd]) if is_crowd.any() else (boxes_xyxy_px, labels)
