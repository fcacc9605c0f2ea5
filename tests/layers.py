"""The layers as the import contract in `pyproject.toml` tells them, and what each package imports."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "src" / "relance"


def contract(identifier: str) -> dict[str, Any]:
    """One import contract of `pyproject.toml`."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    found: dict[str, Any] = next(each for each in contracts if each["id"] == identifier)
    return found


def layers() -> list[list[str]]:
    """The layers from the outermost to the innermost, each with the packages that stand side by side in it."""
    return [[name.strip(" ()") for name in layer.split("|")] for layer in contract("layers")["layers"]]


def packages() -> set[str]:
    """The packages and modules that lie directly under `relance` now."""
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return folders | {path.stem for path in PACKAGE.glob("*.py") if path.stem != "__init__"}


def modules() -> list[Path]:
    """Every Python file of the product."""
    return sorted(PACKAGE.rglob("*.py"))


def imports(package: str) -> Iterator[tuple[Path, str]]:
    """Each import anywhere in a package, with the file that has it."""
    single = PACKAGE / f"{package}.py"
    for path in [single] if single.exists() else sorted((PACKAGE / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield path, node.module
