from __future__ import annotations

import re
from typing import get_args

from relance.domain.ledgers import Entry, Outcome
from tests.layers import ROOT

PAGE = (ROOT / "docs" / "reference" / "ledger.md").read_text()


def test_the_page_names_every_type_of_line_and_no_other() -> None:
    section = PAGE.split("## Lines")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [kind.__name__ for kind in get_args(Entry)]


def test_the_page_names_every_outcome_of_a_command() -> None:
    line = next(line for line in PAGE.splitlines() if line.startswith("| `Did`"))
    assert set(re.findall(r"`(\w+)`", line)) == {"Did", *(outcome.value for outcome in Outcome)}
