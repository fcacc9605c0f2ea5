"""A long queue of a real Slurm: what a look at it asks for, and what it leaves alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench.command_counts import CommandCounts
from relance.controllers.slurm import SlurmScheduler, SlurmSettings
from relance.domain.views import JobState
from relance.ports.clocks import SystemClock
from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.slurm.running import Commands
from relance.testing.other_users import user_of
from relance.testing.slurm_queues import SlurmQueue

WAITING, RUNNING, ENDED = 210, 2, 4


async def test_a_long_queue_is_asked_for_once_a_look_and_unchanged_jobs_are_left_as_they_were(
    private_slurm: Callable[[ClusterPlan], RunningCluster], tmp_path: Path
) -> None:
    cluster = private_slurm(ClusterPlan(node_count=2))
    queue = SlurmQueue(cluster)
    queue.fill(WAITING, running=RUNNING, ended=ENDED)
    counts = CommandCounts(tmp_path / "counts", user_of("root"), cluster.env["PATH"])
    settings = SlurmSettings(
        cluster="alpha",
        commands=Commands(bin_dir=str(counts.folder), slurm_conf=cluster.slurm_conf),
        opted_in=None,
        read_wish_files=False,
    )
    scheduler = SlurmScheduler(settings, SystemClock())
    try:
        first = await scheduler.look()
        assert len(first.jobs) == WAITING + RUNNING + ENDED
        assert len({view.user for view in first.jobs}) == len(cluster.plan.owners)
        for job in (view.raw_id for view in first.jobs if view.state is not JobState.PENDING):
            cluster.wait_for_state(job, {"RUNNING", "COMPLETED", "FAILED"})
        before = await _settled(scheduler)
        asked = counts.counts()

        after = {view.raw_id: view for view in (await scheduler.look()).jobs}
        assert _of_a_look(counts.counts() - asked) == Counter({"glance": 1})
        assert {raw_id for raw_id, view in after.items() if view is not before[raw_id]} == set()

        queue.change()
        asked = counts.counts()
        later = {view.raw_id: view for view in (await scheduler.look()).jobs}
        (new,) = later.keys() - after.keys()
        assert later[new].state is JobState.PENDING
        assert _of_a_look(counts.counts() - asked) == Counter({"glance": 1, "one job": 1})
        assert all(later[raw_id] is view for raw_id, view in after.items())
    finally:
        await scheduler.close()


def _of_a_look(asked: Counter[str]) -> Counter[str]:
    """What a look asked for, but for accounting: that is asked at a pace of its own, which may fall into a look."""
    assert asked["accounting"] <= 1, asked
    return Counter({kind: count for kind, count in asked.items() if kind != "accounting"})


async def _settled(scheduler: SlurmScheduler) -> dict[str, object]:
    """The views once accounting has told the ends of all jobs, and nothing moves any more."""
    before: dict[str, object] = {}
    for _ in range(60):
        views = {view.raw_id: view for view in (await scheduler.look()).jobs}
        if before and all(before.get(raw_id) is view for raw_id, view in views.items()):
            return before
        before = dict(views)
        await scheduler.changed(0.5)
    raise AssertionError("the queue does not come to rest")
