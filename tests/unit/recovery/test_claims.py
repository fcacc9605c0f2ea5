"""What a claim is refused for, one reason at a time; and what it counts against."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from relance.domain.advice import ActionKind, Advice, Claim, Effect
from relance.domain.faults import Remedy
from relance.domain.incidents import Approval, Incident, IncidentState
from relance.domain.limits import Limits
from relance.domain.quiet_hours import Quiet
from relance.domain.recoveries import MostRecoveries
from relance.domain.stages import EffectiveStage, EndRunning, Stage, Standing
from relance.domain.views import ClusterReport, JobView, SchedulerFacts
from relance.recovery.claims import Counter, most_recoveries, permits, refusal, unique_key
from tests.unit.recovery.situations import FIRST, JOB, REQUEUED, SECOND, at, seen, with_incident
from tests.unit.recovery.situations import RUNNING as VIEW

NOW = at(120)
EFFECT = Effect(summary="requeue 17", commands=(), digest="d1")
ADVICE = Advice(
    id="adv-1",
    incident_id="inc-1",
    attempt=FIRST,
    generation=2,
    action=Remedy.RESTART,
    reasons=("a rank was killed",),
    guards=(),
    issued_at=at(110),
    expires_at=at(300),
)
CLAIM = Claim(
    advice_id="adv-1",
    attempt=FIRST,
    generation=2,
    cluster="alpha",
    holder="c1",
    lease_epoch=1,
    kind=ActionKind.RESTART,
    effect=EFFECT,
)
COUNTER = Counter(
    stage=EffectiveStage(stage=Stage.ACT, end_running=frozenset(), why=("cluster is set to act",)),
    standing=Standing(job=JOB, partition="gpu", wish=Stage.ACT),
    switch=None,
    report=ClusterReport(
        cluster="alpha",
        session="s",
        sequence=1,
        as_of=at(119),
        facts=SchedulerFacts(release="x", may_act=True),
        jobs=(),
        nodes=(),
    ),
    view_max_age_s=10.0,
    now=NOW,
)
RECORD = with_incident(seen(VIEW))
INCIDENT = replace(RECORD.incidents[-1], state=IncidentState.ADVISED, advice=ADVICE, effect=EFFECT)
YES = Approval(
    advice_id="adv-1", generation=2, yes=True, by="grace", at=at(115), effect_digest="d1", until=at(200)
)  # fmt: skip
APPROVE = replace(COUNTER, stage=EffectiveStage(stage=Stage.APPROVE, end_running=frozenset(), why=("set",)))


def test_a_claim_against_which_nothing_speaks_is_granted() -> None:
    assert refusal(COUNTER, INCIDENT, CLAIM) is None
    assert refusal(APPROVE, replace(INCIDENT, approval=YES), CLAIM) is None


def _advised(**changes: Any) -> Incident:  # noqa: ANN401 - fields of an advice
    return replace(INCIDENT, advice=replace(ADVICE, **changes))


def _kind(kind: ActionKind) -> Claim:
    return replace(CLAIM, kind=kind)


def _shows(view: JobView) -> Counter:
    assert COUNTER.report is not None
    return replace(COUNTER, report=replace(COUNTER.report, jobs=(view,)))


QUIET = Quiet(until=at(900), words="quiet hours until 12:00 UTC")
OBSERVE = EffectiveStage(stage=Stage.OBSERVE, end_running=frozenset(), why=("cluster is at observe",))
REFUSED: dict[str, tuple[Counter, Incident | None, Claim, str]] = {
    "no such advice": (COUNTER, None, CLAIM, "no such advice"),
    "an older generation": (COUNTER, _advised(generation=3), CLAIM, "voided by 3"),
    "another attempt": (COUNTER, INCIDENT, replace(CLAIM, attempt=SECOND), "voided"),
    "it has begun": (COUNTER, replace(INCIDENT, state=IncidentState.ACTING), CLAIM, "acting"),
    "it has to wait": (COUNTER, _advised(hold=True), CLAIM, "does not ask for an action"),
    "it asks for nothing": (COUNTER, _advised(action=Remedy.STOP), CLAIM, "does not ask for an action"),
    "it has expired": (COUNTER, _advised(expires_at=NOW), CLAIM, "expired"),
    "it expires before it could begin": (
        COUNTER, _advised(expires_at=NOW + timedelta(seconds=4)), CLAIM, "too soon to begin",
    ),
    "nobody has looked": (replace(COUNTER, report=None), INCIDENT, CLAIM, "older than 10 s"),
    "the look is old": (replace(COUNTER, now=NOW + timedelta(seconds=10)), INCIDENT, CLAIM, "older than 10 s"),
    "it would end a running attempt": (COUNTER, _advised(ends_running=EndRunning.HANG), CLAIM, "end_running"),
    "the stage": (
        replace(COUNTER, stage=replace(COUNTER.stage, stage=Stage.OBSERVE)), INCIDENT, CLAIM, "stage: ",
    ),
    "the job's switch": (replace(COUNTER, switch=Stage.OBSERVE), INCIDENT, CLAIM, "switch"),
    "the job's own wish": (
        replace(COUNTER, standing=replace(COUNTER.standing, wish=Stage.OBSERVE)), INCIDENT, CLAIM, "opt_in",
    ),
    "nobody approved": (APPROVE, INCIDENT, CLAIM, "approval"),
    "an older generation was approved": (APPROVE, replace(INCIDENT, approval=replace(YES, generation=1)), CLAIM,
                                         "nobody has approved"),
    "other commands were approved": (
        APPROVE, replace(INCIDENT, approval=replace(YES, effect_digest="d0")), CLAIM, "not those that were approved",
    ),
    "the approval has run out": (APPROVE, replace(INCIDENT, approval=replace(YES, until=NOW)), CLAIM, "run out"),
    "an update of a job that nobody requeued": (
        _shows(VIEW), INCIDENT, _kind(ActionKind.CONSTRAIN), "nobody has requeued",
    ),
    "a restart of a job that waits already": (_shows(REQUEUED), INCIDENT, CLAIM, "in the queue again"),
    "a restart beside the next of a chain": (COUNTER, _advised(successor="18"), CLAIM, "in the queue again"),
    "a next of a chain that is not shown": (
        COUNTER, _advised(successor="18"), _kind(ActionKind.CONSTRAIN), "job 18 is not to be touched",
    ),
    "a next of a chain that stays at observe": (
        replace(COUNTER, successor=OBSERVE), _advised(successor="18"), _kind(ActionKind.CONSTRAIN), "is at observe",
    ),
    "a cancellation that nobody advised": (COUNTER, INCIDENT, _kind(ActionKind.CANCEL), "not what the advice asks for"),
    "quiet hours": (replace(COUNTER, quiet=QUIET), INCIDENT, CLAIM, "quiet_hours: quiet hours until"),
    "a restart that passes for parking in quiet hours": (
        replace(COUNTER, quiet=QUIET), _advised(park=True), CLAIM, "not what the advice asks for",
    ),
    "as many recoveries as there may be": (
        replace(COUNTER, recoveries=4, most_recoveries=4), INCIDENT, CLAIM, "recoveries: 4 of at most 4",
    ),
    "a partition in which nothing may be acted on": (
        replace(COUNTER, standing=replace(COUNTER.standing, barred="the site lets act in debug")), INCIDENT, CLAIM,
        "partition: ",
    ),
    "somebody said no": (COUNTER, replace(INCIDENT, approval=replace(YES, yes=False)), CLAIM, "said no"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_claim_is_refused_and_the_reason_said(name: str) -> None:
    counter, incident, claim, words = REFUSED[name]
    assert words in (refusal(counter, incident, claim) or "granted")


def test_in_quiet_hours_and_beside_as_many_recoveries_as_there_may_be_a_job_may_still_be_parked() -> None:
    full = replace(COUNTER, quiet=QUIET, recoveries=4, most_recoveries=4)
    assert refusal(full, _advised(park=True), _kind(ActionKind.PARK)) is None


def test_a_recovery_counts_against_the_limit_of_the_cluster_and_parking_does_not() -> None:
    limits = Limits()
    assert most_recoveries(CLAIM, RECORD, limits) == MostRecoveries(cluster="alpha", most=16)
    assert most_recoveries(_kind(ActionKind.PARK), RECORD, limits) is None
    assert most_recoveries(_kind(ActionKind.CANCEL), RECORD, limits) is None
    parked = replace(RECORD, incidents=(_advised(park=True),))
    assert most_recoveries(_kind(ActionKind.CONSTRAIN), parked, limits) is None


def test_an_update_of_what_others_requeued_or_of_the_next_of_a_chain_is_granted() -> None:
    constrain = _kind(ActionKind.CONSTRAIN)
    assert refusal(_shows(REQUEUED), INCIDENT, constrain) is None
    assert refusal(replace(_shows(VIEW), successor=COUNTER.stage), _advised(successor="18"), constrain) is None


def test_a_restart_is_claimed_once_for_an_attempt_whatever_its_generation() -> None:
    assert unique_key(CLAIM) == unique_key(replace(CLAIM, generation=3, advice_id="adv-2", kind=ActionKind.PARK))
    assert unique_key(CLAIM) != unique_key(replace(CLAIM, attempt=SECOND))


@pytest.mark.parametrize(
    ("kind", "scopes"),
    [
        (ActionKind.RESTART, ["restart/alpha", "restart/alpha/9"]),
        (ActionKind.PARK, ["park/alpha"]),
        (ActionKind.CANCEL, []),
    ],
)
def test_restarts_and_parking_are_metered_apart_and_ending_a_job_not_at_all(
    kind: ActionKind, scopes: list[str]
) -> None:
    record = replace(RECORD, array="9")
    wishes = permits(replace(CLAIM, kind=kind), None, record, Limits().storms, NOW)
    assert [wish.scope for wish in wishes] == scopes
