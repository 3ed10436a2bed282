"""A made-up data set of any size; what reading it, holding it in loader processes, and an evaluation cost."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import get_worker_info

from yolo_accum.config.schema import AugmentConfig, DataConfig
from yolo_accum.contracts import Batch, DetectionIndex, Detections, Sample, SampleKey, StringTable
from yolo_accum.data.dataset import TrainDataset
from yolo_accum.data.description import open_data
from yolo_accum.data.loader import train_loader
from yolo_accum.engine.memory import peak_memory_mib
from yolo_accum.metrics.coco import coco_metrics

CPU = torch.device("cpu")

NUM_CLASSES = 80
OUTLINE_POINTS = 23
"""Of an object: with them the file has the size of COCO's own, 0.5 KiB an annotation."""
LINKS_A_FILE = 10_000
"""A file system allows some ten thousand names of one file."""
EVALUATED_IMAGES, DETECTIONS_AN_IMAGE, TRUTH_AN_IMAGE = 5000, 100, 7


def write_large_set(folder: Path, num_images: int, boxes_an_image: float, like: DetectionIndex) -> None:
    """``train.json`` and its pictures, which are links to copies of some others.

    Args:
        folder: is made; ``cache/`` in it is where its index is kept.
        num_images: of the set.
        boxes_an_image: mean.
        like: where the pictures come from.
    """
    pictures = [like.image_paths[row] for row in range(min(len(like), 50))]
    width_px, height_px = int(like.widths_px[:50].min()), int(like.heights_px[:50].min())
    images = folder / "images"
    images.mkdir(parents=True)
    rng = random.Random(0)
    outlines = [json.dumps([[round(rng.uniform(0, 400), 2) for _ in range(2 * OUTLINE_POINTS)]]) for _ in range(1000)]
    source = Path()
    with (folder / "train.json").open("w") as file:
        classes = [{"id": number, "name": f"class {number}"} for number in range(1, NUM_CLASSES + 1)]
        file.write(f'{{"categories": {json.dumps(classes)}, "images": [')
        for number in range(num_images):
            name = f"{number:012d}.jpg"
            if number % LINKS_A_FILE == 0:
                source = folder / f"{number}.jpg"
                shutil.copyfile(pictures[number // LINKS_A_FILE % len(pictures)], source)
            _link(source, images / name)
            comma = "," if number else ""
            url = f"http://images.example.org/train/{name}"
            file.write(f'{comma}{{"license": 3, "file_name": "{name}", "coco_url": "{url}", "id": {number}}}')
        file.write('], "annotations": [')
        for number in range(round(num_images * boxes_an_image)):
            image = int(number / boxes_an_image)
            left, top = round(width_px * (number * 37 % 190) / 400, 2), round(height_px * (number * 53 % 170) / 400, 2)
            width = round(width_px * (10 + number * 7 % 97) / 250, 2)
            height = round(height_px * (12 + number * 11 % 61) / 150, 2)
            comma = "," if number else ""
            file.write(
                f'{comma}{{"segmentation": {outlines[number % 1000]}, "area": {width * height}, "iscrowd": 0, '
                f'"image_id": {image}, "bbox": [{left}, {top}, {width}, {height}], '
                f'"category_id": {number % NUM_CLASSES + 1}, "id": {number + 1}}}'
            )
        file.write("]}")


def _link(source: Path, link: Path) -> None:
    try:
        os.link(source, link)
    except OSError:  # no such thing on this disk
        shutil.copyfile(source, link)


def measure_index(folder: Path) -> dict[str, float]:
    """Time and memory of reading a large set in this process."""
    before_mib = peak_memory_mib(CPU)
    start_s = time.perf_counter()
    index = _opened(folder)
    seconds = time.perf_counter() - start_s
    return {
        "seconds": seconds,
        "boxes": index.num_boxes,
        "before_mib": before_mib,
        "peak_mib": peak_memory_mib(CPU),
        "file_mib": (folder / "train.json").stat().st_size / 2**20,
    }


def _opened(folder: Path) -> DetectionIndex:
    os.environ["YOLO_ACCUM_CACHE"] = str(folder / "cache")
    return open_data(DataConfig(data=str(folder / "train.json"))).train


class _Weighed(TrainDataset):
    """Says what its process holds for itself, in place of which picture a sample stands for."""

    def sample(self, key: SampleKey, out: np.ndarray | None = None) -> Sample:
        sample = super().sample(key, out)
        assert get_worker_info() is not None
        private_kib = sum(map(int, re.findall(r"^Private_\w+: +(\d+) kB", _rollup(), re.MULTILINE)))
        return Sample(
            image=sample.image, boxes_xyxy_px=sample.boxes_xyxy_px, labels=sample.labels, image_index=private_kib
        )


def _rollup() -> str:
    return Path("/proc/self/smaps_rollup").read_text(encoding="ascii")


def measure_workers(folder: Path, num_workers: int) -> dict[str, float]:
    """Private memory of a loader process, the mean over all of them once each has made some batches."""
    dataset = _Weighed(_opened(folder), AugmentConfig(), seed=0, num_epochs=2, cache_mib=1)
    rounds = 6

    def keys() -> Iterator[list[SampleKey]]:
        for number in range(rounds * num_workers):
            yield [SampleKey(0, (number * 7919 + place) % len(dataset), 64) for place in range(16)]

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create", category=UserWarning)
        batches: list[Batch] = list(train_loader(dataset, keys(), workers=num_workers, pin_memory=False))
    last = [int(batch.image_indices[-1]) for batch in batches[-num_workers:]]
    return {"private_mib": sum(last) / len(last) / 1024}


def measure_evaluation() -> dict[str, float]:
    """Time and memory of the COCO numbers of made-up detections."""
    index, detections = _made_up_detections()
    before_mib = peak_memory_mib(CPU)
    start_s = time.perf_counter()
    coco_metrics(index, detections)
    seconds = time.perf_counter() - start_s
    return {"seconds": seconds, "grown_mib": peak_memory_mib(CPU) - before_mib}


def _made_up_detections() -> tuple[DetectionIndex, list[Detections]]:
    rng = np.random.default_rng(0)
    num_boxes = EVALUATED_IMAGES * TRUTH_AN_IMAGE
    corners, sides = rng.uniform(0, 400, (num_boxes, 2)), rng.uniform(10, 200, (num_boxes, 2))
    index = DetectionIndex(
        source=Path("made up"),
        image_paths=StringTable([str(number) for number in range(EVALUATED_IMAGES)]),
        image_ids=tuple(range(EVALUATED_IMAGES)),
        widths_px=np.full(EVALUATED_IMAGES, 640, np.int32),
        heights_px=np.full(EVALUATED_IMAGES, 640, np.int32),
        box_starts=np.arange(0, num_boxes + 1, TRUTH_AN_IMAGE),
        boxes_xyxy_px=np.hstack([corners, corners + sides]),
        labels=rng.integers(0, NUM_CLASSES, num_boxes).astype(np.int32),
        is_crowd=np.zeros(num_boxes, bool),
        areas_px=sides.prod(1),
        class_names=tuple(map(str, range(NUM_CLASSES))),
        class_ids=tuple(range(NUM_CLASSES)),
    )
    detections = []
    for image in range(EVALUATED_IMAGES):
        rows = index.rows(image)
        meant = rng.integers(0, TRUTH_AN_IMAGE, DETECTIONS_AN_IMAGE)
        boxes = index.boxes_xyxy_px[rows][meant] + rng.normal(0, 8, (DETECTIONS_AN_IMAGE, 4))
        boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2] + 1)
        guessed = rng.integers(0, NUM_CLASSES, DETECTIONS_AN_IMAGE)
        labels = np.where(rng.random(DETECTIONS_AN_IMAGE) < 0.5, index.labels[rows][meant], guessed)
        detections.append(
            Detections(
                boxes_xyxy_px=boxes.astype(np.float32),
                scores=np.sort(rng.random(DETECTIONS_AN_IMAGE).astype(np.float32))[::-1],
                labels=labels.astype(np.int64),
                image_index=image,
            )
        )
    return index, detections
