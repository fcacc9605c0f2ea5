"""What keeps an advice from being carried out, in words, with the time at which it opens by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import time, timedelta

from relance.domain.advice import Lease
from relance.domain.faults import Remedy
from relance.domain.incidents import IncidentState
from relance.domain.quiet_hours import QuietHours, QuietWeek
from relance.domain.stages import EffectiveStage, Stage
from relance.domain.views import ClusterReport, SchedulerFacts
from relance.recovery.gatings import Around, Standpoint, closed, waits_for
from relance.recovery.live import Live
from relance.recovery.sites import ClusterRules
from relance.recovery.standings import GivenLease, lease_seen
from relance.testing import history_values as values
from tests.unit.recovery.situations import FAILED, FIRST, at, seen, with_incident

LEASE = Lease(cluster="alpha", holder="one", epoch=1, duration_s=16.0)
REPORT = ClusterReport(
    cluster="alpha", session="one/1", sequence=1, as_of=at(120), facts=SchedulerFacts(release="x", may_act=True),
    jobs=(), nodes=(),
)  # fmt: skip
RECORD = with_incident(seen(FAILED))
ADVICE = replace(
    values.advice_issued().advice, attempt=FIRST, action=Remedy.RESTART, hold=False, expires_at=at(400), guards=()
)
STANDPOINT = Standpoint(
    incident=replace(RECORD.incidents[-1], state=IncidentState.ADVISED, advice=ADVICE),
    record=RECORD,
    stage=EffectiveStage(stage=Stage.ACT, end_running=frozenset(), why=("set",)),
    rules=ClusterRules(cluster="alpha", opted_in=None),
    report=REPORT,
    now=at(120),
)


def test_with_nothing_closed_it_waits_for_the_controller_alone() -> None:
    assert closed(STANDPOINT) == ()
    assert waits_for(STANDPOINT) == "the controller"


def test_quiet_hours_are_said_with_their_end() -> None:
    night = QuietWeek(hours=(QuietHours(begins=time(11), ends=time(12)),))
    quiet = replace(STANDPOINT, rules=replace(STANDPOINT.rules, quiet=night))
    assert closed(quiet) == ("quiet hours: quiet hours until 2026-05-02 12:00 UTC: nothing begins before",)
    assert waits_for(quiet) == "quiet hours until 2026-05-02 12:00 UTC: nothing begins before"


def test_a_switch_is_said_with_its_end() -> None:
    switched = replace(STANDPOINT, record=replace(RECORD, switch=Stage.OFF, switch_until=at(3600)))
    assert closed(switched) == ("switch: this job was switched to off; by itself at 2026-05-02 12:00:00 UTC",)


def test_a_controller_that_stopped_and_a_lease_that_was_lost_are_gates_with_words() -> None:
    stopped = replace(STANDPOINT, around=Around(stopped="the file STOP is there", recoveries=16))
    assert [line.partition(":")[0] for line in closed(stopped)] == ["recoveries", "controller"]
    lost = lease_seen(GivenLease(lease=LEASE, at=at(60)), at(120))
    (line,) = closed(replace(STANDPOINT, around=Around(lease=lost)))
    assert line.startswith("lease: no controller holds the lease: one renewed it 60 s ago; nothing begins until")
    held = lease_seen(GivenLease(lease=LEASE, at=at(110)), at(120))
    assert closed(replace(STANDPOINT, around=Around(lease=held))) == ()


def test_what_the_controller_with_the_lease_says_counts_and_not_what_another_says() -> None:
    live = Live()
    live.accept(replace(REPORT, begins_nothing="the file STOP is there"), at(120))
    assert live.stopped_on("alpha") == "the file STOP is there"
    live.leases["alpha"] = GivenLease(lease=LEASE, at=at(121))
    live.accept(replace(REPORT, session="two/1", as_of=at(121)), at(121))
    assert live.stopped_on("alpha") == "the file STOP is there"
    live.accept(replace(REPORT, sequence=2, as_of=at(122)), at(122))
    assert live.stopped_on("alpha") == ""
    assert live.reported_at["alpha"] - at(120) == timedelta(seconds=2)
