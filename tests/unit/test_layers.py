"""The imports of the package run one way; see docs/adr/0001-layout-and-layers.md."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import yolo_accum

PACKAGE = Path(yolo_accum.__file__).parent
MODULES = {
    ".".join(("yolo_accum", *path.relative_to(PACKAGE).with_suffix("").parts)): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
SIBLINGS = ("data", "model", "loss", "engine", "metrics", "report")
SHARED = ("yolo_accum.contracts", "yolo_accum.errors", "yolo_accum.config")

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "yolo_accum.contracts": (),
    "yolo_accum.errors": (),
    "yolo_accum.config": ("yolo_accum.config", "yolo_accum.errors"),
    **{f"yolo_accum.{layer}": (f"yolo_accum.{layer}", *SHARED) for layer in SIBLINGS},
    "yolo_accum.cli": ("yolo_accum",),
    "yolo_accum.api": ("yolo_accum",),
}
"""Package or module, and what of this project it may import."""

SOLE_IMPORTERS = {
    "albumentations": {"yolo_accum.data.augment"},
    "imagehash": {"yolo_accum.data.check.fingerprints"},
    "pycocotools": {"yolo_accum.metrics.coco"},
    "hotcoco": {"yolo_accum.metrics.coco"},
    "jsonargparse": {"yolo_accum.config.load"},
    "torch.distributed": {"yolo_accum.engine.distributed"},
}


def imported_names(path: Path) -> list[tuple[str, int]]:
    """Everything that a module imports anywhere in it, functions included, as full names with line numbers."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import hides which layer is meant"
            names += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names += [(f"{node.value.id}.{node.attr}", node.lineno)] if node.value.id == "torch" else []
    return names


def lies_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_a_layer_imports_only_what_lies_below_it(layer: str) -> None:
    offences = [
        f"{path}:{line} imports {name}"
        for module, path in MODULES.items()
        if lies_in(module, layer)
        for name, line in imported_names(path)
        if lies_in(name, "yolo_accum") and not any(lies_in(name, allowed) for allowed in MAY_IMPORT[layer])
    ]

    assert offences == []


def test_every_module_belongs_to_a_layer() -> None:
    outside = [module for module in MODULES if not any(lies_in(module, layer) for layer in MAY_IMPORT)]

    assert outside == ["yolo_accum.__init__", "yolo_accum.__main__"]


@pytest.mark.parametrize("library", SOLE_IMPORTERS)
def test_an_exchangeable_library_has_one_importer(library: str) -> None:
    importers = {
        module for module, path in MODULES.items() if any(lies_in(name, library) for name, _ in imported_names(path))
    }

    assert importers == SOLE_IMPORTERS[library]


def test_contracts_know_only_torch_and_numpy() -> None:
    foreign = {name.split(".")[0] for name, _ in imported_names(MODULES["yolo_accum.contracts"])} - {"__future__"}

    assert foreign - sys.stdlib_module_names == {"torch", "numpy"}


def test_modules_are_imported_at_the_top_so_that_no_cycle_can_hide() -> None:
    offences = [
        f"{path}:{node.lineno}"
        for path in MODULES.values()
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]

    assert offences == []


def test_the_wheel_holds_every_package() -> None:
    project = PACKAGE.parent / "pyproject.toml"
    if not project.is_file():
        pytest.skip("not a checkout")
    listed = re.findall(
        r'"(yolo_accum[\w.]*)"', project.read_text(encoding="utf-8").split("\npackages = [")[1].split("]")[0]
    )
    found = [module.removesuffix(".__init__") for module in MODULES if module.endswith(".__init__")]
    folders = [f"yolo_accum.cfg.{path.name}" for path in (PACKAGE.parent / "cfg").iterdir() if path.is_dir()]

    assert sorted(listed) == sorted([*found, "yolo_accum.cfg", *folders])
