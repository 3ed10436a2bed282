"""Large JSON files, read record by record: a list of a million objects is never a million Python objects at a time.

msgspec reads what is plain (seven times as fast as Python's own reader, as it passes over what nobody asks for). What
it does not take as it is, and everything that has to be said about a fault, goes through Python's reader.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, overload

import msgspec


class Records(Sequence[dict[str, Any]]):
    """The objects of a JSON list, each made when it is asked for.

    Args:
        raws: their texts.
    """

    def __init__(self, raws: Sequence[msgspec.Raw]) -> None:
        self._raws = raws

    def __len__(self) -> int:
        return len(self._raws)

    @overload
    def __getitem__(self, place: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(place, slice):
            return [json.loads(bytes(raw)) for raw in self._raws[place]]
        return json.loads(bytes(self._raws[place]))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (json.loads(bytes(raw)) for raw in self._raws)

    def plain(self, place: slice, kind: type[msgspec.Struct]) -> list[Any] | None:
        """Some of them as ``kind``; None when one does not have that form."""
        decode = msgspec.json.Decoder(kind).decode
        try:
            return [decode(raw) for raw in self._raws[place]]
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None


def read_json(text: bytes, lists: Sequence[str]) -> Any:
    """What a JSON text holds; the lists of objects under the keys ``lists`` of an object as ``Records``.

    Args:
        text: UTF-8, perhaps with a byte order mark.
        lists: keys of the outermost object.
    Raises:
        ValueError, RecursionError: as ``json.loads`` and ``bytes.decode``.
    """
    records = _records(text.removeprefix(b"\xef\xbb\xbf"), lists)
    return json.loads(text.decode("utf-8-sig")) if records is None else records


def _records(text: bytes, lists: Sequence[str]) -> dict[str, Any] | None:
    """None where Python's reader has to have a look."""
    if not text.isascii():
        try:
            text.decode()  # msgspec passes over what it does not need without looking at its characters
        except UnicodeDecodeError:
            return None
    try:
        parts = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        content: dict[str, Any] = {}
        for key, raw in parts.items():
            if key in lists:
                raws = msgspec.json.decode(raw, type=list[msgspec.Raw])
                if not all(memoryview(item)[:1] == b"{" for item in raws):
                    return None
                content[key] = Records(raws)
            else:
                content[key] = json.loads(bytes(raw))
        return content
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def json_kind(value: Any) -> str:
    """What JSON calls a value: "a number", "null"."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    for kinds, name in (((int, float), "a number"), (str, "a text"), (list, "a list")):
        if isinstance(value, kinds):
            return name
    return "an object"
