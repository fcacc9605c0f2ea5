from __future__ import annotations

import re

from tests.layers import ROOT

RECORDS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))


def test_decision_records_are_numbered_without_a_gap() -> None:
    assert [int(path.name[:4]) for path in RECORDS] == list(range(1, len(RECORDS) + 1))


def test_a_decision_record_carries_its_number_and_the_parts_of_the_template() -> None:
    template = re.findall(r"^## (.*)$", (ROOT / "docs" / "decisions" / "template.md").read_text(), re.MULTILINE)
    for path in RECORDS:
        text = path.read_text()
        assert text.startswith(f"# {int(path.name[:4])}. "), path.name
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == template, path.name
