"""Jobs in the states that the rules of the scheduler tell apart."""

from __future__ import annotations

from dataclasses import replace

from relance.simulation import commands
from relance.simulation.commands import Surroundings
from relance.simulation.records import Job, JobState, Settings, Submission

NOW = 1_800_000_000.0
AROUND = Surroundings(now=NOW, settings=Settings(), node_names=("node001", "node002"))
SPEC = Submission(
    name="llm",
    user="ada",
    uid=1001,
    partition="train",
    node_count=2,
    ranks_per_node=8,
    argv=("train",),
    env={},
    work_dir="/work",
    open_mode="append",
    ranks_files=None,
    ranks_tee=False,
    features=(),
    script_hash="0",
    kill_on_bad_exit=True,
)
JOB = Job(job_id=7, spec=SPEC, output="slurm-%j.out", submit_time=NOW - 1000)
RUNNING = replace(JOB, state=JobState.RUNNING, start_time=NOW - 900, node_list=("node001", "node002"))
FAILED = replace(RUNNING, state=JobState.FAILED, end_time=NOW - 10, exit_code="1:0")
PENDING_AGAIN = commands.made_pending(FAILED, hold=False, around=AROUND)
