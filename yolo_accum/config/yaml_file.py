"""YAML files that people write: read in one place, so that the same faults are told in the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from yolo_accum.errors import UserError


class _StrictLoader(yaml.SafeLoader):
    """Plain values only, and no key twice: the second would silently replace the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    problem = f"{key.value} stands twice"
                    raise yaml.constructor.ConstructorError(problem=problem, problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path, where: str | None = None, hint: str = "") -> Any:
    """The content of a file, as plain values.

    Args:
        where: what an error begins with; the path by default.
        hint: what an error about a file that cannot be read ends with.
    Raises:
        UserError: it cannot be read, is no YAML of plain values, or has a key twice; says in which line.
    """
    where = where or str(path)
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except OSError as error:
        raise UserError(f"{where}: {error.strerror}{hint}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{where}: not a YAML file of plain values: {' '.join(str(error).split())}") from error
