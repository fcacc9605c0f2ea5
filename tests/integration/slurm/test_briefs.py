"""One job of a real Slurm, read by tables: the same as its full record tells, exclusions included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from relance.controllers.slurm import SlurmScheduler, SlurmSettings, kinds, schedulers
from relance.domain.views import JobState
from relance.ports.clocks import SystemClock
from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from relance.slurm.running import Commands


async def test_a_job_read_by_tables_is_as_its_full_record_tells(
    private_slurm: Callable[[ClusterPlan], RunningCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = private_slurm(ClusterPlan(node_count=2))
    owner = cluster.plan.owners[0]
    options = ("--comment=relance:off", "--exclude=gpu002", "--ntasks=1")
    waits, runs, fails = (
        str(cluster.submit(owner, f"#!/bin/sh\n{line}\n", options=(*options, *more)))
        for line, more in (
            ("true", ("--hold", "--job-name=a\nb ExcNodeList=gpu001")),
            ("sleep 600", ()),
            ("exit 3", ()),
        )
    )
    cluster.wait_for_state(runs, {"RUNNING"})
    cluster.wait_for_state(fails, {"FAILED"})
    settings = SlurmSettings(
        cluster="alpha",
        commands=Commands(slurm_conf=cluster.slurm_conf),
        opted_in=None,
        read_wish_files=False,
    )
    scheduler = SlurmScheduler(settings, SystemClock())
    try:
        await scheduler.look()
        full = {raw_id: await scheduler.read(raw_id) for raw_id in (waits, runs, fails)}
        monkeypatch.setattr(kinds, "LONG_QUEUE", 0)
        # Whatever release this is, it is read as one that shows all jobs; and only that way.
        monkeypatch.setattr(kinds, "FIRST_SHOWING_ONE_JOB", (99, 1, 0))
        monkeypatch.setattr(schedulers, "pick_job", None)
        brief = {raw_id: await scheduler.read(raw_id) for raw_id in full}
        assert {raw_id: (job.state, job.excluded) for raw_id, job in brief.items()} == {
            waits: (JobState.PENDING, ("gpu002",)),
            runs: (JobState.RUNNING, ("gpu002",)),
            fails: (JobState.FAILED, ("gpu002",)),
        }
        assert brief == {raw_id: replace(job, steps=brief[raw_id].steps) for raw_id, job in full.items()}
    finally:
        await scheduler.close()
