"""A shared cache of decoded pictures: the very bytes that decoding gives, whatever happens to its file or to them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from picture_index import random_pictures, write_picture_index

from yolo_accum.config.schema import AugmentConfig
from yolo_accum.contracts import DetectionIndex, SampleKey
from yolo_accum.data.dataset import TrainDataset
from yolo_accum.data.images import UnreadableImageError, read_working_image, working_size
from yolo_accum.data.loader import train_loader
from yolo_accum.data.picture_cache import CacheLayout, PictureCache, make_file, only_one

SIZE_PX = 64
NUM_IMAGES = 10


@pytest.fixture
def index(tmp_path: Path) -> DetectionIndex:
    folder = tmp_path / "pictures"
    folder.mkdir()
    return write_picture_index(folder, random_pictures(NUM_IMAGES))


def cache_of(index: DetectionIndex, path: Path, size_px: int = SIZE_PX) -> PictureCache:
    layout = CacheLayout(index, size_px)
    make_file(path, layout.num_bytes)
    return PictureCache(path, layout)


def fresh(index: DetectionIndex, row: int, size_px: int = SIZE_PX) -> np.ndarray:
    return read_working_image(index.image_paths[row], int(index.widths_px[row]), int(index.heights_px[row]), size_px)


def unasked() -> np.ndarray:
    raise AssertionError("the picture should lie in the cache")


def filled(index: DetectionIndex, path: Path) -> PictureCache:
    cache = cache_of(index, path)
    done: list[int] = []
    cache.fill(2, done.append)
    assert done == sorted(done) and done[-1] == NUM_IMAGES
    return cache


def assert_right(cache: PictureCache, index: DetectionIndex, missing: tuple[int, ...] = ()) -> None:
    for row in range(NUM_IMAGES):
        if row in missing:
            with pytest.raises(AssertionError, match="should lie"):
                cache.get(row, unasked)
        assert np.array_equal(cache.get(row, lambda row=row: fresh(index, row)), fresh(index, row))
        assert np.array_equal(cache.get(row, unasked), fresh(index, row))


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
@pytest.mark.parametrize("size_px", [32, 64, 96])
def test_the_size_of_a_working_image_is_known_before(tmp_path: Path, suffix: str, size_px: int) -> None:
    for width_px, height_px in [(64, 48), (65, 131), (97, 1), (1, 200), (257, 255), (300, 513), (40, 40)]:
        path = tmp_path / f"x{suffix}"
        cv2.imwrite(str(path), np.random.default_rng(0).integers(0, 256, (height_px, width_px, 3), np.uint8))
        image = read_working_image(path, width_px, height_px, size_px)
        assert image.shape[1::-1] == working_size(width_px, height_px, size_px)
        assert max(image.shape) == min(size_px, max(width_px, height_px))


def test_a_filled_cache_has_every_picture_and_the_stated_size(index: DetectionIndex, tmp_path: Path) -> None:
    path = tmp_path / "c"
    cache = filled(index, path)
    assert path.stat().st_size == CacheLayout(index, SIZE_PX).num_bytes
    for row in range(NUM_IMAGES):
        found = cache.get(row, unasked)
        assert np.array_equal(found, fresh(index, row)) and not found.flags.writeable
    again = cache_of(index, path)
    again.fill(1, lambda done: None)
    assert_right(again, index)


def test_other_settings_and_other_pictures_are_other_files(index: DetectionIndex) -> None:
    names = {CacheLayout(index, size_px).name() for size_px in (64, 96)}
    names.add(CacheLayout(replace(index, widths_px=index.widths_px + 1), 64).name())
    assert len(names) == 3 and CacheLayout(index, 64).name() in names


def test_a_changed_picture_is_noticed(index: DetectionIndex, tmp_path: Path) -> None:
    path = tmp_path / "c"
    filled(index, path)
    changed = Path(index.image_paths[3])
    shape = cv2.imread(str(changed)).shape
    cv2.imwrite(str(changed), np.full(shape, 7, np.uint8))
    assert_right(cache_of(index, path), index, missing=(3,))  # also without filling it again
    cv2.imwrite(str(changed), np.full(shape, 9, np.uint8))
    os.utime(changed, ns=(5, 5))
    assert_right(filled(index, path), index)


def test_a_damaged_picture_is_made_again(index: DetectionIndex, tmp_path: Path) -> None:
    path = tmp_path / "c"
    cache = filled(index, path)
    content = bytearray(path.read_bytes())
    content[int(cache.layout.starts[4]) + 10] ^= 1
    path.write_bytes(content)
    assert_right(filled(index, path), index, missing=(4,))


@pytest.mark.parametrize("damage", [b"", b"no cache", b"\xff" * 500_000])
def test_a_file_of_another_size_is_made_anew(index: DetectionIndex, tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "c"
    path.write_bytes(damage)
    assert_right(filled(index, path), index)


def test_zeros_in_place_of_everything_are_no_pictures(index: DetectionIndex, tmp_path: Path) -> None:
    path = tmp_path / "c"
    filled(index, path)
    path.write_bytes(bytes(path.stat().st_size))
    assert_right(cache_of(index, path), index, missing=tuple(range(NUM_IMAGES)))


def test_a_killed_filling_goes_on(index: DetectionIndex, tmp_path: Path) -> None:
    path = tmp_path / "c"
    cache = cache_of(index, path)

    def killed() -> np.ndarray:
        raise KeyboardInterrupt

    for row in range(4):
        cache.get(row, lambda row=row: fresh(index, row))
    with pytest.raises(KeyboardInterrupt):
        cache.get(4, killed)
    assert_right(cache_of(index, path), index, missing=tuple(range(4, NUM_IMAGES)))


def test_a_picture_that_cannot_be_read_stays_out(index: DetectionIndex, tmp_path: Path) -> None:
    Path(index.image_paths[2]).write_bytes(b"broken")
    cache = filled(index, tmp_path / "c")
    with pytest.raises(UnreadableImageError, match="002"):
        cache.get(2, lambda: fresh(index, 2))
    assert np.array_equal(cache.get(1, unasked), fresh(index, 1))


def test_no_room_is_said(index: DetectionIndex, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r".+"):
        make_file(tmp_path / "c", 2**62)


@pytest.mark.parametrize(("workers", "start_method"), [(0, None), (2, None), (2, "spawn")])
def test_samples_are_the_same_with_and_without_a_cache(
    index: DetectionIndex, tmp_path: Path, workers: int, start_method: str | None
) -> None:
    keys = [[SampleKey(0, place, 64 + 32 * (place > 5)) for place in (start, start + 1)] for start in range(0, 10, 2)]
    augment = AugmentConfig(mixup=0.5, copy_paste=0.5, cutout=0.3)
    batches = []
    for pictures in (None, filled(index, tmp_path / "c")):
        dataset = TrainDataset(index, augment, seed=0, num_epochs=30)
        dataset.pictures = pictures
        loader = train_loader(dataset, keys, workers=workers, pin_memory=False, start_method=start_method)
        batches.append(list(loader))
    for plain, cached in zip(*batches, strict=True):
        assert plain.images.equal(cached.images) and plain.boxes_xyxy_px.equal(cached.boxes_xyxy_px)


def test_a_pickled_cache_maps_the_same_file(index: DetectionIndex, tmp_path: Path) -> None:
    cache = cache_of(index, tmp_path / "c")
    copy = pickle.loads(pickle.dumps(cache))
    cache.get(5, lambda: fresh(index, 5))
    assert np.array_equal(copy.get(5, unasked), fresh(index, 5))


FILLING = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_picture_cache import NUM_IMAGES, filled, reopened
filled(reopened(Path(sys.argv[2])), Path(sys.argv[3]))
"""


def reopened(folder: Path) -> DetectionIndex:
    folder.mkdir(exist_ok=True)
    return write_picture_index(folder, random_pictures(NUM_IMAGES))


def test_two_processes_may_fill_at_once(index: DetectionIndex, tmp_path: Path) -> None:
    path, here = tmp_path / "c", Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here.parents[1])])}
    command = [sys.executable, "-c", FILLING, str(here), str(Path(index.image_paths[0]).parent), str(path)]
    runs = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) for _ in range(2)]
    assert [run.communicate()[1] for run in runs] == [b"", b""] and all(run.returncode == 0 for run in runs)
    assert_right(filled(index, path), index)


def test_one_at_a_time(tmp_path: Path) -> None:
    waited: list[str] = []
    with only_one(tmp_path / "lock", lambda: waited.append("first")):
        script = "import fcntl, sys; fcntl.flock(open(sys.argv[1], 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        outcome = subprocess.run([sys.executable, "-c", script, str(tmp_path / "lock")], capture_output=True)
        assert b"BlockingIOError" in outcome.stderr
    assert not waited
