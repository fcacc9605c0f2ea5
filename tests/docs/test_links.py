from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.layers import ROOT

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    written = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]
    return sorted([*ROOT.glob("*.md"), *written])


@pytest.mark.parametrize("page", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_something(page: Path) -> None:
    targets = [first or second for first, second in LINK.findall(CODE.sub("", page.read_text()))]
    inside = [target.split("#")[0] for target in targets if not re.match(r"[a-z][a-z0-9+.-]*:", target)]
    assert [target for target in inside if target and not (page.parent / target).exists()] == []
