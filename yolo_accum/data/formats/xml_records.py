"""XML files that label things: read a record at a time, and nothing in them is ever followed or expanded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from yolo_accum.errors import UserError

_CHUNK_BYTES = 1 << 20


def xml_records(path: Path, root: str) -> Iterator[Element]:
    """The children of the root element, one after another; only one is in memory at a time.

    Entity declarations are refused: a few lines of them can fill any memory or name a file of this machine, and no
    labelling tool writes one.

    Args:
        path: the file.
        root: what its root element must be called.
    Raises:
        UserError: it cannot be read, is not XML, has another root or declares entities.
    """
    collector = _Collector(path, root)
    parser = collector.parser
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                parser.Parse(chunk, False)
                yield from collector.take()
        parser.Parse(b"", True)
        yield from collector.take()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
    except UserError:
        raise
    except (LookupError, ValueError) as error:
        raise _other_encoding(path, error) from error
    except expat.ExpatError as error:
        raise UserError(
            f"{path} is not XML: {expat.ErrorString(error.code)} in line {error.lineno}, column {error.offset + 1}"
        ) from error


def xml_root(path: Path) -> str:
    """The name of the root element; empty when the file is not XML.

    Raises:
        UserError: its first line names an encoding that is not read, or it declares entities.
    """
    try:
        with path.open("rb") as file:
            collector = _Collector(path, "")
            collector.parser.Parse(file.read(_CHUNK_BYTES), False)
    except _OtherRootError as error:
        return error.name
    except UserError:
        raise
    except (LookupError, ValueError) as error:
        raise _other_encoding(path, error) from error
    except (OSError, expat.ExpatError):
        return ""
    return ""


def _other_encoding(path: Path, error: Exception) -> UserError:
    return UserError(f"{path} cannot be read as XML: {error}; save it as UTF-8")


class _OtherRootError(UserError):
    def __init__(self, path: Path, name: str, wanted: str) -> None:
        super().__init__(f"{path}: the root element is <{name}>; <{wanted}> is needed")
        self.name = name


class _Collector:
    """Builds the children of the root element."""

    def __init__(self, path: Path, root: str) -> None:
        self._path, self._root = path, root
        self._depth = 0
        self._builder = TreeBuilder()
        self._done: list[Element] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.EntityDeclHandler = self._refuse_entity

    def take(self) -> list[Element]:
        """What has become complete since the last call."""
        done, self._done = self._done, []
        return done

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._depth == 0 and name != self._root:
            raise _OtherRootError(self._path, name, self._root)
        if self._depth > 0:
            self._builder.start(name, attributes)
        self._depth += 1

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._depth > 0:
            self._builder.end(name)
        if self._depth == 1:
            self._done.append(self._builder.close())
            self._builder = TreeBuilder()

    def _text(self, text: str) -> None:
        if self._depth > 1:
            self._builder.data(text)

    def _refuse_entity(self, name: str, *_: object) -> NoReturn:
        raise UserError(f"{self._path} declares the entity {name!r}; files with entity declarations are not read")


def text_of(element: Element, tag: str) -> str:
    """The text of a child element, empty where there is none."""
    return (element.findtext(tag) or "").strip()
