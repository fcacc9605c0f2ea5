"""Settings of gates: what is taken, in which words the rest is refused, and what policy makes of it."""

from __future__ import annotations

from datetime import time
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from relance.bootstrap.controllers import slurm_settings
from relance.bootstrap.sites import opted_in_of, site_of
from relance.config import SettingError, Settings, load_settings
from relance.config.settings import SlurmSchedulerSettings
from relance.domain.quiet_hours import QuietHours
from relance.recovery.sites import ClusterRules

CLUSTER = """state_dir: /tmp/relance
time_zone: Europe/Paris
clusters:
  - name: alpha
    scheduler: {kind: slurm}
"""


def _load(tmp_path: Path, lines: str) -> Settings:
    path = tmp_path / "relance.yaml"
    path.write_text(CLUSTER + "".join(f"    {line}\n" for line in lines.splitlines()))
    return load_settings(path)


def _rules(tmp_path: Path, lines: str) -> ClusterRules:
    return site_of(_load(tmp_path, lines)).rules("alpha")


@pytest.mark.parametrize(
    ("rule", "partitions", "accounts"),
    [
        ("all", None, None),
        ("none", frozenset(), None),
        ("[gpu, big]", frozenset({"gpu", "big"}), None),
        ("{partitions: [gpu], accounts: [ml, nlp]}", frozenset({"gpu"}), frozenset({"ml", "nlp"})),
        ("{accounts: [ml]}", None, frozenset({"ml"})),
        ("{partitions: all, accounts: all}", None, None),
    ],
)
def test_jobs_are_opted_in_by_partition_and_by_account(
    tmp_path: Path, rule: str, partitions: frozenset[str] | None, accounts: frozenset[str] | None
) -> None:
    settings = _load(tmp_path, f"opt_in: {rule}")
    assert opted_in_of(settings.clusters[0]) == (partitions, accounts)
    scheduler = settings.clusters[0].scheduler
    assert isinstance(scheduler, SlurmSchedulerSettings)
    told = slurm_settings(settings.clusters[0], scheduler)
    assert (told.opted_in is None, told.opted_in_accounts is None) == (partitions is None, accounts is None)


def test_partition_and_account_both_have_to_be_right(tmp_path: Path) -> None:
    rules = _rules(tmp_path, "opt_in: {partitions: [gpu], accounts: [ml]}")
    assert rules.covers("gpu", "ml")
    assert not rules.covers("gpu", "nlp")
    assert not rules.covers("gpu,big", "ml")
    assert not rules.covers("gpu")


def test_partitions_in_which_may_be_acted_are_named(tmp_path: Path) -> None:
    rules = _rules(tmp_path, "act_partitions: [gpu]")
    assert rules.bars("gpu") == ""
    assert "act in gpu, not in gpu,big" in rules.bars("gpu,big")
    assert "act in none" in _rules(tmp_path, "act_partitions: []").bars("gpu")
    assert _rules(tmp_path, "hang_after_s: 600").bars("gpu") == ""


def test_quiet_hours_are_local_times_of_the_sites_zone(tmp_path: Path) -> None:
    lines = (
        'quiet_hours:\n  - {from: 18:00, to: "06:30", days: [mon, sun], partitions: [debug]}\n'
        '  - {from: "20:00", to: "24:00"}'
    )
    quiet = _rules(tmp_path, lines).quiet
    assert quiet.zone == ZoneInfo("Europe/Paris")
    assert quiet.hours == (
        QuietHours(begins=time(18), ends=time(6, 30), days=frozenset({0, 6}), partitions=frozenset({"debug"})),
        QuietHours(begins=time(20), ends=time(0)),
    )


REFUSED = {
    "a time that is none": ('quiet_hours: [{from: "25:00", to: "06:00"}]', "time of day"),
    "an hour alone": ('quiet_hours: [{from: 18, to: "24:00"}]', "time of day"),
    "a word": ("quiet_hours: [{from: noon, to: 18:00}]", "time of day"),
    "a day that is none": ('quiet_hours: [{from: "08:00", to: "09:00", days: [someday]}]', "days"),
    "no end": ('quiet_hours: [{from: "08:00"}]', "to"),
    "hours without end": ('quiet_hours: [{from: "00:00", to: "24:00"}]', "always be quiet"),
    "hours without end in one partition": (
        'quiet_hours: [{from: "08:00", to: "20:00"}, {from: "20:00", to: "08:00", partitions: [a]}]', "always be quiet",
    ),
    "an empty list": ("opt_in: {accounts: []}", "opts nobody in"),
    "a bare partition": ("opt_in: gpu", "list of partitions such as [gpu]"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_meant_is_refused_in_words(tmp_path: Path, name: str) -> None:
    lines, words = REFUSED[name]
    with pytest.raises(SettingError) as error:
        _load(tmp_path, lines)
    assert words in str(error.value)
