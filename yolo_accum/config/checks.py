"""What the values of options are held to: one sentence that names the option, the value and what is allowed."""

from __future__ import annotations

from yolo_accum.errors import UserError


def check(option: str, value: object, ok: bool, allowed: str) -> None:
    """Raises:
    UserError: ``ok`` does not hold; the sentence ends with ``allowed``.
    """
    if not ok:
        raise UserError(f"--{option.replace('_', '-')} {value}: {allowed}")


def check_range(config: object, low: float, high: float, *options: str) -> None:
    """Raises:
    UserError: one of these options is not from ``low`` to ``high``.
    """
    for option in options:
        value = getattr(config, option)
        check(option, value, low <= value <= high, f"a number from {_spelled(low)} to {_spelled(high)} is needed")


def _spelled(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def check_at_least(config: object, low: float, *options: str) -> None:
    """Raises:
    UserError: one of these options is below ``low``.
    """
    for option in options:
        value = getattr(config, option)
        check(option, value, value >= low, f"a number of at least {low:g} is needed")
