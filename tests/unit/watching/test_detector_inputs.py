"""What the detectors of an attempt are given beside the lines of its logs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from relance.domain.faults import FaultDomain, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Certainty, RuleHit, Sign
from relance.watching.checkpoints import Checkpoint, from_text, to_text
from relance.watching.pipelines import meanings_of, new_memory
from tests.unit.watching.rooms import PACK, Room

MEANINGS = meanings_of(PACK)


def collected(rank: int, at: datetime) -> RuleHit:
    """What the stacks of the ranks show, as a command collected them."""
    return RuleHit(
        rule="stack-minority", symptom="stack_minority", domain=FaultDomain.UNKNOWN, role=Role.ROOT,
        suspect=SuspectKind.RANK, restart=RestartHint.OK, weight=0.6, scope=Scope.TRACES, seen_at=at, rank=rank,
        file="stacks", excerpt=f"rank {rank} stands elsewhere",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "sign"),
    [
        ("metric-xid-off-bus", Sign.DEVICE),
        ("metric-ecc-dbe", Sign.DEVICE),
        ("metric-telemetry-gone", Sign.NODE_SILENT),
        ("metric-node-gone", Sign.NODE_SILENT),
        ("fr-missing-rank", Sign.COLLECTIVE),
        ("ras-rank-dead", Sign.COLLECTIVE),
        ("stack-minority", Sign.STACKS),
        ("stack-all-waiting", Sign.STACKS),
    ],
)
def test_rules_say_which_sign_their_hits_are(rule: str, sign: Sign) -> None:
    assert MEANINGS.signs[rule] == {sign}


def test_only_events_are_signs_of_a_device_as_a_state_may_have_lasted_for_weeks() -> None:
    told = {rule.id: rule for rule in PACK.metrics if Sign.DEVICE in rule.signs}

    assert {rule.when.test.is_level for rule in told.values()} == {False}
    assert {rule.role for rule in told.values()} == {Role.ROOT}


def test_what_is_seen_of_one_look_at_a_rank_is_no_sign() -> None:
    assert not {"ras-skew", "ras-partial", "fr-undecided", "fr-no-dump", "stack-undecided"} & MEANINGS.signs.keys()


def test_states_that_wait_for_a_reset_call_for_isolation() -> None:
    assert {"metric-remap-pending", "metric-pcie-width", "metric-node-cordoned"} <= MEANINGS.isolating
    assert not {"metric-clock-offset", "metric-telemetry-gone", "metric-hw-throttle"} & MEANINGS.isolating


async def test_collected_evidence_is_weighed_once_and_confirms_a_hang_after_its_time() -> None:
    room = Room()
    job = room.assignment()
    room.server.want(job)
    await room.watcher.refresh()
    await room.train(job, 12)
    await room.quiet(job, 30.0)
    room.server.want(replace(job, collected=(collected(2, room.clock.now()),)))
    await room.watcher.refresh()
    await room.quiet(job, 160.0, every_s=1.0)

    found = [each for each in room.server.findings() if each.certainty is Certainty.CONFIRMED]
    assert [(each.signs, [odd.node for odd in each.odd]) for each in found] == [(frozenset({Sign.STACKS}), ["n2"])]

    await room.train(job, 12)  # it went on all the same: what was collected before says nothing any more
    await room.quiet(job, 400.0, every_s=1.0)
    assert [each for each in room.server.findings() if each.certainty is Certainty.CONFIRMED] == found


async def test_a_watcher_that_is_started_again_does_not_weigh_collected_evidence_again() -> None:
    room = Room()
    job = room.assignment()
    room.server.want(job)
    await room.watcher.refresh()
    await room.train(job, 12)
    room.server.want(replace(job, collected=(collected(2, room.clock.now()),)))
    await room.watcher.refresh()
    await room.train(job, 12)
    await room.watcher.deliver()
    room.new_watcher()
    await room.watcher.refresh()
    await room.quiet(job, 400.0, every_s=1.0)

    assert {each.certainty for each in room.server.findings()} == {Certainty.SUSPECTED}


def test_a_checkpoint_of_an_older_watcher_is_read() -> None:
    text = to_text(Checkpoint(positions={}, memory=new_memory(Room().clock.now())))
    for name in ("collected", "standstill", "like_a_save", "silent", "pauses", "mark_at", "is_excused"):
        assert f'"{name}"' in text
        text = text.replace(f'"{name}"', f'"not_{name}"')

    assert from_text(text) is not None
