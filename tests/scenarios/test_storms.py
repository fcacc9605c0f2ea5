"""Jobs of twelve owners lose their file system at once (operators.md 4, test 8), with Slurm's own figures.

The operators' forty jobs are for the soak; two dozen open the same storm and come back in the same way.
"""

from __future__ import annotations

import pytest

from relance.domain import events as e
from relance.domain.advice import ActionKind
from relance.domain.limits import Limits
from relance.ports.notifiers import NoticeKind
from relance.recovery.queries import Queries
from tests.scenarios import findings
from tests.scenarios.acts import fails, finds, submits
from tests.scenarios.timelines import Timeline
from tests.scenarios.worlds import World

END = e.IncidentEnd
NAMES = [str(number) for number in range(100, 140)]
OWNERS = 12
LOST_AT_S = 60
FORGOTTEN_AFTER_S = 300
"""Slurm's default of MinJobAge."""


@pytest.mark.parametrize("jobs", [24, pytest.param(40, marks=pytest.mark.soak)])
async def test_all_are_parked_in_time_and_all_make_progress_when_it_has_passed(jobs: int) -> None:
    names = NAMES[:jobs]
    line = _lost(names, World(nodes=jobs), apart_s=0, until_s=520 + 6 * jobs)  # ten come back in a minute
    parked = LOST_AT_S + FORGOTTEN_AFTER_S - 30
    line.want(LOST_AT_S, LOST_AT_S + 2, e.StormOpened, times=1)
    line.never(e.ActionStarted, lambda event: event.kind is ActionKind.RESTART)
    line.want(LOST_AT_S, parked, e.ActionStarted, lambda event: event.kind is ActionKind.PARK, times=jobs)
    line.want(parked, 460, e.StormCleared, times=1)
    line.never(e.NodeExcluded)
    await line.play()
    told = await line.world.told()
    let_go = [
        line.world.second(item.recorded_at)
        for item in told
        if isinstance(item.event, e.ActionStarted) and item.event.kind is ActionKind.CONSTRAIN
    ]
    assert len(let_go) == jobs
    stepped = min(line.world.second(item.recorded_at) for item in told if isinstance(item.event, e.ProgressResumed))
    assert [second for second in let_go if second < stepped] == let_go[:1], "one canary goes first, to its first step"
    for first, tenth in zip(let_go[1:], let_go[11:], strict=False):
        assert tenth - first >= 59, f"more than ten within a minute: {let_go}"
    assert [notice.kind for notice in await line.world.notices()] == [NoticeKind.STORM], "one page in all"
    (storm,) = (await line.world.cluster_record()).storms
    assert storm.file_system == "/home"
    queries = Queries(line.world.history, line.world.site, line.world.clock)
    (shared,) = await queries.storms()
    assert {item.job.raw_id for item in shared.incidents} == set(names), "one incident that lists its jobs"


async def test_one_after_another_and_without_a_settle_time_three_are_restarted_before_the_storm_opens() -> None:
    names = NAMES[:OWNERS]
    line = _lost(names, World(Limits(settle_s=0), nodes=len(names)), apart_s=4, until_s=LOST_AT_S + 60)
    line.want(LOST_AT_S + 12, LOST_AT_S + 13, e.StormOpened, times=1)
    line.want(LOST_AT_S, LOST_AT_S + 12, e.ActionStarted, lambda event: event.kind is ActionKind.RESTART, times=3)
    line.never(e.ActionStarted, lambda event: event.kind is not ActionKind.PARK, after_s=LOST_AT_S + 13)
    line.want(LOST_AT_S + 13, LOST_AT_S + 60, e.ActionStarted, times=len(names) - 3)
    await line.play()


def _lost(names: list[str], world: World, apart_s: int, until_s: float) -> Timeline:
    """These jobs lose their file system; no two fail more than `apart_s` apart."""
    line = Timeline(until_s=until_s, world=world)
    for number, name in enumerate(names):
        line.at(0, submits(name, user=f"user{number % OWNERS}", name=f"train-{name}", node_count=1))
        show = findings.storage_away if apart_s == 0 else findings.killed_rank
        at_s = LOST_AT_S + number * apart_s
        line.at(at_s, finds(lambda attempt, world, show=show: show(attempt, world.now), name), fails(name))  # type: ignore[misc]
        if apart_s == 0:
            line.ends(END.RECOVERED, raw_id=name)
    return line
