"""The pages on rules: every packaged rule is on the reference page, and the how-to's rule is one that works."""

from __future__ import annotations

import re
from dataclasses import replace

from relance.rules import check_pack, load_pack
from relance.rules.entries import RuleEntry
from relance.rules.formats import CAPTURES
from relance.rules.pack import read_texts
from relance.rules.pages import render
from tests.layers import ROOT

HOW_TO = (ROOT / "docs" / "how-to" / "write-a-rule.md").read_text(encoding="utf-8")


def test_every_packaged_rule_has_its_place_on_the_page() -> None:
    pack = load_pack(read_texts())
    page = render(pack)
    kept, computed, metric = ([rule.id for rule in each] for each in (pack.rules, pack.derived, pack.metrics))
    assert [name for name in (*kept, *computed, *metric) if f"\n| `{name}` |" not in page] == []
    assert [name for name in CAPTURES if f"| `{name}` |" not in page] == []


def test_the_examples_of_the_how_to_load_and_their_examples_hold() -> None:
    rules, codes = re.findall(r"^```yaml\n(.*?)^```", HOW_TO, re.MULTILINE | re.DOTALL)
    pack = load_pack({**read_texts(), "site.yaml": rules, "codes.yaml": codes})
    own = tuple(rule for rule in pack.rules if rule.file in ("site.yaml", "codes.yaml"))
    assert {"cache-node-lost", "xid-199"} <= {rule.id for rule in own}
    assert check_pack(replace(pack, rules=own)) == ()  # the shipped ones are checked where they are tested


def test_the_how_to_explains_every_field() -> None:
    assert [name for name in RuleEntry.model_fields if f"`{name}" not in HOW_TO] == []
