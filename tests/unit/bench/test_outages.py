"""The bar on outages: what is lost, told twice, found or not told breaks it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.bars.outages import KINDS, WAYS, limits, rehearsed
from bench.outage_books import Books
from bench.outage_sites import Room, StoreSite
from bench.outages import Outcome, Plan
from relance.domain.faults import Scope
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.observations import LogBlock
from relance.ports.sources import Reading
from relance.rules import load_pack
from relance.rules.pack import read_texts

NOW = datetime(2026, 3, 1, tzinfo=UTC)
JOB = AttemptKey(job=JobKey(cluster="alpha", raw_id="1", submitted_at=NOW), restart_count=0)
SHORT = Plan(before_s=70.0, outage_s=60.0, after_s=130.0)


def reading(*lines: bytes) -> Reading:
    """A block of these lines."""
    data = b"".join(line + b"\n" for line in lines)
    block = LogBlock(file="job.out", offset=0, data=data, scope=Scope.APPLICATION, read_at=NOW)
    return Reading(blocks=(block,), positions={}, coverage=())


def test_lines_that_do_not_come_are_lost_and_those_that_come_twice_repeated() -> None:
    books = Books()
    for at, line in enumerate((b"one", b"two", b"three")):
        books.write(JOB, float(at), line)
    books.deliver(JOB, reading(b"one", b"two", b"one"))

    assert (books.lost(1.0), books.lost(2.0), books.repeated) == (0, 1, 1)


def test_what_a_killed_watcher_had_read_beyond_its_checkpoint_may_come_again() -> None:
    books = Books()
    for line in (b"one", b"two"):
        books.write(JOB, 0.0, line)
    books.deliver(JOB, reading(b"one"))
    books.keep(JOB)
    books.deliver(JOB, reading(b"two"))
    books.die()
    assert books.lost(0.0) == 1

    books.deliver(JOB, reading(b"two"))
    assert (books.lost(0.0), books.repeated) == (0, 0)


def test_a_job_whose_newest_exported_step_was_not_told_has_lost_it() -> None:
    books = Books()
    books.export(JOB, 1.0, 5)
    books.steps[JOB] = [3, 4]
    assert books.lost(1.0) == 1
    books.steps[JOB] += [5, 5]
    assert (books.lost(1.0), books.repeated) == (0, 1)


class Forgetful(StoreSite):
    """A store that has nothing of its outage afterwards."""

    def write(self, attempt: AttemptKey, line: str) -> None:
        """While it is away a line is written, and does not come into the store."""
        if self._store.is_away:
            self._room.booked(attempt, line)
        else:
            super().write(attempt, line)


def test_what_a_store_has_lost_itself_is_found_to_be_lost() -> None:
    pack = load_pack(read_texts())

    def forgetful(room: Room, _: Path) -> StoreSite:
        return Forgetful(room, "loki", keeps_repeats=False)

    whole, failures = rehearsed(KINDS["Loki"].make, SHORT, pack)
    assert (whole.lost, whole.repeated, whole.findings, failures) == (0, 0, (), [])
    assert whole.written_meanwhile > 60
    poor, _ = rehearsed(forgetful, SHORT, pack)
    assert abs(poor.lost - poor.written_meanwhile) <= 2, "but for lines of the very moment of its beginning and end"
    assert poor.caught_up_s is None


def outcome(**changes: object) -> Outcome:
    """One in which all went well."""
    well: dict[str, object] = {
        "findings": (), "written": 9, "written_meanwhile": 3, "lost": 0, "repeated": 0, "told_away_s": 10.0,
        "unsaid_looks": 0, "alarms_looks": 0, "caught_up_s": 1.0,
    }  # fmt: skip
    return Outcome(**(well | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({}, set()),
        ({"lost": 1}, {"Loki: lost"}),
        ({"repeated": 1}, {"Loki: repeated"}),
        ({"told_away_s": None}, {"Loki: loss told after"}),
        ({"told_away_s": 61.0}, {"Loki: loss told after"}),
        ({"unsaid_looks": 1}, {"Loki: loss not told"}),
        ({"alarms_looks": 1}, {"Loki: loss told where there is none"}),
    ],
)
def test_one_run_that_goes_wrong_breaks_the_bar_of_its_kind(changes: dict[str, object], broken: set[str]) -> None:
    found = limits("Loki", {WAYS[0]: outcome(), WAYS[1]: outcome(**changes)})

    assert {limit.name for limit in found if not limit.is_held} == broken


def test_a_folder_that_is_read_on_is_told_of_only_by_a_watcher_that_is_killed() -> None:
    name = "a folder that is moved away"
    unseen = outcome(told_away_s=None, unsaid_looks=99)

    assert all(limit.is_held for limit in limits(name, {WAYS[0]: unseen, WAYS[1]: outcome()}))
    assert not all(limit.is_held for limit in limits(name, {WAYS[0]: outcome(), WAYS[1]: unseen}))
