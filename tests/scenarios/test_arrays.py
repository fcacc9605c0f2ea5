"""Tasks of one array that fail of one cause: one decision, few restarts, one page; and storms that know their place."""

from __future__ import annotations

import pytest

from relance.domain import events as e
from relance.domain.faults import Remedy
from relance.domain.limits import Limits
from relance.domain.stages import Stage
from relance.domain.views import Wish
from relance.ports.notifiers import NoticeKind
from tests.scenarios import findings
from tests.scenarios.acts import changes, fails, finds, submits
from tests.scenarios.timelines import Timeline
from tests.scenarios.worlds import World

END = e.IncidentEnd
ARRAY = "900"
LIMITS = Limits(settle_s=5)
FAIL_AT_S = 30


def _array(tasks: int, failing: int, until_s: float) -> Timeline:
    """An array of which so many tasks lose a rank at the same second."""
    line = Timeline(until_s=until_s, world=World(LIMITS, nodes=tasks))
    for number in range(tasks):
        raw_id = str(1000 + number)
        wish = Wish(mode=Stage.ACT)
        line.at(0, submits(raw_id, name="sweep", node_count=1, wish=wish))
        line.at(0, changes(raw_id, array=ARRAY, array_task=number))
        if number < failing:
            line.at(
                FAIL_AT_S, finds(lambda attempt, world: findings.killed_rank(attempt, world.now), raw_id), fails(raw_id)
            )
    return line


@pytest.mark.parametrize("tasks", [24, pytest.param(200, marks=pytest.mark.soak)])
async def test_an_array_whose_tasks_fail_together_of_one_cause_is_decided_once_and_none_is_restarted(
    tasks: int,
) -> None:
    line = _array(tasks, tasks, until_s=60)
    line.never(e.ActionStarted)
    line.never(e.StormOpened)
    for number in range(tasks):
        line.ends(END.STOPPED, raw_id=str(1000 + number))
    await line.play()
    last = [item.event.advice for item in await line.world.told() if isinstance(item.event, e.AdviceIssued)][-tasks:]
    assert {advice.action for advice in last} == {Remedy.STOP}
    assert len({advice.reasons for advice in last}) == 1, "one decision for the array and the cause"
    assert [notice.kind for notice in await line.world.notices()] == [NoticeKind.JOB_STOPPED], "one page in all"


async def test_a_few_tasks_that_fail_together_come_back_one_after_another() -> None:
    line = _array(30, 6, until_s=110)
    line.want(FAIL_AT_S, FAIL_AT_S + 10, e.ActionStarted, times=3)
    line.want(FAIL_AT_S, FAIL_AT_S + 20, e.ActionStarted, times=4)
    line.want(FAIL_AT_S, FAIL_AT_S + 60, e.ActionStarted, times=6)
    for number in range(6):
        line.ends(END.RECOVERED, raw_id=str(1000 + number))
    await line.play()


async def test_a_storm_in_one_partition_holds_no_job_of_another() -> None:
    line = Timeline(until_s=120, world=World(LIMITS, nodes=6))
    for number in range(4):
        raw_id = str(20 + number)
        line.at(0, submits(raw_id, user=f"user{number}", name=f"train-{raw_id}", node_count=1))
        line.at(0, changes(raw_id, partition="big"))
        line.at(60, finds(lambda attempt, world: findings.killed_rank(attempt, world.now), raw_id), fails(raw_id))
    line.at(0, submits("30", user="zoe", name="other", node_count=1))
    line.at(65, finds(lambda attempt, world: findings.killed_rank(attempt, world.now), "30"), fails("30"))
    line.want(60, 62, e.StormOpened, lambda event: event.partition == "big", times=1)
    line.ends(END.RECOVERED, raw_id="30")
    for number in range(4):
        line.ends(None, raw_id=str(20 + number))
    await line.play()
    record = await line.world.cluster_record()
    (storm,) = record.open_storms
    for number in range(4):
        advice = (await line.world.incident(str(20 + number))).advice
        assert advice is not None
        assert advice.storm == storm.storm_id, "each job's incident refers to the one that they share"
    kinds = [notice.kind for notice in await line.world.notices()]
    assert kinds == [NoticeKind.STORM], "one page in all"
