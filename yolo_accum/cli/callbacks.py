"""Callbacks of the user's own, from where `--callbacks` says."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from yolo_accum.config.named_object import named_object
from yolo_accum.config.options import closest
from yolo_accum.contracts import Observer
from yolo_accum.errors import UserError

EVENTS = tuple(name for name in vars(Observer) if name.startswith("on_"))
"""The methods that are called."""


def open_callbacks(places: Sequence[str]) -> list[tuple[str, Observer]]:
    """Make the callbacks that are named.

    Args:
        places: ``module:NAME`` (looked for in the working directory, too) or ``path/to/file.py:NAME``; NAME is a
            subclass of Observer, or a function that makes one, called without arguments.
    Returns:
        each with a name for messages.
    Raises:
        UserError: there is no such module, file or name, it cannot be made, or it is no observer.
    """
    return [(f"--callbacks {place}", _open(place)) for place in places]


def checked(callback: object, where: str) -> Observer:
    """The same object, once it is known to be one whose methods will be called.

    Raises:
        UserError: it is no Observer, or has a method ``on_...`` that is none of the events.
    """
    if isinstance(callback, type) and issubclass(callback, Observer):
        raise UserError(f"{where} is a class; an object of it is needed: {callback.__name__}(...)")
    if not isinstance(callback, Observer):
        raise UserError(
            f"{where} is of type {type(callback).__name__}; a callback is derived from yolo_accum.api.Observer"
        )
    for name in dir(callback):
        if name.startswith("on_") and name not in EVENTS:
            raise UserError(
                f"{where} has a method {name}, which would never be called{closest(name, EVENTS)}; there are "
                f"{', '.join(EVENTS)}"
            )
    return callback


def _open(place: str) -> Observer:
    where = f"--callbacks {place}"
    maker = named_object(place, "--callbacks")
    if isinstance(maker, Observer):
        return checked(maker, where)
    if not callable(maker):
        raise UserError(f"{where} is neither a class nor a function that makes a callback")
    try:
        callback = maker()
    except (Exception, SystemExit) as error:
        what = "the class" if inspect.isclass(maker) else "the function"
        raise UserError(
            f"{where}: {what}, called without arguments, failed ({type(error).__name__}: {error})"
        ) from error
    return checked(callback, where)
