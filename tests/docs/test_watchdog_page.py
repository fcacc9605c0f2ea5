"""The watchdog's reference has every setting, metric, alarm and state of a deed, and no other."""

from __future__ import annotations

import re
from dataclasses import fields

from relance.domain.deeds import SPOOL_FOLDER, DeedState
from relance.domain.watchdogs import MARK_FILE
from relance.slurm.ssh import Ssh
from relance.watchdog.alarms import Subject
from relance.watchdog.main import LOCK_NAME
from relance.watchdog.metrics import _HELP
from relance.watchdog.settings import _TOP, _WAY, EVERY_S, Rules
from tests.layers import ROOT

PAGE = (ROOT / "docs" / "reference" / "watchdog.md").read_text()


def rows(title: str) -> dict[str, list[str]]:
    """The rows of the first table of a section, by what stands in their first cell."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", section, re.MULTILINE)
    ]
    return {name: row[1:] for row in cells[2:] for name in re.findall(r"`([^`]+)`", row[0])}


def test_every_setting_is_there_with_its_default() -> None:
    shown = rows("Settings")
    names = {item.name for item in fields(Rules)}
    assert set(shown) == names | (_TOP - {"clusters"}) | {"[[clusters]]"} | _WAY
    for item in fields(Rules):
        value = getattr(Rules(), item.name)
        default = {"stage": "`observe`", "partitions": "all"}.get(item.name) or f"{value:g}"
        assert shown[item.name][0].replace("86400", f"{86400.0:g}") == default
    assert shown["every_s"][0] == f"{EVERY_S:g}"
    assert set(re.findall(r"`(\w+)`", shown["ssh"][1])) == {item.name for item in fields(Ssh)}


def test_every_metric_is_there_with_its_kind() -> None:
    assert {name: row[0] for name, row in rows("Metrics").items()} == {name: kind for name, (kind, _) in _HELP.items()}


def test_every_alarm_and_every_state_of_a_deed_is_there() -> None:
    assert list(rows("Alarms")) == [subject.value for subject in Subject]
    files = rows("Files")
    assert set(re.findall(r"`(\w+)`", files[f"{SPOOL_FOLDER}/ID.json"][0])) == {state.value for state in DeedState}
    assert {MARK_FILE, LOCK_NAME} <= set(files)
