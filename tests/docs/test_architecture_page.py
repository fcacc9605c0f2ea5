from __future__ import annotations

import re

from tests.layers import ROOT, layers

PAGE = ROOT / "docs" / "explanation" / "architecture.md"


def test_the_architecture_page_names_the_layers_as_the_import_contract_does() -> None:
    table = PAGE.read_text().split("## The layers")[1].split("\n\n- ")[0].splitlines()
    rows = [line.split("|")[1] for line in table if line.startswith("| `")]
    assert [re.findall(r"`(\w+)`", row) for row in rows] == layers()
