"""Whether an agent on the node sends the steps: its end is not that of the node."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from relance.domain.faults import Scope
from relance.domain.findings import Certainty, RuleHit
from relance.domain.limits import HangLimits
from relance.domain.observations import LogBlock, SeenUpTo
from relance.domain.progress import StepSeen
from relance.ports.sources import Reading
from relance.watching.pipelines import Memory, Pipeline, meanings_of, new_memory
from tests.unit.rules.packs import scanner
from tests.unit.watching.rooms import PACK, Room, step_line

_RULE = next(rule for rule in PACK.metrics if rule.id == "metric-node-gone")


def gone(at: datetime) -> RuleHit:
    """All metrics of the first node ended then."""
    return RuleHit(
        rule=_RULE.id, symptom=_RULE.symptom, domain=_RULE.domain, role=_RULE.role, suspect=_RULE.suspect,
        restart=_RULE.restart, weight=_RULE.weight, scope=Scope.METRICS, seen_at=at, at=at, node="n1",
        file="prometheus/gone/n1", captures={"node": "n1"},
    )  # fmt: skip


@pytest.mark.parametrize(("way", "confirmed"), [("files", 1), ("store", 0), ("series", 0)])
def test_a_node_whose_agent_sends_the_steps_too_is_no_sign_of_a_hang(way: str, confirmed: int) -> None:
    room = Room()
    case = room.assignment()
    pipeline = Pipeline(scanner(), meanings_of(PACK), HangLimits(), case)
    memory: Memory = new_memory(room.began)
    found, offset, now = [], 0, room.began
    for number in range(1, 1001):
        now = room.began + timedelta(seconds=number)
        blocks: tuple[LogBlock, ...] = ()
        if number <= 40 and way == "series":
            memory = pipeline.hear(memory, "prometheus", [StepSeen(at=now, step=number, offset=number)], case).memory
        elif number <= 40:
            data = f"{step_line(number, now)}\n".encode()
            blocks = (LogBlock(file="job.out", offset=offset, data=data, scope=Scope.APPLICATION, read_at=now),)
            offset += len(data)
        if number == 160:
            memory = pipeline.hear(memory, "prometheus", [gone(room.began + timedelta(seconds=41))], case).memory
        reading = Reading(
            blocks=blocks, positions={}, coverage=(), seen=SeenUpTo(source="logs", at=now), is_shipped=way == "store"
        )
        outcome = pipeline.take(memory, (("logs", reading),), {"logs": now}, case)
        memory = outcome.memory
        found += [each for each in outcome.findings if each.certainty is Certainty.CONFIRMED]

    assert len(found) == confirmed
