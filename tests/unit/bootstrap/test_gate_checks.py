"""The gates of a cluster in words: open or closed, and when time alone changes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from relance.bootstrap.gate_checks import GateCheck, gate_checks
from relance.bootstrap.states import StateFolder
from relance.config import Settings
from relance.domain.stages import Stage
from relance.domain.watchdogs import MARK_FILE, WatchdogMark, mark_text

MONDAY = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
QUIET = [{"from": "08:00", "to": "18:00", "days": ["mon"], "partitions": ["debug"]}, {"from": "22:00", "to": "06:00"}]


def _gates(tmp_path: Path, **cluster: object) -> list[GateCheck]:
    settings = Settings.model_validate(
        {"state_dir": tmp_path, "time_zone": "Europe/Paris", "clusters": [{"name": "alpha", **cluster}]}
    )
    return list(gate_checks(settings, settings.clusters[0], MONDAY))


def _said(gates: list[GateCheck], name: str) -> list[tuple[bool, str]]:
    return [(gate.open, gate.says) for gate in gates if gate.name == name]


def test_a_cluster_as_installed_lets_nobody_in_who_does_not_ask(tmp_path: Path) -> None:
    gates = _gates(tmp_path)
    assert [gate.name for gate in gates if not gate.open] == ["watchdog"]
    assert _said(gates, "opt_in") == [(True, "no job is opted in: each has to ask for it in its comment")]
    assert _said(gates, "quiet_hours") == [(True, "there are none")]


def test_partitions_accounts_and_numbers_are_said(tmp_path: Path) -> None:
    gates = _gates(
        tmp_path,
        act_partitions=["gpu"],
        opt_in={"partitions": ["gpu", "big"], "accounts": ["ml"]},
        limits={"restarts": {"at_once": 4}},
    )
    assert _said(gates, "partition")[0][1].startswith("may be acted in gpu")
    assert _said(gates, "opt_in")[0][1].startswith("jobs in big, gpu of account ml are opted in")
    assert "at most 4 at once" in _said(gates, "recoveries")[0][1]


def test_quiet_hours_are_said_with_their_next_end_or_beginning(tmp_path: Path) -> None:
    now, later = (gate for gate in _gates(tmp_path, quiet_hours=QUIET) if gate.name == "quiet_hours")
    assert (now.open, now.changes_at) == (False, datetime(2026, 1, 5, 17, 0, tzinfo=UTC))
    assert "mon 08:00 to 18:00 in debug (Europe/Paris): quiet hours until 2026-01-05 17:00 UTC" in now.says
    assert (later.open, later.changes_at) == (True, datetime(2026, 1, 5, 21, 0, tzinfo=UTC))


def test_the_file_that_stops_a_controller_is_seen(tmp_path: Path) -> None:
    folder = StateFolder(path=tmp_path).controller("alpha")
    folder.mkdir(parents=True)
    (folder / "STOP").touch()
    assert [gate.open for gate in _gates(tmp_path) if gate.name == "controller"] == [False]


def test_the_watchdogs_mark_says_whether_a_hold_would_be_freed(tmp_path: Path) -> None:
    assert _said(_gates(tmp_path), "watchdog")[0][0] is False
    folder = StateFolder(path=tmp_path).controller("alpha")
    folder.mkdir(parents=True)
    mark = WatchdogMark(cluster="alpha", at=MONDAY, every_s=5.0, stage=Stage.ACT, partitions=("gpu",))
    (folder / MARK_FILE).write_text(mark_text(mark))
    assert _said(_gates(tmp_path), "watchdog") == [(True, "it watches partition gpu at stage act")]
    (folder / MARK_FILE).write_text(mark_text(replace(mark, stage=Stage.OBSERVE)))
    ((is_open, says),) = _said(_gates(tmp_path), "watchdog")
    assert (is_open, says.split(":")[0]) == (False, "the watchdog is at stage observe")
    for at, words in ((-16, "last seen 16 s ago"), (60, "mark is 60 s ahead of the clock")):
        (folder / MARK_FILE).write_text(mark_text(replace(mark, at=MONDAY + timedelta(seconds=at))))
        ((is_open, says),) = _said(_gates(tmp_path), "watchdog")
        assert (is_open, words in says) == (False, True)
