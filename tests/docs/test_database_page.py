from __future__ import annotations

import re

from relance.storage.schemas import VERSION_TABLE
from relance.storage.tables import METADATA
from tests.layers import ROOT

PAGE = ROOT / "docs" / "reference" / "database.md"


def test_every_table_has_its_line_and_every_line_its_table() -> None:
    named = re.findall(r"^\| `([a-z_]+)` \| (?:a|an|the|some|who|something)\b", PAGE.read_text(), re.MULTILINE)
    assert sorted(named) == sorted([*METADATA.tables, VERSION_TABLE])
