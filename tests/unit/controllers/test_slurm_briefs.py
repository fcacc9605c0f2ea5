"""A long queue of a release that shows all of it whatever job is asked for: single reads do without that answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relance.controllers.slurm import kinds
from relance.domain.views import JobState
from relance.ports.schedulers import JobGoneError
from relance.slurm.parsing.briefs import BRIEF_COLUMNS
from tests.unit.controllers.fake_slurm import FakeSlurm
from tests.unit.slurm.recorded import recorded

SQUEUE = """mark=$(echo "$*" | grep -o '~[0-9a-f]*~' | head -1)
case "$*" in
*--json*) cat {folder}/jobs.json ;;
*--Format=*) sed "s/@/$mark/g" {folder}/brief.txt ;;
*) sed "s/@/$mark/g" {folder}/excluded.txt ;;
esac"""


def put_brief(slurm: FakeSlurm, *rows: dict[str, str]) -> None:
    titles = ("JOBID", *(column.upper() for column in BRIEF_COLUMNS[1:]))
    lines = [titles, *(tuple(row[column] for column in BRIEF_COLUMNS) for row in rows)]
    slurm.put("brief.txt", "".join("".join(f"{cell}@" for cell in line) + "\n" for line in lines).encode())


def asked(slurm: FakeSlurm) -> list[str]:
    return ["json" if "--json" in call else "table" for call in slurm.calls("squeue")]


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    fake = FakeSlurm(tmp_path, release="22.05")
    fake.program("squeue", SQUEUE)
    return fake


def failed_row() -> dict[str, str]:
    jobs = json.loads(recorded("22.05", "1-mixed", "squeue.json"))["jobs"]
    job = next(each for each in jobs if each["job_state"] == "FAILED" and not each["array_job_id"])
    return {
        "jobid": str(job["job_id"]), "state": "PENDING", "restartcnt": "1", "submittime": str(job["submit_time"] + 90),
        "starttime": "N/A", "reason": "BeginTime", "eligibletime": str(job["submit_time"] + 211),
        "preempttime": "N/A", "requeue": "1", "nodelist": "", "partition": job["partition"], "prioritylong": "4000",
        "comment": "(null)",
    }  # fmt: skip


async def test_a_job_is_read_from_tables_alone(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = slurm.scheduler()
    await scheduler.look()
    monkeypatch.setattr(kinds, "LONG_QUEUE", 0)
    row = failed_row()
    put_brief(slurm, row)
    slurm.put("excluded.txt", f"JOBID@EXC_NODES@\n{row['jobid']}@node[001-002]@\n".encode())
    before = len(asked(slurm))
    job = await scheduler.read(row["jobid"])
    assert asked(slurm)[before:] == ["table", "table"]
    assert (job.state, job.restart_count, job.excluded) == (JobState.PENDING, 1, ("node001", "node002"))


async def test_what_the_tables_do_not_tell_is_read_in_full(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = slurm.scheduler()
    await scheduler.look()
    monkeypatch.setattr(kinds, "LONG_QUEUE", 0)
    row = failed_row()
    put_brief(slurm)
    slurm.put("excluded.txt", b"JOBID@EXC_NODES@\n")
    before = len(asked(slurm))
    job = await scheduler.read(row["jobid"])
    assert asked(slurm)[before:] == ["table", "table", "json"]
    assert job.state is JobState.FAILED


async def test_a_job_that_slurm_does_not_know_is_gone(slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = slurm.scheduler()
    await scheduler.look()
    monkeypatch.setattr(kinds, "LONG_QUEUE", 0)
    slurm.program("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    with pytest.raises(JobGoneError):
        await scheduler.read(failed_row()["jobid"])


async def test_a_short_queue_is_read_in_full(slurm: FakeSlurm) -> None:
    scheduler = slurm.scheduler()
    await scheduler.look()
    await scheduler.read(failed_row()["jobid"])
    assert set(asked(slurm)) == {"json"}


async def test_a_later_release_shows_the_one_job_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = FakeSlurm(tmp_path, release="23.11")
    scheduler = slurm.scheduler()
    await scheduler.look()
    monkeypatch.setattr(kinds, "LONG_QUEUE", 0)
    await scheduler.read(failed_row()["jobid"])
    assert set(asked(slurm)) == {"json"}
