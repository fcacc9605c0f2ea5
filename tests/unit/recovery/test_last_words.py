"""What the watcher says last of an ended attempt goes into the history, however soon after what it said before."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from relance.domain.limits import Limits
from relance.domain.requests import Request, RequestVerb
from relance.domain.stages import EndRunning, Stage
from relance.domain.views import JobState
from relance.recovery.requesting import Wanted
from relance.recovery.sites import ClusterRules, Site
from relance.testing.backend_contract import BackendStand
from relance.testing.manual_clocks import ManualClock
from tests.served.worlds import World


@pytest.mark.parametrize("read_to_end", [True, False])
async def test_the_last_steps_are_kept_when_they_are_the_last_word(read_to_end: bool) -> None:
    rules = ClusterRules(cluster="alpha", opted_in=None, limits=Limits(settle_s=0))
    made = World(clock=ManualClock(), site=Site(clusters=(rules,)))

    async def settle() -> None:
        while await made.loop.tick():
            pass

    async def quarantine(node: str) -> Request:
        wanted = Wanted(verb=RequestVerb.QUARANTINE, reason="Xid 79", by="grace", for_s=86400.0)
        return await made.parts.requesting().of_node("alpha", node, wanted)

    async def set_stage(stage: Stage) -> None:
        await made.parts.commands().set_stage("alpha", None, stage, frozenset[EndRunning](), "root")

    stand = BackendStand(
        backend=made.backend, clock=made.clock, settle=settle, set_stage=set_stage, quarantine=quarantine
    )
    await stand.begin()
    made.clock.advance(0.5)
    stand.show(state=JobState.COMPLETED, ended_at=made.clock.now(), exit_code=0)
    await stand.backend.report(stand.look())
    before = stand.batch().progress
    assert before is not None
    last = replace(before, step=777, highest_step=777, as_of=before.as_of + timedelta(seconds=1))

    await stand.backend.submit(replace(stand.batch(), progress=last, read_to_end=read_to_end))

    kept = await made.history.progress(stand.attempt())
    assert kept is not None
    assert (kept.highest_step == 777) is read_to_end
