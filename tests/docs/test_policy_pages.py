"""The pages on limits, guards and gates say what the code says."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass

import pytest

from relance.domain.limits import Limits
from relance.policy.gates import GATES
from relance.policy.guards import GUARDS
from tests.layers import ROOT

DOCS = ROOT / "docs"
UNITS = {"_s": "s", "_medians": "medians", "_share": "share"}


def rows(page: str, title: str) -> list[list[str]]:
    """The cells of the table that follows a heading or the head of a table."""
    text = (DOCS / page).read_text(encoding="utf-8")
    _, _, after = text.partition(title)
    assert after, f"{page} has no {title!r}"
    found = []
    for line in after.splitlines()[1:]:
        if line.startswith("| ") and not line.startswith(("| ---", "| limit")):
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif found:
            break
    return found


def groups() -> dict[str, object]:
    limits = Limits()
    inner = {f"## `limits.{item.name}`": getattr(limits, item.name) for item in fields(limits)}
    return {"## `limits`": limits} | {title: value for title, value in inner.items() if is_dataclass(value)}


@pytest.mark.parametrize("title", groups())
def test_every_limit_has_its_default_unit_and_meaning(title: str) -> None:
    group = groups()[title]
    assert is_dataclass(group)
    documented = {cells[0].strip("` "): cells[1:] for cells in rows("reference/limits.md", title)}
    assert list(documented) == [item.name for item in fields(group)]
    for item in fields(group):
        default, unit, meaning = documented[item.name]
        value = getattr(group, item.name)
        assert default == ("below" if is_dataclass(value) else f"`{value}`"), item.name
        assert meaning
        for ending, word in UNITS.items():
            if item.name.endswith(ending):
                assert unit == word, item.name


def test_the_table_of_guards_is_the_tuple_in_the_code() -> None:
    documented = [cells[:3] for cells in rows("explanation/policy.md", "| guard | yes means |")]
    unknown = {True: "hold", False: "go on after its grace time"}
    in_code = [[f"`{rule.name}`", rule.yes_means, unknown[rule.unknown_holds]] for rule in GUARDS]
    assert [[cell.strip() for cell in cells] for cells in documented] == in_code


def test_the_table_of_gates_is_the_tuple_in_the_code() -> None:
    documented = [cells[0] for cells in rows("explanation/policy.md", "| gate | yes means |")]
    assert documented == [f"`{name}`" for name, _ in GATES]


def test_the_page_on_attribution_has_every_word_of_the_restart_column() -> None:
    text = (DOCS / "explanation" / "attribution.md").read_text(encoding="utf-8")
    words = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert words == {"ok", "excl", "once", "no", "wait", "sched"}
