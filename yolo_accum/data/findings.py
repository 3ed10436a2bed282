"""What is found while a data set is read. Every kind of finding is declared here, once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from yolo_accum.errors import UserError, printable

Severity = Literal["error", "warning", "info"]

MAX_PLACES = 100
"""Places that a finding keeps; the count is always the full one."""

MAX_MARKS = 8
"""Pictures that a finding keeps to be shown."""

_PLACES_IN_TEXT = 5


@dataclass(frozen=True, kw_only=True)
class FindingKind:
    """One kind of oddity."""

    code: str
    severity: Severity
    what: str
    """Names the things counted, in the plural."""
    verdict: str
    """What was done about it; for an error, what is allowed."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A place that can be shown."""

    picture: str
    """Absolute path."""
    box_xyxy_px: tuple[float, float, float, float] | None = None
    """Of the picture as it is loaded, as it is written: it may lie outside or have no area."""
    label: str = ""
    """Written beside it."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """All occurrences of one kind in one file."""

    kind: FindingKind
    source: Path
    """The file that describes the split."""
    count: int
    places: tuple[str, ...]
    """The first of them: picture, file and line or annotation id, and the value where it helps."""
    note: str = ""
    """What holds for all of them, such as the folders that were searched."""
    marks: tuple[Mark, ...] = ()
    """The first of them that can be shown."""

    def __str__(self) -> str:
        shown = list(self.places[:_PLACES_IN_TEXT])
        if self.count > len(shown) and shown:
            shown.append("...")
        places = f" ({'; '.join(shown)})" if shown else ""
        note = f"; {self.note}" if self.note else ""
        return f"{self.source}: {self.kind.what}: {self.count}{places}{note}; {self.kind.verdict}"

    def as_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            "code": self.kind.code,
            "severity": self.kind.severity,
            "source": str(self.source),
            "what": self.kind.what,
            "verdict": self.kind.verdict,
            "count": self.count,
            "places": list(self.places),
            "note": self.note,
        }


class FindingLog:
    """Collects findings while a data set is read, so that all faults are told at once."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self._findings)

    def add(
        self,
        kind: FindingKind,
        source: Path,
        count: int,
        places: Iterable[str] = (),
        note: str = "",
        marks: Iterable[Mark] = (),
    ) -> None:
        """Records a finding; nothing when ``count`` is 0, or when the very same one has been recorded.

        Args:
            kind: one of the kinds below.
            source: the file that describes the split.
            count: all occurrences.
            places: where they are, first ones first; only the first ``MAX_PLACES`` are drawn from it.
            note: what holds for all of them.
            marks: pictures that show them; only the first ``MAX_MARKS`` are drawn from it.
        """
        if count:
            kept = tuple(map(printable, islice(places, min(count, MAX_PLACES))))
            shown = tuple(islice(marks, MAX_MARKS))
            finding = Finding(kind=kind, source=source, count=count, places=kept, note=note, marks=shown)
            if finding not in self._findings:  # one file may serve as both splits
                self._findings.append(finding)

    def extend(self, findings: Iterable[Finding]) -> None:
        """Records findings of another log, those that are new here."""
        self._findings += [finding for finding in findings if finding not in self._findings]

    def raise_errors(self) -> None:
        """Raises:
        UserError: there are findings of severity "error"; all of them are named.
        """
        errors = [str(finding) for finding in self._findings if finding.kind.severity == "error"]
        if errors:
            raise UserError("\n".join(errors))


def _error(code: str, what: str, allowed: str) -> FindingKind:
    return FindingKind(code=code, severity="error", what=what, verdict=allowed)


def _warning(code: str, what: str, done: str) -> FindingKind:
    return FindingKind(code=code, severity="warning", what=what, verdict=done)


def _info(code: str, what: str, done: str) -> FindingKind:
    return FindingKind(code=code, severity="info", what=what, verdict=done)


# Pictures.
MISSING_PICTURE = _error(
    "missing-picture", "pictures that are not there", "every picture that is listed must be on disk"
)
UNREADABLE_PICTURE = _warning("unreadable-picture", "pictures that cannot be read", "left out, with their boxes")
WRONG_SIZE = _warning("wrong-size", "pictures of another size than written", "the size of the picture is used")
ODD_SIZE = _warning(
    "odd-size",
    "pictures whose width or height is not written as a whole number of pixels",
    "the size of the picture is used",
)
DEEP_PICTURE = _warning(
    "deep-picture",
    "pictures of 16 bits a channel",
    "their upper 8 bits are used; values that lie close together look alike, so stretch them before if they do",
)
STORED_FRAME = _warning(
    "stored-frame", "pictures described as they are stored, without their EXIF turn", "boxes turned with the picture"
)
RESPELLED_PICTURE = _warning(
    "respelled-picture", "pictures that are there under another name than written", "the file that is there is used"
)
DUPLICATE_IMAGE_ID = _error("duplicate-image-id", "image ids given twice", "every image needs an id of its own")
DUPLICATE_PICTURE = _warning("duplicate-picture", "pictures listed more than once", "used once for every different id")
REPEATED_PICTURE = _warning("repeated-picture", "pictures listed more than once", "used once")
SHARED_PICTURE = _warning(
    "shared-picture", "validation pictures that are training pictures too", "kept, but validation will look too good"
)
BACKGROUND = _info("background", "pictures without objects", "used as background")

# Classes.
UNDECLARED_CLASS = _error(
    "undeclared-class", "annotations of a category that is not declared", 'declare it in "categories" or remove them'
)
CLASS_OUT_OF_RANGE = _error(
    "class-out-of-range", "label rows with a class out of range", '"names" in the data YAML declares the classes'
)
EMPTY_CLASS = _warning("empty-class", "classes without any box", "kept as classes")
SAME_CLASS_NAME = _warning("same-class-name", "class names given twice", "kept apart by their ids")
FOREIGN_CLASS = _error(
    "foreign-class", "objects of a class that is not among those trained", "classes are matched by name"
)

# Annotations of COCO files.
UNKNOWN_IMAGE = _warning("unknown-image", "annotations of an image that is not listed", "left out")
REPEATED_ANNOTATION_ID = _warning("repeated-annotation-id", "annotation ids given again", "ids ignored, every box kept")
NUMBERS_AS_TEXT = _warning("numbers-as-text", "boxes with numbers written as text", "read as numbers")
BOX_FROM_MASK = _warning("box-from-mask", "masks without a box", "the enclosing box is used")
ODD_CROWD = _warning("odd-crowd", "annotations with another iscrowd than 0 or 1", "read as 0")
ODD_AREA = _warning("odd-area", "annotations whose area is no finite number", "the area of the box is used")
BAD_BOX = _error("bad-box", "boxes of another form", "four numbers are needed: [left, top, width, height]")
BAD_MASK = _error("bad-mask", "masks that cannot be read", "polygons or run lengths are needed where there is no bbox")
NO_ANNOTATIONS = _warning("no-annotations", 'files without "annotations"', "read as pictures without objects")

# Files of Pascal VOC.
OTHER_FILENAME = _warning(
    "other-filename",
    'XML files whose "filename" is another picture than that of their own name',
    "the picture of their own name is used where there is exactly one",
)

# Shapes of labelling tools.
NO_CLASS = _error("no-class", "objects without a class", "every object needs the name of its class")
BAD_CORNERS = _error("bad-corners", "shapes without usable coordinates", "numbers are needed for all corners")
OTHER_SHAPE = _warning("other-shape", "points, strokes and other shapes that enclose nothing", "left out")
OTHER_ANNOTATION = _warning("other-annotation", "pictures that were annotated more than once", "the last one counts")

# Rows of label files.
BAD_ROW = _error(
    "bad-row",
    "label rows of another form",
    "a row is a class number and x_centre y_centre width height, or a class number and an outline x1 y1 x2 y2 x3 y3 "
    "..., separated by spaces",
)
NOT_FRACTIONS = _error(
    "not-fractions", "label rows that seem to be in pixels", "values must be fractions of the picture's size, 0 to 1"
)
POLYGON_ROW = _warning("polygon-row", "outlines in place of boxes", "the enclosing box is used")
LABEL_WITHOUT_PICTURE = _warning("label-without-picture", "label files without a picture", "ignored")
MISSING_LABEL = _info("missing-label", "pictures without a label file", "used as background")
DROPPED_DOTS = _info("dropped-dots", "paths that exist only without the leading ../", "read without it")
MISSING_TEST = _info("missing-test", "test splits that are named and not there", "there is no test split")
MISSING_ROOT = _warning(
    "missing-root", '"path" entries that are no folder here', "the data YAML's own folder is used instead"
)

# Boxes of every format.
NOT_FINITE = _error("not-finite", "boxes with a value that is no finite number", "finite numbers are needed")
ZERO_SIZE = _warning("zero-size", "boxes without area", "left out")
INVERTED_BOX = _warning(
    "inverted-box", "boxes of negative width or height (right before left, or bottom above top)", "left out"
)
TINY_BOX = _warning("tiny-box", "boxes narrower or lower than a tenth of a pixel of their picture", "left out")
OUTSIDE = _warning("outside", "boxes wholly outside the picture", "left out")
CLIPPED = _warning("clipped", "boxes that leave the picture", "clipped to it")
DUPLICATE_BOX = _warning("duplicate-box", "boxes given again (same picture, class and place)", "used once")
NO_OBJECTS = _warning("no-objects", "validation splits without any object", "no accuracy can be measured on it")

# What only a check of the whole data set tells.
UNUSABLE = _error("unusable", "faults that reading cannot get past", "a training stops here")
UNDECODABLE_PICTURE = _warning(
    "undecodable-picture", "pictures that look whole and cannot be decoded", "grey and without boxes in training"
)
SHARED_BETWEEN_SPLITS = _warning(
    "shared-between-splits",
    "pictures that another split has too",
    "kept, but what is measured on them will look too good",
)
UNSEEN_CLASS = _warning(
    "unseen-class", "classes with objects in this split and none in training", "kept, but never learned"
)
UNMEASURED_CLASS = _info(
    "unmeasured-class", "trained classes without any object in this split", "kept; no accuracy is measured for them"
)
SAME_PICTURE = _warning(
    "same-picture", "pictures whose file has the content of another one of this split", "each of them is used"
)
OTHER_BOXES = _warning(
    "other-boxes", "copies of a picture that have other objects than the picture", "both are learned, one is wrong"
)
LEAKED_PICTURE = _warning(
    "leaked-picture",
    "pictures whose file has the content of one of another split",
    "kept, but what is measured on them will look too good",
)
SIMILAR_PICTURE = _info(
    "similar-picture", "pictures that look nearly like another one of this split", "each of them is used"
)
LEAKED_SIMILAR = _warning(
    "leaked-similar",
    "pictures that look nearly like one of another split",
    "kept, but what is measured on them will look too good",
)
COINCIDING_BOXES = _warning(
    "coinciding-boxes",
    "pairs of boxes of one class that nearly coincide (IoU 0.9)",
    "both are used; one object, it seems",
)
TWO_CLASSES = _info(
    "two-classes", "pairs of boxes of two classes that nearly coincide (IoU 0.9)", "both are used; one object, it seems"
)
