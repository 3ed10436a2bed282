"""Class names in letters that matplotlib's own font lacks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from yolo_accum.report import lettering
from yolo_accum.report.boxes_drawing import draw_boxes
from yolo_accum.report.label_panels import draw_classes
from yolo_accum.report.style import new_figure, save_png

NAMES = ("cat", "猫", "犬", "Straße", "Ψ")


@pytest.fixture
def no_other_fonts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    own = [font for font in lettering.fontManager.ttflist if font.name == lettering.OWN_FAMILY]
    monkeypatch.setattr(lettering.fontManager, "ttflist", own)
    lettering._family.cache_clear()
    yield
    lettering._family.cache_clear()


def test_without_a_font_classes_go_by_number_and_one_notice_says_so(no_other_fonts: None) -> None:
    assert [lettering.class_label(NAMES, label) for label in range(5)] == ["cat", "class 1", "class 2", "Straße", "Ψ"]
    notice = lettering.lettering_notice(NAMES)
    assert notice is not None
    assert "the letters of 2 class names" in notice and "class 1 is 猫, class 2 is 犬;" in notice
    assert lettering.lettering_notice(("cat", "Straße")) is None
    assert "class 4 is 猫 and 3 more" in str(lettering.lettering_notice(("猫",) * 8))


def test_another_font_stands_in(no_other_fonts: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = lettering._letters(lettering.fontManager.ttflist[0].fname)
    entry = type(lettering.fontManager.ttflist[0])
    fonts = [
        entry(fname="placeholders.ttf", name="Last Resort High-Efficiency"),
        entry(fname="cjk.ttf", name="Noto Sans CJK JP", weight=700),
        entry(fname="regular.ttf", name="Noto Sans CJK SC"),
    ]
    monkeypatch.setattr(lettering.fontManager, "ttflist", [*lettering.fontManager.ttflist, *fonts])
    letters = {"placeholders.ttf": range(0x110000), "cjk.ttf": [ord("猫")], "regular.ttf": [ord("猫")]}
    monkeypatch.setattr(lettering, "_letters", lambda path: frozenset(letters.get(path, own)))

    assert lettering.class_label(NAMES, 1) == "猫"
    assert lettering.class_label(NAMES, 2) == "class 2"
    figure = new_figure(2, 2)
    text, plain = figure.text(0.1, 0.1, "a 猫"), figure.text(0.1, 0.5, "a cat")
    before = plain.get_fontfamily()
    lettering.use_fonts_that_have_the_letters(figure)
    assert text.get_fontfamily() == [lettering.OWN_FAMILY, "Noto Sans CJK SC"]
    assert plain.get_fontfamily() == before


def test_pictures_come_out_without_a_warning(no_other_fonts: None, tmp_path: Path) -> None:
    figure = new_figure(4, 3, "猫.jpg")
    left, right = figure.subplots(1, 2)
    left.set_xlim(0, 64)
    left.set_ylim(64, 0)
    draw_boxes(left, np.array([[5.0, 9.0, 30.0, 40.0]]), np.array([1]), NAMES)
    draw_classes(right, NAMES, np.array([1, 9, 3, 0, 2]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_png(figure, tmp_path / "picture.png")
    assert [text.get_text() for text in left.texts] == ["class 1"]
    assert [tick.get_text() for tick in right.get_yticklabels()] == ["class 1", "class 2", "Ψ", "cat", "Straße"]
