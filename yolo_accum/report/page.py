"""Pages: one self-contained HTML file each, with the charts' library in it. Nothing is loaded from elsewhere.

Charts are described here as plain data (see `page_charts`); ``templates/page.js`` hands them to Apache ECharts, which
comes with the package in ``assets/`` (docs/adr says why).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

LIBRARY = "echarts.min.js"
SIGNIFICANT_DIGITS = 6
"""Of numbers in a page; no screen shows more."""


def write_page(path: Path, template: str, content: Mapping[str, Any]) -> Path:
    """Fill a template and write the page; a reader never sees half of one.

    Args:
        path: is replaced if it exists.
        template: file in ``templates/``.
        content: what the template names, with ``charts`` and ``tables`` for the charts.
    Returns:
        ``path``.
    Raises:
        OSError: the file cannot be written (names it).
    """
    # A file name that is no UTF-8 can be part of an image id; it must not cost the page.
    text = render(template, content).encode("utf-8", "replace")
    temporary = path.with_name(f"{path.name}.part")
    try:
        temporary.write_bytes(text)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    return path


def render(template: str, content: Mapping[str, Any]) -> str:
    """The HTML of a page.

    Raises:
        LookupError: the content lacks something that the template names.
    """
    data = {name: plain(content.get(name, {})) for name in ("charts", "tables")}
    try:
        return _environment().get_template(template).render({**content, "page_data": data})
    except jinja2.UndefinedError as error:
        raise LookupError(str(error)) from error


def plain(value: Any) -> Any:
    """The same for JSON: numbers rounded, those that do not exist as None, arrays as lists."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        if value.is_integer() and abs(value) < 2**53:
            return int(value)
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    return value


def share(value: float | None, decimals: int = 3) -> str:
    """A share for a table: 0.123; a dash where it does not exist."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{decimals}f}"


def count(value: float | None) -> str:
    """A whole number with its thousands apart."""
    return "-" if value is None or not math.isfinite(value) else f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """For people: 45 s, 12 min, 3 h 05 min."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("yolo_accum.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"share": share, "count": count, "duration": duration}
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.globals |= {"library": _asset("assets", LIBRARY), "script": _asset("templates", "page.js")}
    environment.globals |= {"style": _asset("templates", "page.css")}
    return environment


def _asset(folder: str, name: str) -> str:
    return (resources.files("yolo_accum.report") / folder / name).read_text(encoding="utf-8")
