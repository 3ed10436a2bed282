"""A browser, where there is one, and pages to open in it."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from run_folders import comparison, write_run
from small_index import make_detections, make_index, perfect_detections

from yolo_accum.cli.comparison.page import make_compare_page
from yolo_accum.cli.run_page import make_run_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NAMES = ("<script>window.broken = 1</script>", "<img src=x onerror='window.broken = 1'>", 'ünïcode 汉字 "quoted"')


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])  # CI runs as root
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def run_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run with names that try to break out, false alarms, costly images, and 30 epochs."""
    index = make_index(
        [[(0, (40, 40, 240, 240)), (1, (300, 60, 500, 300))], [(0, (20, 20, 200, 200))], [], [(1, (9, 9, 99, 99))]],
        num_classes=3,
        class_names=NAMES,
        image_ids=("a", "<b>b</b>", "c", 'd"'),
    )
    detections = perfect_detections(index)
    detections[1] = make_detections(1, [(1, 0.8, (20, 20, 190, 200)), (0, 0.4, (300, 300, 400, 400))])
    detections[2] = make_detections(2, [(0, 0.7, (20, 20, 90, 90))])
    folder = tmp_path_factory.mktemp("pages") / "run"
    return make_run_page(write_run(folder, index, detections, num_epochs=30, warnings=["<b>bold</b>"]))


@pytest.fixture(scope="session")
def compare_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of five arms with 300 epochs."""
    folder = tmp_path_factory.mktemp("comparison")
    result = comparison(folder, ["large", "small", "<i>gn</i>", "tail", "adam"], num_epochs=300)
    (folder / "compare.json").write_text(json.dumps(result))
    return make_compare_page(folder)


class Opened:
    """A page in the browser, and what it complained of."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self._note(request.url))

    def _note(self, url: str) -> None:
        if not url.startswith(("data:", "file:")):
            self.complaints.append(f"request of {url}")

    def draw_everything(self) -> None:
        """Charts are drawn when they come near the screen; for a printer, all of them at once."""
        self.page.evaluate("dispatchEvent(new Event('beforeprint'))")


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Opens a file: ``open_page(path, width=1440, scheme="light")``."""
    with contextlib.ExitStack() as stack:

        def open_(path: Path, *, width: int = 1440, scheme: str = "light") -> Opened:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
            stack.callback(context.close)
            opened = Opened(context.new_page())
            opened.page.goto(path.as_uri())
            return opened

        yield open_
