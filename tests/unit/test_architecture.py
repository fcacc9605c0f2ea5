"""What the import contract cannot hold: sizes, names, and which packages live on the standard library alone."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.layers import PACKAGE, contract, imports, layers, modules, packages

MODULE_LINES = 400
FUNCTION_LINES = 60
PARAMETERS = 6
STANDARD_LIBRARY_AND = {
    "domain": set[str](),
    "ports": {"domain"},
    "slurm": set[str](),
    "watchdog": {"domain", "slurm"},
}
VAGUE_NAMES = {"base", "common", "core", "helper", "helpers", "manager", "misc", "util", "utils"}
VAGUE_ENDINGS = ("Helper", "Impl", "Manager", "Util", "Utils")


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{relative(path)}:{node.lineno} {node.name}", node


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_every_package_has_its_place_in_the_layers() -> None:
    assert packages() - {name for layer in layers() for name in layer} == set()


def test_no_module_outgrows_one_idea() -> None:
    sizes = {relative(path): len(path.read_text().splitlines()) for path in modules()}
    assert {name: size for name, size in sizes.items() if size > MODULE_LINES} == {}


def test_no_function_outgrows_a_screen() -> None:
    sizes = {name: (node.end_lineno or node.lineno) - node.lineno + 1 for name, node in functions()}
    assert {name: size for name, size in sizes.items() if size > FUNCTION_LINES} == {}


def test_no_function_asks_for_more_than_six_things() -> None:
    counts = {
        name: len([each for each in every(node.args) if each not in {"self", "cls"}]) for name, node in functions()
    }
    assert {name: count for name, count in counts.items() if count > PARAMETERS} == {}


def every(arguments: ast.arguments) -> list[str]:
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def test_the_inner_packages_and_the_watchdog_live_on_the_standard_library() -> None:
    foreign = []
    for package, allowed in STANDARD_LIBRARY_AND.items():
        ours = {f"relance.{name}" for name in allowed | {package}}
        foreign += [
            f"{relative(path)} imports {name}"
            for path, name in imports(package)
            if name.split(".")[0] not in sys.stdlib_module_names and ".".join(name.split(".")[:2]) not in ours
        ]
    assert foreign == []


def test_the_contracts_name_every_adapter_and_every_pure_package_that_exists() -> None:
    there = {f"relance.{name}" for name in packages()}
    adapters = {f"relance.{name}" for layer in layers() if "sources" in layer for name in layer} & there
    pure = {f"relance.{name}" for layer in layers() if {"policy", "rules", "domain"} & set(layer) for name in layer}
    assert set(contract("adapters-protected")["protected_modules"]) == adapters - {"relance.recovery"}
    assert set(contract("agents-know-ports")["forbidden_modules"]) >= adapters | ({"relance.slurm"} & there)
    assert set(contract("pure-core")["source_modules"]) == pure & there


def test_no_name_is_vague() -> None:
    files = {relative(path) for path in PACKAGE.rglob("*") if path.stem in VAGUE_NAMES}
    classes = {
        f"{relative(path)} {node.name}"
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.name.endswith(VAGUE_ENDINGS)
    }
    assert files | classes == set()
