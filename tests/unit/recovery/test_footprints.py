"""What Slurm did to nodes because of us is told from what happens to them by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relance.domain import events as e
from relance.domain.advice import ActionKind, Effect
from relance.domain.clocks import Stamp
from relance.domain.incidents import Action, IncidentState
from relance.domain.records import JobRecord, NodeRecord
from relance.domain.stages import EndRunning
from relance.domain.views import NodeState, NodeView, SchedulerFacts
from relance.recovery.footprints import expected_nodes, is_ours, is_unkilled, of_our_ending, reach
from relance.recovery.intake import node_events
from relance.testing import history_values as values
from tests.unit.recovery.situations import FIRST, RUNNING, at, seen, with_incident

WITHIN = reach(SchedulerFacts(release="25.11.7"))
DRAINED = NodeView(
    name="n2", state=NodeState.DRAINED, reason="Kill task failed", set_by="root", since=at(260)
)  # fmt: skip


def _ended(ends: EndRunning | None = EndRunning.HANG, kind: ActionKind = ActionKind.RESTART) -> JobRecord:
    """A running job that we ended at second 200."""
    record = with_incident(seen(RUNNING))
    action = Action(
        id="a", advice_id="v", generation=1, kind=kind, effect=Effect(summary="", commands=(), digest=""),
        holder="h", stage="act", started_at=at(199),
    )  # fmt: skip
    advice = replace(
        values.advice_issued().advice, ends_running=ends, cancels_running=kind is ActionKind.CANCEL, attempt=FIRST
    )
    (incident,) = record.incidents
    times = replace(incident.times, act=Stamp(at=at(200), clock="controller"))
    incident = replace(incident, state=IncidentState.SETTLED, action=action, advice=advice, times=times)
    return replace(record, incidents=(incident,))


def test_a_drain_that_follows_our_ending_of_what_ran_there_is_ours() -> None:
    words = of_our_ending(DRAINED, (_ended(),), WITHIN)
    assert "our own restart of job 17 (2026-05-02 11:03:20 UTC)" in words
    assert "no sign of a broken node" in words
    assert "our own cancelling" in of_our_ending(DRAINED, (_ended(None, ActionKind.CANCEL),), WITHIN)


NOT_OURS: dict[str, tuple[NodeView, JobRecord]] = {
    "another node": (replace(DRAINED, name="n9"), _ended()),
    "before it": (replace(DRAINED, since=at(190)), _ended()),
    "long after it": (replace(DRAINED, since=at(200 + 151)), _ended()),
    "another reason": (replace(DRAINED, reason="NHC: GPU 3 lost"), _ended()),
    "a person's drain with that reason": (replace(DRAINED, set_by="olga"), _ended()),
    "lost, not drained": (replace(DRAINED, state=NodeState.DOWN), _ended()),
    "the job had ended by itself": (DRAINED, _ended(None)),
    "nothing of ours": (DRAINED, with_incident(seen(RUNNING))),
    "no time known": (replace(DRAINED, since=None), _ended()),
}


@pytest.mark.parametrize("name", NOT_OURS)
def test_what_we_did_not_cause_stays_evidence(name: str) -> None:
    view, record = NOT_OURS[name]
    assert of_our_ending(view, (record,), WITHIN) == ""


def test_it_is_looked_for_as_long_as_slurm_waits_for_processes_to_end() -> None:
    slow = reach(SchedulerFacts(release="25.11.7", kill_wait_s=60.0, unkillable_s=600.0))
    late = replace(DRAINED, since=at(200 + 700))
    assert of_our_ending(late, (_ended(),), WITHIN) == ""
    assert of_our_ending(late, (_ended(),), slow)


def test_the_nodes_record_keeps_it_until_its_state_changes() -> None:
    record = NodeRecord(cluster="alpha", node="n2")
    (changed,) = node_events("alpha", record, DRAINED, at(262), "our own restart of job 17")
    assert isinstance(changed, e.NodeChanged)
    kept = replace(record, state=changed.state, reason=changed.reason, ours=changed.ours)
    assert expected_nodes((kept,)) == {"n2": "our own restart of job 17"}
    assert is_ours(DRAINED, expected_nodes((kept,)))
    assert expected_nodes((replace(kept, ours=""),)) == {}
    assert not is_ours(DRAINED, {})
    assert is_unkilled(DRAINED)
