"""The reference pages say what the code says, and every setting and event has a meaning."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", ROOT / "scripts" / "reference_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = _pages()


@cache
def _page(name: str) -> str:
    text: str = PAGES.PAGES[name]()
    return text


@pytest.mark.parametrize("name", sorted(PAGES.PAGES))
def test_the_committed_page_is_what_the_code_says(name: str) -> None:
    committed = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert committed == _page(name), "run python scripts/reference_pages.py"


@pytest.mark.parametrize("name", sorted(PAGES.PAGES))
def test_every_row_has_its_meaning(name: str) -> None:
    rows = [line for line in _page(name).splitlines() if re.match(r"\| `[a-z_]+` \|.*\|$", line)]
    assert rows
    for row in rows:
        assert all(cell.strip() for cell in row.strip("|").split("|")[:3]), row
