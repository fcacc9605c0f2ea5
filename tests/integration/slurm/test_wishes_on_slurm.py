"""Whole Relance at act on a real Slurm: jobs that needed a word of their own, or that consist of components."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.slurm_lanes import Lane, TooLateError, until
from relance.simulation.private_slurm import RunningCluster
from tests.integration.slurm.lanes import leased_lane

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]
OWNER = "owner1"
STEP = """python3 -c '
import time
for step in range(1, 60):
    print(f"step {{step}}/3000 | loss: 2.{{step}} | step_time: 0.100 s", flush=True)
    time.sleep(0.1)
'
"""
PLAIN = f"#!/bin/sh\n{STEP}[ -e {{flag}} ] && exec sleep 60\ntouch {{flag}}\nexit 9\n"
HET = f"""#!/bin/sh
#SBATCH --nodes=1
#SBATCH hetjob
#SBATCH --nodes=1 {{options}}
{STEP}[ -e {{flag}} ] && exec sleep 60
touch {{flag}}
exit 9
"""


@pytest.fixture(scope="module")
def lane(slurm_cluster: RunningCluster) -> Iterator[Lane]:
    """Relance at act, as the operator, on nodes that are these tests' alone."""
    with leased_lane(slurm_cluster) as made:
        yield made


def submit(lane: Lane, script: str, name: str, comment: str, *options: str) -> int:
    """Submit a script that fails the first time; gives its id."""
    flag = lane.cluster.work_dir(OWNER) / f"{lane.site.partition}-{name}.flag"
    words = [f"--partition={lane.site.partition}", f"--job-name={name}", f"--comment={comment}"]
    text = script.format(flag=flag, options=" ".join(words))
    return lane.cluster.submit(OWNER, text, options=[*words, "--time=30", *options])


def runs_again(lane: Lane, job: int) -> bool:
    fields = lane.fields(job)
    return (fields["JobState"], fields["Restarts"]) == ("RUNNING", "1")


def wait_for_restart(lane: Lane, job: int) -> None:
    try:
        until(lambda: runs_again(lane, job), 120.0, f"job {job} to run again")
    except TooLateError as error:
        pytest.fail(f"{error}\n{story(lane, job)}")


def story(lane: Lane, job: int) -> str:
    return "\n".join(f"{row.at} {row.title} {row.detail}" for row in lane.site.client.job_history(str(job)))


def test_a_job_with_no_requeue_is_armed_by_its_own_word_fails_and_runs_again(lane: Lane) -> None:
    job = submit(lane, PLAIN, "armed", "relance:act,arm_requeue", "--no-requeue", "--nodes=1")
    until(lambda: lane.fields(job)["Requeue"] == "1", 60.0, f"job {job} to be armed")
    wait_for_restart(lane, job)
    told = story(lane, job)
    assert "relance asked: arm" in told
    found = lane.site.client.job_story(str(job))
    assert any(Path(item.file).name == f"slurm-{job}.out" for item in found.kept), "the end of its log is kept"
    lane.clear(job)


def test_a_het_job_that_fails_is_started_again_as_a_whole(lane: Lane) -> None:
    job = submit(lane, HET, "het", "relance:act")
    wait_for_restart(lane, job)
    assert lane.fields(f"{job}+1")["Restarts"] == "1"  # type: ignore[arg-type]
    lane.clear(job)
