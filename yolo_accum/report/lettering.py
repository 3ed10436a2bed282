"""Texts in letters that matplotlib's own font lacks: other fonts of this machine stand in; without one, classes go by
number."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

OWN_FAMILY = "DejaVu Sans"
"""Comes with matplotlib."""
UNUSABLE = ("LastResort", "Last Resort", "Emoji")
"""Fonts of placeholders, and of pictures that matplotlib does not draw."""
NAMES_IN_NOTICE = 5


def class_label(class_names: Sequence[str], label: int) -> str:
    """The name of a class if it can be drawn, else its number.

    Args:
        label: 0..c-1.
    """
    name = class_names[label]
    return name if is_drawable(name) else f"class {label}"


def lettering_notice(class_names: Sequence[str]) -> str | None:
    """One sentence when pictures show some classes by number; None when all names can be drawn."""
    numbered = [f"class {label} is {name}" for label, name in enumerate(class_names) if not is_drawable(name)]
    if not numbered:
        return None
    more = f" and {len(numbered) - NAMES_IN_NOTICE} more" if len(numbered) > NAMES_IN_NOTICE else ""
    return (
        f"no font here has the letters of {len(numbered)} class names, so pictures show numbers: "
        f"{', '.join(numbered[:NAMES_IN_NOTICE])}{more}; a font such as Noto Sans CJK would change that"
    )


def is_drawable(text: str) -> bool:
    """Whether fonts of this machine have all its letters."""
    return all(_family(letter) for letter in text)


def use_fonts_that_have_the_letters(figure: Figure) -> None:
    """Let every text of a figure fall back on the fonts that it needs."""
    for artist in figure.findobj(Text):
        assert isinstance(artist, Text)
        families = dict.fromkeys(_family(letter) for letter in artist.get_text())
        others = [family for family in families if family and family != OWN_FAMILY]
        if others:
            artist.set_fontfamily([OWN_FAMILY, *others])


@functools.cache
def _family(letter: str) -> str | None:
    """A font family that has the letter, matplotlib's own if it can be; None when there is none."""
    if letter.isspace() or ord(letter) in _letters(findfont(FontProperties(family=OWN_FAMILY))):
        return OWN_FAMILY
    # Regular faces first, so that a text does not come out bold or slanted by chance; then by name, for the same
    # picture from one run to the next.
    fonts = sorted(
        fontManager.ttflist, key=lambda font: (font.style != "normal", font.weight not in (400, "normal"), font.name)
    )
    usable = (font for font in fonts if not any(word in font.name for word in UNUSABLE))
    return next((font.name for font in usable if ord(letter) in _letters(font.fname)), None)


@functools.cache
def _letters(path: str) -> frozenset[int]:
    """The code points that a font file has glyphs for; none if it cannot be used."""
    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
