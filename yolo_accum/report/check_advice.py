"""What the figures of a data set say about the options of a training, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from yolo_accum.report.check_figures import SMALLEST_PX

MAX_SMALL_SHARE = 0.05
"""Objects under 8 px that are left without a word."""
COMFORTABLE_PX = 32.0
"""Shorter side at which an object is found as well as a larger one; a smaller input that keeps it is as good."""
LARGE_INPUT_PX = 1600
"""Side of an input above which tiles are worth a thought."""
RARE_BOXES = 20
"""A class with fewer training objects is hardly learned."""
FEW_VAL_BOXES = 10
"""A class with fewer validation objects has an AP that one object moves by a tenth."""
IMBALANCE = 50
"""Objects of the most frequent class for each of the rarest above which this is told."""
FEW_UPDATES = 10
"""Updates an epoch below which the number of epochs says little."""
NAMES_SHOWN = 5

Figures = Mapping[str, Any]
"""Of one split, see ``check_figures.split_figures``."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One thing to do, and why."""

    topic: str
    option: str | None
    """The option that it is about."""
    value: int | float | None
    """What to set it to, where there is such a value."""
    text: str
    """Recommendation and reason."""

    def as_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {"topic": self.topic, "option": self.option, "value": self.value, "text": self.text}


def advice_for(
    splits: Mapping[str, Figures], *, imgsz: int, max_det: int, batch: int | str, nbs: int
) -> tuple[Advice, ...]:
    """All advice for the training that the options describe.

    Args:
        splits: figures by split, taken at ``imgsz``.
        imgsz: side of the network input in pixels.
        max_det: detections kept an image.
        batch: images of a micro-batch, or "auto".
        nbs: nominal batch size.
    """
    train = splits.get("train")
    advice = [*_max_det(splits, max_det)]
    if train is not None and train["boxes"]:
        advice += [*_imgsz(train, imgsz), *_classes(train), *_batch(train, batch, nbs), *_background(train)]
    if train is not None:
        advice += _validation(splits.get("val"))
    return tuple(advice)


def _imgsz(train: Figures, imgsz: int) -> Iterator[Advice]:
    num_small, num_boxes = train["objects_under_8_px"], train["boxes"]
    smallest_px, median_px = train["object_shorter_side_px"]["p5"], train["object_shorter_side_px"]["median"]
    native_px = train["picture_side_px"]["median"]
    if num_small > MAX_SMALL_SHARE * num_boxes:
        wanted = _multiple_of_32(imgsz * SMALLEST_PX / smallest_px)
        told = (
            f"{num_small:,} of {num_boxes:,} training objects ({num_small / num_boxes:.0%}) have a side under "
            f"{SMALLEST_PX} px at {imgsz} px, the finest stride of the detectors, and are hard to find"
        )
        useful = min(wanted, _multiple_of_32(native_px))
        if useful > imgsz:
            rest = "95 % of them reach 8 px" if useful == wanted else "more is not in the pictures"
            tiles = f", or cut the pictures into tiles of {imgsz} px" if useful > LARGE_INPUT_PX else ""
            text = f"--imgsz {useful}{tiles}: {told}; at {useful} px {rest} (their median side is {native_px:.0f} px)"
            yield Advice(topic="small objects", option="--imgsz", value=useful, text=text)
        else:
            text = (
                f"take sharper pictures: {told}, and half of the pictures have {native_px:.0f} px or less, so a larger "
                f"--imgsz ({wanted} for 8 px) only enlarges them, which helps less than detail would"
            )
            yield Advice(topic="small objects", option=None, value=None, text=text)
        return
    enough = max(_multiple_of_32(imgsz * COMFORTABLE_PX / smallest_px), 320)
    if enough <= imgsz / 1.5:
        text = (
            f"--imgsz {enough} may do: 95 % of the training objects have sides of at least {smallest_px:.0f} px at "
            f"{imgsz} px (half of them {median_px:.0f} px), and still {smallest_px * enough / imgsz:.0f} px at {enough}"
            f", for {(enough / imgsz) ** 2:.0%} of the computation"
        )
        yield Advice(topic="large objects", option="--imgsz", value=enough, text=text)
    largest_px = train["picture_side_px"]["p95"]
    if _multiple_of_32(largest_px) < imgsz <= enough * 1.5:
        value = _multiple_of_32(largest_px)
        text = (
            f"--imgsz {value} shows all that is in the pictures: 95 % of them have at most {largest_px:.0f} px, so "
            f"{imgsz} px only enlarge them (which can still help small objects)"
        )
        yield Advice(topic="small pictures", option="--imgsz", value=value, text=text)


def _max_det(splits: Mapping[str, Figures], max_det: int) -> Iterator[Advice]:
    most = {split: int(figures["boxes_per_image"]["max"] or 0) for split, figures in splits.items()}
    split = max(most, key=lambda name: most[name], default=None)
    if split is not None and most[split] > max_det:
        value = 10 * math.ceil(1.2 * most[split] / 10)
        text = (
            f"--max-det {value}: a picture of {split} has {most[split]} objects, and no more than {max_det} detections "
            "are kept an image, so not all of them could be found"
        )
        yield Advice(topic="crowded pictures", option="--max-det", value=value, text=text)


def _classes(train: Figures) -> Iterator[Advice]:
    present = [item for item in train["boxes_per_class"] if item["boxes"]]
    rare = [item for item in present if item["boxes"] < RARE_BOXES]
    if rare:
        text = (
            f"collect more objects of {_names(rare)}: fewer than {RARE_BOXES} training objects are hardly enough to "
            "learn a class, and mosaic or a larger model do not make up for it"
        )
        yield Advice(topic="rare classes", option=None, value=None, text=text)
    most, least = max(present, key=lambda item: item["boxes"]), min(present, key=lambda item: item["boxes"])
    if most["boxes"] > IMBALANCE * least["boxes"]:
        text = (
            f"look at the AP of every class, not only at the mean: {most['name']!r} has {most['boxes']:,} training "
            f"objects, {least['name']!r} {least['boxes']:,} ({most['boxes'] / least['boxes']:.0f} to 1), so the loss "
            "is mostly about the former"
        )
        yield Advice(topic="class imbalance", option=None, value=None, text=text)


def _batch(train: Figures, batch: int | str, nbs: int) -> Iterator[Advice]:
    num_images = train["images"]
    if num_images < nbs:
        text = (
            f"a smaller --nbs, such as {max(1, num_images // 4)}, or many epochs: the {num_images} training images do "
            f"not fill one nominal batch of {nbs}, so an epoch is a single update"
        )
        yield Advice(topic="small set", option="--nbs", value=max(1, num_images // 4), text=text)
    elif num_images < FEW_UPDATES * nbs:
        updates = math.ceil(num_images / nbs)
        text = (
            f"count the run in updates, not in epochs: {num_images:,} training images make {updates} updates an epoch "
            f"at --nbs {nbs}, 100 epochs are {100 * updates:,}; more --epochs or a smaller --nbs give more "
            "(`yolo-accum plan` shows them)"
        )
        yield Advice(topic="updates", option="--epochs", value=None, text=text)
    if isinstance(batch, int) and batch > num_images:
        text = f"--batch {num_images} or less: there are only {num_images} training images, a micro-batch holds no more"
        yield Advice(topic="micro-batch", option="--batch", value=num_images, text=text)


def _background(train: Figures) -> Iterator[Advice]:
    num_empty, num_images = train["images_without_objects"], train["images"]
    if num_empty > num_images / 2:
        text = (
            f"consider leaving pictures out: {num_empty:,} of {num_images:,} training pictures "
            f"({num_empty / num_images:.0%}) show no object and teach only what is background"
        )
        yield Advice(topic="background", option=None, value=None, text=text)


def _validation(val: Figures | None) -> Iterator[Advice]:
    if val is None:
        text = "name a validation split: without one the last epoch counts as the best, and nothing is measured"
        yield Advice(topic="validation", option=None, value=None, text=text)
        return
    few = [item for item in val["boxes_per_class"] if 0 < item["boxes"] < FEW_VAL_BOXES]
    if few:
        text = (
            f"do not read much into the AP of {_names(few)}: with fewer than {FEW_VAL_BOXES} validation objects a "
            "single one moves it by a tenth or more"
        )
        yield Advice(topic="few validation objects", option=None, value=None, text=text)


def _names(items: Sequence[Mapping[str, Any]]) -> str:
    """The rarest classes with their numbers."""
    ordered = sorted(items, key=lambda item: item["boxes"])
    names = ", ".join(f"{item['name']!r} ({item['boxes']})" for item in ordered[:NAMES_SHOWN])
    rest = len(ordered) - NAMES_SHOWN
    return f"{names} and {rest} more classes" if rest > 0 else names


def _multiple_of_32(side_px: float) -> int:
    """The next larger side that a network input may have."""
    return 32 * math.ceil(side_px / 32 - 1e-9)
