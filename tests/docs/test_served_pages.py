"""The pages about the command line, the API, metrics, notices and exit codes name everything that there is."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType
from typing import Any

import pytest

from relance.api import create_app
from relance.cli.failures import ExitCode
from relance.ports.notifiers import NoticeKind
from relance.serving.problems import KNOWN_ERRORS
from relance.telemetry.schedulers import PROCESS_METRICS
from tests.layers import ROOT
from tests.served.worlds import World

REFERENCE = ROOT / "docs" / "reference"


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cli_page", ROOT / "scripts" / "cli_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_the_command_line_is_what_the_commands_say() -> None:
    committed = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    assert committed == _script().page(), "run python scripts/cli_page.py"


def test_the_page_of_the_api_has_every_address_and_no_other() -> None:
    text = (REFERENCE / "api.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", text, re.MULTILINE))
    paths = create_app(World().parts).openapi()["paths"]
    assert documented == {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}


def test_the_page_of_the_api_has_every_code_of_an_error() -> None:
    text = (REFERENCE / "api.md").read_text(encoding="utf-8")
    assert [code for _, code, _ in KNOWN_ERRORS.values() if f"`{code}`" not in text] == []


async def test_the_page_of_metrics_has_every_metric_with_its_kind_and_labels() -> None:
    text = (REFERENCE / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(relance_\w+)` \| (\w+) \| ([^|]*)\|", text, re.MULTILINE)
    documented = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    made = World()
    app = create_app(made.parts)
    registries = (app.state.metrics.registry, PROCESS_METRICS)
    collectors: set[Any] = {
        each
        for registry in registries
        for each in registry._collector_to_names  # noqa: SLF001 - the registry lists them nowhere else
    }
    assert documented == {each._name: (each._type, each._labelnames) for each in collectors}  # noqa: SLF001 - the same


@pytest.mark.parametrize("kind", NoticeKind)
def test_the_page_about_notices_has_every_kind(kind: NoticeKind) -> None:
    assert f"| `{kind.value}` |" in (ROOT / "docs" / "how-to" / "be-told.md").read_text(encoding="utf-8")


def test_the_page_of_exit_codes_has_every_code() -> None:
    text = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d) \| `(\w+)` \|", text, re.MULTILINE) == [(str(int(c)), c.name) for c in ExitCode]
