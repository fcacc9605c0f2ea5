"""What Slurm forgets, on a real cluster: an ended job after five seconds, every job with its id, itself for a minute.

Each has a small cluster of its own with whole Relance on it. Shortened: the settle time (1 s), the intervals at which
the queue is read.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.rigs import NO_STORM
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite
from relance.client.errors import ServerRefusedError
from relance.domain.events import IncidentEnd
from relance.domain.keys import JobKey
from relance.domain.stages import Stage
from relance.simulation.private_slurm import ClusterPlan, RunningCluster
from tests.acceptance.stands import LIMIT_S, decides_nothing, happened, relance_on, told, until
from tests.components.slurm import running_cluster

pytestmark = pytest.mark.timeout(900)
OWNER = "owner1"
FORGOTTEN = "a failed job is forgotten before anything can be decided"
LIMITS = {"settle_s": 1, "grace_after_boot_s": 0, "storms": NO_STORM}
STEPS = """#!/bin/sh
n=1
while [ $n -le {steps} ]; do
    echo "step $n/3000 | loss: 2.5 | step_time: 0.200 s"
    sleep 0.2
    n=$((n + 1))
done
"""
FAILS = STEPS.format(steps=10) + "exit 9\n"
STAYS = STEPS.format(steps=3000)
ONCE = STEPS.format(steps=20) + '[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || exit 9\n' + STEPS.format(steps=3000)


@pytest.fixture(scope="module")
def site() -> Iterator[SlurmSite]:
    """Relance at act on a small cluster whose settings and state are these tests' to change."""
    with running_cluster(ClusterPlan(node_count=2)) as cluster:
        setup = SlurmSetup(scheduler={**FAST_POLLS, "settings_s": 2}, site={"limits": LIMITS})
        with relance_on(cluster, setup) as made:
            yield made


def submit(site: SlurmSite, script: str, *options: str) -> int:
    words = ["--ntasks=1", "--time=30", "--job-name=train", *options]
    return site.cluster.submit(OWNER, script, options=words)


def begin_anew(cluster: RunningCluster) -> None:
    """A controller that was installed anew: no state, so ids begin at FirstJobId; accounting has the old ones."""
    cluster.stop_controller()
    state = cluster.layout.state
    shutil.rmtree(state)
    state.mkdir()
    cluster.start_controller()


def remember(site: SlurmSite, age_s: int) -> None:
    """Have Slurm forget ended jobs after so long."""
    conf = Path(site.cluster.slurm_conf)
    conf.write_text(re.sub(r"(?m)^MinJobAge=.*$", f"MinJobAge={age_s}", conf.read_text()))
    site.cluster.must("root", ["scontrol", "reconfigure"])


def fitness(site: SlurmSite) -> subprocess.CompletedProcess[str]:
    """`relance check cluster --for act`, as the operator runs it."""
    argv = [site.python.program, "-m", "relance", "check", "cluster", "--config", str(site.relance.config)]
    env = {**site.python.environment(), "RELANCE_MUNGE_SOCKET": site.cluster.munge_socket}
    return site.cluster.run_as(site.cluster.plan.operator, [*argv, "--for", "act"], env=env)


def may_act(site: SlurmSite) -> bool:
    """Set the stage to act; gives whether that was allowed."""
    with contextlib.suppress(ServerRefusedError):
        site.client.set_stage(Stage.ACT, site.name)
        return True
    return False


def test_a_job_under_an_old_id_is_another_and_the_old_advice_touches_it_not(site: SlurmSite) -> None:
    old = submit(site, FAILS, "--comment=relance:approve")
    until(lambda: bool(site.story(old)) and "a person must approve" in told(site, old), LIMIT_S, "the question")
    (asked,) = site.incidents(old)
    until(lambda: site.client.incident_story(asked.id).effect, LIMIT_S, "the commands")
    shown = site.client.incident_story(asked.id)
    assert shown.advice is not None
    assert shown.effect is not None

    begin_anew(site.cluster)
    new = old - 1
    while new < old:  # ids begin at FirstJobId again
        new = submit(site, STAYS, "--comment=relance:act", "--hold" if new + 1 < old else "--requeue")
    site.cluster.wait_for_state(new, "RUNNING", time_limit_s=LIMIT_S)
    until(lambda: _key(site, new) not in (None, asked.job), LIMIT_S, "the new job")
    until(lambda: site.client.incident_story(asked.id).incident.end is not None, LIMIT_S, "the end of the old incident")
    assert "no longer knows the job" in site.client.incident_story(asked.id).next
    with pytest.raises(ServerRefusedError):
        site.client.approve(shown.advice.id, shown.advice.generation, shown.effect.digest)
    site.wait_for_step(new, 5, LIMIT_S)
    assert site.incidents(new) == ()
    assert decides_nothing(site, new) == []
    fields = site.cluster.job_fields(new)
    assert (fields["JobState"], fields["Restarts"]) == ("RUNNING", "0")
    site.cluster.must("root", ["scancel", str(new)])


def test_where_an_ended_job_is_forgotten_at_once_nothing_is_begun_and_it_is_said(site: SlurmSite) -> None:
    remember(site, 5)
    try:
        refused = fitness(site)
        assert refused.returncode == 5, refused.stdout
        assert FORGOTTEN in refused.stdout
        until(lambda: bool(site.client.stages(site.name)[0].caps), LIMIT_S, "the cap")
        job = submit(site, FAILS)
        site.wait_for_end_of_incident(job, LIMIT_S)
        (item,) = site.incidents(job)
        assert item.end is IncidentEnd.JOB_ENDED
        assert "no longer knows the job" in item.end_reason
        assert FORGOTTEN in told(site, job)
        assert decides_nothing(site, job) == []
        site.client.set_stage(Stage.OBSERVE, site.name)
        with pytest.raises(ServerRefusedError, match="MinJobAge"):
            site.client.set_stage(Stage.ACT, site.name)
    finally:
        remember(site, 300)
        until(lambda: may_act(site), LIMIT_S, "a cluster that is fit again")


def _key(site: SlurmSite, job: int) -> JobKey | None:
    story = site.story(job)
    return story.job.job if story is not None else None


@pytest.mark.soak
def test_a_recovery_in_whose_middle_slurmctld_is_away_for_a_minute_is_finished_once(site: SlurmSite) -> None:
    job = submit(site, ONCE)
    until(lambda: site.cluster.job_fields(job)["Restarts"] == "1", LIMIT_S, "the requeue")
    site.cluster.stop_controller()
    time.sleep(60.0)
    site.cluster.start_controller()
    site.cluster.wait_for_state(job, "RUNNING", time_limit_s=LIMIT_S)
    site.wait_for_end_of_incident(job, LIMIT_S)
    fields = site.cluster.job_fields(job)
    assert (fields["JobState"], fields["Restarts"]) == ("RUNNING", "1")
    rows = happened(site, job)
    assert sum(row.event == "ActionStarted" for row in rows) == 1, rows
    assert [item.end for item in site.incidents(job)] == [IncidentEnd.RECOVERED], told(site, job)
    site.cluster.must("root", ["scancel", str(job)])
