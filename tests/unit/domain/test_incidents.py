"""An incident as a fold: every pair of state and event is either in the table or refused."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from relance.domain import events as e
from relance.domain.advice import ActionKind, Advice, Effect
from relance.domain.clocks import Milestones, Stamp
from relance.domain.faults import FaultDomain, Remedy
from relance.domain.incidents import (
    TRANSITIONS,
    ImpossibleEventError,
    Incident,
    IncidentState,
    evolve,
    open_incident,
)
from relance.domain.keys import AttemptKey, JobKey
from relance.domain.stages import Stage
from relance.domain.verdicts import Opinion, Verdict

AT = datetime(2026, 5, 2, 11, 0, tzinfo=UTC)
STAMP = Stamp(at=AT, clock="server")
JOB = JobKey(cluster="alpha", raw_id="17", submitted_at=AT)
ATTEMPT = AttemptKey(job=JOB, restart_count=0)
NEXT = AttemptKey(job=JOB, restart_count=1)
EFFECT = Effect(summary="requeue 17", commands=(), digest="d1")
VERDICT = Verdict(
    domain=FaultDomain.HARDWARE,
    cause="gpu_lost",
    summary="a GPU fell off the bus",
    remedy=Remedy.RESTART_EXCLUDING,
    remedy_reason="the node is suspect",
    confidence=0.9,
    fingerprint="f",
)
ADVICE = Advice(
    id="adv-1",
    incident_id="inc",
    attempt=ATTEMPT,
    generation=1,
    action=Remedy.RESTART,
    reasons=("why not",),
    guards=(),
    issued_at=AT,
    expires_at=AT + timedelta(minutes=4),
)
_ENDED: dict[str, Any] = {"incident_id": "inc", "action_id": "act", "step_id": "s9", "reason": "done", "at": AT}
_COLLECTED: dict[str, Any] = {
    "incident_id": "inc", "key": "ev", "attempt": ATTEMPT, "exit_code": 0, "size_bytes": 9, "took_s": 1.0,
    "reason": "", "hits": (), "notes": (), "at": AT,
}  # fmt: skip

EVENTS: dict[type, e.JobEvent] = {
    type(event): event
    for event in (
        e.FindingAttached(incident_id="inc", finding_id="f2"),
        e.VerdictReached(incident_id="inc", verdict=VERDICT, findings=1, at=STAMP),
        e.OpinionGiven(incident_id="inc", opinion=Opinion(provider="second", at=AT)),
        e.AdviceIssued(incident_id="inc", advice=ADVICE, at=STAMP),
        e.AdviceApproved(
            incident_id="inc", advice_id="adv-1", generation=1, by="ada", effect_digest="d1", at=AT, until=AT
        ),
        e.AdviceDenied(incident_id="inc", advice_id="adv-1", generation=1, by="ada", reason="no", at=AT),
        e.ActionPrepared(
            incident_id="inc", advice_id="adv-1", generation=1, effect=EFFECT, stage=Stage.OBSERVE, at=AT
        ),
        e.ActionStarted(
            incident_id="inc", action_id="act", advice_id="adv-1", generation=1, attempt=ATTEMPT,
            kind=ActionKind.RESTART, effect=EFFECT, holder="c1", lease_epoch=1, stage=Stage.ACT, at=AT,
        ),
        e.ActionStepped(incident_id="inc", action_id="act", step_id="s1", step="requeue", detail="", at=AT),
        e.ActionSucceeded(**_ENDED),
        e.ActionFailed(**_ENDED),
        e.ActionAbandoned(**_ENDED),
        e.ActionUnknown(**_ENDED),
        e.AttemptRestarted(incident_id="inc", attempt=NEXT, nodes=("n1",), by_us=True, at=STAMP),
        e.ProgressResumed(incident_id="inc", attempt=NEXT, step=11, beyond=False, at=STAMP),
        e.IncidentClosed(incident_id="inc", end=e.IncidentEnd.LEFT, reason="cancelled", at=AT),
        e.EvidencePrepared(
            incident_id="inc", key="ev", finding_id="f1", attempt=ATTEMPT, effect=EFFECT, stage=Stage.OBSERVE,
            switched_on=False, at=AT,
        ),
        e.EvidenceStarted(
            incident_id="inc", key="ev", attempt=ATTEMPT, effect=EFFECT, holder="c1", lease_epoch=1, at=AT
        ),
        e.EvidenceCollected(**_COLLECTED),
        e.EvidenceFailed(**_COLLECTED),
    )
}  # fmt: skip

PATHS: dict[IncidentState, tuple[type, ...]] = {
    IncidentState.OPEN: (),
    IncidentState.JUDGED: (e.VerdictReached,),
    IncidentState.ADVISED: (e.VerdictReached, e.AdviceIssued),
    IncidentState.ACTING: (e.VerdictReached, e.AdviceIssued, e.ActionStarted),
    IncidentState.UNSETTLED: (e.VerdictReached, e.AdviceIssued, e.ActionStarted, e.ActionUnknown),
    IncidentState.SETTLED: (e.VerdictReached, e.AdviceIssued, e.ActionStarted, e.ActionSucceeded),
    IncidentState.RUNNING: (e.VerdictReached, e.AdviceIssued, e.ActionStarted, e.ActionSucceeded, e.AttemptRestarted),
    IncidentState.CLOSED: (e.VerdictReached, e.AdviceIssued, e.ActionStarted, e.ActionSucceeded, e.IncidentClosed),
}
LATE_PATHS: dict[IncidentState, tuple[type, ...]] = {
    IncidentState.JUDGED: (*PATHS[IncidentState.SETTLED], e.AdviceIssued, e.VerdictReached),
    IncidentState.ADVISED: (*PATHS[IncidentState.SETTLED], e.AdviceIssued),
}
"""Into states that come before an action, with one behind it: the job was parked, and is decided on again."""
OF_ACTIONS = (e.ActionStepped, e.ActionSucceeded, e.ActionFailed, e.ActionAbandoned, e.ActionUnknown)


def _in(state: IncidentState, paths: dict[IncidentState, tuple[type, ...]] = PATHS) -> Incident:
    incident = open_incident(
        e.IncidentOpened(incident_id="inc", attempt=ATTEMPT, finding_id="f1", opened_at=AT, times=Milestones())
    )
    for kind in paths[state]:
        incident = evolve(incident, EVENTS[kind])
    return incident


def test_there_is_a_way_into_every_state() -> None:
    assert {state: _in(state).state for state in IncidentState} == {state: state for state in IncidentState}


def test_the_table_has_every_event_of_an_incident_and_no_other() -> None:
    of_incidents = {
        kind
        for kind in e.EVENT_TYPES.values()
        if "incident_id" in {item.name for item in fields(kind)}
        and kind not in (e.IncidentOpened, e.OwnerDisagreed, e.NodeSuspected)
    }
    assert set(TRANSITIONS) == of_incidents == set(EVENTS)


@pytest.mark.parametrize("state", IncidentState, ids=lambda state: state.value)
@pytest.mark.parametrize("kind", list(TRANSITIONS), ids=lambda kind: kind.__name__)
def test_every_pair_of_state_and_event_does_what_the_table_says(state: IncidentState, kind: type) -> None:
    target = TRANSITIONS[kind].get(state)
    incident = _in(state, {**PATHS, **LATE_PATHS} if kind in OF_ACTIONS else PATHS)
    if target is None:
        with pytest.raises(ImpossibleEventError, match=kind.__name__):
            evolve(incident, EVENTS[kind])
    else:
        assert evolve(incident, EVENTS[kind]).state is target


@pytest.mark.parametrize("state", LATE_PATHS, ids=lambda state: state.value)
@pytest.mark.parametrize("kind", OF_ACTIONS, ids=lambda kind: kind.__name__)
def test_nothing_of_an_action_comes_before_one_has_begun(state: IncidentState, kind: type) -> None:
    with pytest.raises(ImpossibleEventError, match="does not know"):
        evolve(_in(state), EVENTS[kind])


def test_every_state_but_the_last_can_end() -> None:
    assert set(TRANSITIONS[e.IncidentClosed]) == set(IncidentState) - {IncidentState.CLOSED}


def test_a_newer_advice_voids_the_approval_of_the_older() -> None:
    approved = evolve(_in(IncidentState.ADVISED), EVENTS[e.AdviceApproved])
    assert approved.approval is not None
    assert approved.approval.yes
    assert evolve(approved, EVENTS[e.AdviceIssued]).approval is None


def test_the_scheduler_s_first_acceptance_is_the_time_of_action() -> None:
    def accepted(event: Any, seconds: int) -> Any:  # noqa: ANN401 - two kinds of event
        values = {item.name: getattr(event, item.name) for item in fields(event)}
        return type(event)(**{**values, "accepted_at": AT + timedelta(seconds=seconds)})

    incident = evolve(_in(IncidentState.ACTING), accepted(EVENTS[e.ActionStepped], 1))
    incident = evolve(incident, accepted(EVENTS[e.ActionSucceeded], 5))
    assert incident.times.act is not None
    assert incident.times.act.at == AT + timedelta(seconds=1)


def test_what_a_controller_reports_late_is_recorded_and_changes_no_state() -> None:
    incident = evolve(_in(IncidentState.ACTING), EVENTS[e.AttemptRestarted])
    late = evolve(incident, EVENTS[e.ActionSucceeded])
    assert late.state is IncidentState.RUNNING
    assert late.action is not None
    assert late.action.end == "ActionSucceeded"


def test_the_first_end_of_an_action_that_is_known_stands() -> None:
    unknown = _in(IncidentState.UNSETTLED)
    ended = evolve(unknown, EVENTS[e.ActionSucceeded])
    assert ended.action is not None
    assert ended.action.end == "ActionSucceeded"
    again = evolve(ended, EVENTS[e.ActionAbandoned])
    assert again.action is not None
    assert again.action.end == "ActionSucceeded"


@pytest.mark.parametrize(
    ("step", "requeued"),
    [("checked", False), ("requeue", True), ("requeue refused", False), ("requeue not sent", False)],
)
def test_the_steps_of_an_action_tell_whether_a_requeue_of_it_went_out(step: str, *, requeued: bool) -> None:
    stepped = e.ActionStepped(incident_id="inc", action_id="act", step_id="s1", step=step, detail="", at=AT)
    action = evolve(_in(IncidentState.ACTING), stepped).action
    assert action is not None
    assert action.requeued is requeued


@pytest.mark.parametrize(
    ("steps", "ours"),
    [
        (("requeue", "pending", "constrain"), True),
        (("requeue refused", "settled", "pending", "constrain"), False),
        (("requeue", "settled", "requeue refused", "pending"), True),
        (("requeue refused", "requeue", "pending"), True),
        (("checked",), True),
    ],
    ids=("accepted", "another was first", "no answer, then refused", "refused, then accepted", "nothing told yet"),
)
def test_what_is_requeued_though_ours_was_refused_is_another_s_doing(steps: tuple[str, ...], *, ours: bool) -> None:
    incident = _in(IncidentState.ACTING)
    for number, step in enumerate(steps):
        stepped = e.ActionStepped(
            incident_id="inc", action_id="act", step_id=f"s{number}", step=step, detail="", at=AT, accepted_at=AT
        )
        incident = evolve(incident, stepped)
    assert incident.restarted_by_us is ours
    assert evolve(incident, EVENTS[e.ActionSucceeded]).restarted_by_us is ours


def test_a_step_of_an_unknown_action_is_refused() -> None:
    foreign = e.ActionStepped(incident_id="inc", action_id="other", step_id="s", step="x", detail="", at=AT)
    with pytest.raises(ImpossibleEventError, match="does not know"):
        evolve(_in(IncidentState.ACTING), foreign)


def test_the_preparations_of_an_advice_are_forgotten_with_it_however_often_it_is_given_anew() -> None:
    incident = _in(IncidentState.ADVISED)
    for _ in range(100):
        incident = evolve(evolve(incident, EVENTS[e.ActionPrepared]), EVENTS[e.AdviceIssued])
    assert incident.prepared == ()
    assert evolve(incident, EVENTS[e.ActionPrepared]).prepared == ("adv-1/observe/d1",)


def test_a_parked_job_stays_parked_when_letting_it_go_came_to_nothing() -> None:
    def with_advice(incident: Incident, *, park: bool) -> Incident:
        return evolve(incident, e.AdviceIssued(incident_id="inc", advice=replace(ADVICE, park=park), at=STAMP))

    parked = with_advice(_in(IncidentState.JUDGED), park=True)
    for kind in (e.ActionStarted, e.ActionSucceeded):
        parked = evolve(parked, EVENTS[kind])
    assert parked.is_parked
    let_go = evolve(with_advice(parked, park=False), EVENTS[e.ActionStarted])
    assert not let_go.is_parked
    assert evolve(let_go, EVENTS[e.ActionAbandoned]).is_parked
    assert not evolve(let_go, EVENTS[e.ActionSucceeded]).is_parked


def test_evidence_is_known_by_its_key_from_what_was_shown_to_its_first_end() -> None:
    incident = _in(IncidentState.OPEN)
    for kind in (e.EvidencePrepared, e.EvidenceStarted):
        incident = evolve(incident, EVENTS[kind])
    (shown,) = incident.evidence
    assert (shown.is_open, shown.switched_on, shown.shown) == (True, False, ("observe/off/d1",))
    ended = evolve(evolve(incident, EVENTS[e.EvidenceCollected]), EVENTS[e.EvidenceFailed])
    (found,) = ended.evidence
    assert (found.is_open, found.is_collected) == (False, True)
    other = replace(EVENTS[e.EvidencePrepared], key="ev-2")  # type: ignore[arg-type] # an event of evidence
    assert [item.key for item in evolve(ended, other).evidence] == ["ev", "ev-2"]
