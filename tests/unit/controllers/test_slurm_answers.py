"""What the adapter makes of answers that are good, bad, late, or not there."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from relance.controllers.slurm import attempts, questions
from relance.domain.views import JobState
from relance.ports.schedulers import JobGoneError, SchedulerRefusedError, SchedulerSilentError
from tests.unit.controllers.fake_slurm import SACCT, SCONTROL, TITLES, FakeSlurm
from tests.unit.slurm.recorded import RELEASES, recorded


@pytest.fixture
def slurm(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


@pytest.mark.parametrize("release", RELEASES)
async def test_a_look_at_any_release_shows_the_whole_queue(tmp_path: Path, release: str) -> None:
    slurm = FakeSlurm(tmp_path, release=release)
    before = {"State": "REQUEUED", "Submit": "1795966000", "Start": "1795966001", "End": "1795966100"}
    slurm.account(accounted(1) | before)
    report = await slurm.scheduler().look()
    assert report.complete
    assert [job.raw_id for job in report.jobs if job.restart_count] == ["1"]
    assert len(report.jobs) == 12
    (het,) = [job for job in report.jobs if job.raw_id in ("10", "11")]
    assert (het.raw_id, het.nodes, het.node_count) == ("10", ("gpu001", "gpu002"), 2)
    assert len(report.nodes) == 6
    assert report.facts.release.startswith(release)
    assert report.facts.requeue_delay_s == 121
    (past,) = [row for row in report.past if row.raw_id == "1"]
    assert (past.restart_count, past.state) == (0, JobState.REQUEUED)
    (first,) = [job for job in report.jobs if job.raw_id == "1"]
    assert first.first_submitted_at.timestamp() == 1795966000


async def test_a_job_whose_first_attempt_accounting_lacks_is_only_watched(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "_FIRST_WAIT_S", 0.0)
    report = await slurm.scheduler().look()
    assert report.complete
    (again,) = [job for job in report.jobs if job.restart_count]
    assert "accounting lacks its first attempt" in again.only_watched
    assert not any("first attempt" in job.only_watched for job in report.jobs if not job.restart_count)


async def test_a_quiet_queue_costs_one_question_a_look(slurm: FakeSlurm) -> None:
    scheduler = slurm.scheduler()
    for _ in range(3):
        await scheduler.look()
    assert len(slurm.calls("squeue")) == 3
    assert sum("node" in call for call in slurm.calls("scontrol")) == 1
    assert sum("config" in call for call in slurm.calls("scontrol")) == 1


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("echo garbage", id="not JSON"),
        pytest.param("true", id="nothing"),
        pytest.param("head -c 20000 {folder}/jobs.json", id="cut off"),
        pytest.param("echo '{{}}'", id="another object"),
        pytest.param("cat {folder}/jobs.json; exit 1", id="exit code"),
        pytest.param("echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1", id="away"),
        pytest.param("kill -9 $$", id="killed"),
    ],
)
async def test_an_answer_that_cannot_be_read_is_silence_and_never_an_empty_queue(slurm: FakeSlurm, script: str) -> None:
    scheduler = slurm.scheduler()
    await scheduler.look()
    slurm.program("squeue", script)
    with pytest.raises(SchedulerSilentError):
        await scheduler.look()
    with pytest.raises(SchedulerSilentError):
        await scheduler.read("4")


async def test_an_answer_that_does_not_come_in_time_is_silence(
    slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = slurm.scheduler()
    job = (await scheduler.look()).jobs[0]
    monkeypatch.setattr(questions, "ANSWER_S", 0.2)
    slurm.program("squeue", "sleep 30")
    slurm.program("scontrol", "sleep 30")
    with pytest.raises(SchedulerSilentError, match=r"no answer within 0\.2 s"):
        await scheduler.look()
    with pytest.raises(SchedulerSilentError, match=r"no answer within 0\.3 s"):
        await scheduler.send(scheduler.requeue(job), 0.3)


async def test_commands_that_are_not_there_are_silence(tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path)
    (tmp_path / "squeue").unlink()
    with pytest.raises(SchedulerSilentError, match="Cannot start"):
        await slurm.scheduler().look()


async def test_a_job_that_the_answer_lacks_is_gone_and_one_that_was_refused_is_not_changed(slurm: FakeSlurm) -> None:
    scheduler = slurm.scheduler()
    job = (await scheduler.look()).jobs[0]
    with pytest.raises(JobGoneError):
        await scheduler.read("4711")
    slurm.program("scontrol", "echo 'Job is pending execution for job 1' >&2; exit 1")
    with pytest.raises(SchedulerRefusedError, match="pending execution"):
        await scheduler.send(scheduler.requeue(job), 5)
    slurm.program("scontrol", "echo 'Invalid job id specified for job 1' >&2; exit 1")
    with pytest.raises(JobGoneError):
        await scheduler.send(scheduler.requeue(job), 5)


async def test_an_ended_job_that_accounting_does_not_tell_of_has_no_steps(slurm: FakeSlurm) -> None:
    slurm.program("sacct", "echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1")
    report = await slurm.scheduler().look()
    assert {job.steps for job in report.jobs if job.state.is_over} == {None}
    assert any("accounting cannot be read" in text for text in report.problems)
    # When a requeued job was first submitted is not known: it cannot be told of under a key that may be wrong.
    assert "1" not in {job.raw_id for job in report.jobs}
    assert not report.complete


async def test_the_end_of_a_job_counts_when_accounting_has_it_and_its_steps(slurm: FakeSlurm) -> None:
    ended = accounted(2) | {"Submit": submitted(slurm, 2)}
    slurm.account(ended)
    scheduler = slurm.scheduler()
    assert (await scheduler.read("2")).steps is None
    step = {**ended, "JobID": "2.0", "JobIDRaw": "2.0", "State": "CANCELLED by 1001", "End": "1795966500"}
    slurm.account({**ended, "State": "FAILED", "End": "1795966500"}, step)
    end = time.monotonic() + 60
    while (job := await scheduler.read("2")).steps is None:
        assert time.monotonic() < end
    assert [(each.name, each.cancelled_by) for each in job.steps] == [("0", 1001)]


def accounted(job_id: int) -> dict[str, str]:
    """A row of accounting of a job that runs."""
    ids = {"JobID": str(job_id), "JobIDRaw": str(job_id)}
    times = {"Submit": "1", "Start": "1", "End": "Unknown"}
    return ids | times | {"State": "RUNNING", "ExitCode": "0:0", "NodeList": "gpu[001-002]", "UID": "0", "JobName": "a"}


def submitted(slurm: FakeSlurm, job_id: int) -> str:
    jobs = json.loads((slurm.folder / "jobs.json").read_text())["jobs"]
    value = next(job for job in jobs if job["job_id"] == job_id)["submit_time"]
    return str(value["number"] if isinstance(value, dict) else value)


async def test_nodes_that_cannot_be_read_for_a_while_are_said_and_then_left_out(slurm: FakeSlurm) -> None:
    scheduler = slurm.scheduler(nodes_s=0.01)
    await scheduler.look()
    slurm.program("scontrol", "exit 1")
    report = await scheduler.look()
    assert any("nodes cannot be read" in text for text in report.problems)
    assert report.nodes == ()


async def test_hostile_values_reach_no_command_and_no_other_field(slurm: FakeSlurm) -> None:
    evil = "x~|\n   JobState=COMPLETED\nJobId=1; rm -rf /"
    changed(slurm, {"name": evil, "comment": evil, "current_working_directory": "/a/../b\0c", "partition": evil})
    report = await slurm.scheduler().look()
    assert {job.name for job in report.jobs} == {evil}
    assert JobState.RUNNING in {job.state for job in report.jobs}
    assert all(evil not in call for name in ("squeue", "scontrol", "sacct") for call in slurm.calls(name))


def changed(slurm: FakeSlurm, fields: dict[str, Any]) -> None:
    document = json.loads((slurm.folder / "jobs.json").read_text())
    document["jobs"] = [{**job, **fields} for job in document["jobs"] if job["restart_cnt"] == 0]
    slurm.put("jobs.json", json.dumps(document).encode())


@pytest.mark.parametrize("raw_id", ["", "4; rm", "-h", "4_1", "4,5", "٤"])
async def test_what_is_no_raw_id_is_not_asked_for(slurm: FakeSlurm, raw_id: str) -> None:
    with pytest.raises(SchedulerSilentError, match="not the id of a job"):
        await slurm.scheduler().read(raw_id)
    assert slurm.calls("squeue") == []


async def test_root_and_the_cluster_s_own_user_may_not_act(slurm: FakeSlurm) -> None:
    report = await slurm.scheduler(account=("root", 0)).look()
    assert report.facts.lacks


async def test_a_coordinator_acts_for_its_accounts_and_only_watches_the_others(slurm: FakeSlurm) -> None:
    slurm.program("sacctmgr", 'echo "relance|None|pilot"')
    report = await slurm.scheduler().look()
    assert report.facts.may_act
    assert all("pilot" in job.only_watched for job in report.jobs if job.state is JobState.RUNNING)


async def test_a_plain_user_may_not_act(slurm: FakeSlurm) -> None:
    slurm.program("sacctmgr", 'echo "relance|None|"')
    assert not (await slurm.scheduler().look()).facts.may_act


async def test_jobs_outside_the_served_partitions_are_left_out_but_for_their_owners_copies(slurm: FakeSlurm) -> None:
    document = json.loads(recorded("25.11", "1-mixed", "squeue.json"))
    for number, job in enumerate(document["jobs"]):
        job["partition"], job["user_id"] = ("other", 7) if number == 0 else ("else", 8)
        job["restart_cnt"] = 0
    document["jobs"][1] |= {"partition": "train", "user_id": 7}
    slurm.put("jobs.json", json.dumps(document).encode())
    report = await slurm.scheduler(partitions=("train",)).look()
    assert {job.partition: bool(job.only_watched) for job in report.jobs} == {"train": False, "other": True}


async def test_what_waits_again_after_a_preemption_is_told_by_accounting(slurm: FakeSlurm) -> None:
    slurm.account(accounted(1) | {"State": "PREEMPTED", "Submit": "1795966000", "End": "1795966100"})
    report = await slurm.scheduler().look()
    (past,) = [row for row in report.past if row.raw_id == "1"]
    assert (past.restart_count, past.state) == (0, JobState.PREEMPTED)


async def test_an_end_that_accounting_lacks_is_asked_for_again_in_the_same_look(slurm: FakeSlurm) -> None:
    document = json.loads((slurm.folder / "jobs.json").read_text())
    document["jobs"] = [job for job in document["jobs"] if job["job_id"] in (2, 5)]
    slurm.put("jobs.json", json.dumps(document).encode())
    await slurm.scheduler().look()
    _fields, first, *others = [call.rpartition("--jobs=")[2] for call in slurm.calls("sacct")]
    assert set(first.split(",")) == {"2", "5"}
    # Of the job that completed nobody needs to know in a hurry.
    assert others == ["2", "2", "2"]
    assert len(slurm.calls("squeue")) == 1


async def test_a_job_that_left_the_queue_while_it_ran_is_told_of_with_its_end(slurm: FakeSlurm) -> None:
    scheduler = slurm.scheduler()
    await scheduler.look()
    document = json.loads((slurm.folder / "jobs.json").read_text())
    document["jobs"] = [job for job in document["jobs"] if job["job_id"] != 4]
    ended = {"State": "TIMEOUT", "Submit": submitted(slurm, 4), "End": "1795966900"}
    slurm.put("jobs.json", json.dumps(document).encode())
    slurm.account(accounted(4) | ended)
    for _ in range(2):
        report = await scheduler.look()
        (past,) = [row for row in report.past if row.raw_id == "4"]
        assert (past.restart_count, past.state) == (0, JobState.TIMEOUT)


async def test_the_end_of_a_job_that_left_is_told_also_if_accounting_is_away_in_that_look(slurm: FakeSlurm) -> None:
    scheduler = slurm.scheduler()
    await scheduler.look()
    document = json.loads((slurm.folder / "jobs.json").read_text())
    document["jobs"] = [job for job in document["jobs"] if job["job_id"] != 4]
    ended = {"State": "TIMEOUT", "Submit": submitted(slurm, 4), "End": "1795966900"}
    slurm.put("jobs.json", json.dumps(document).encode())
    slurm.account(accounted(4) | ended)
    slurm.program("sacct", "echo 'sacct: error: Problem talking to the database' >&2; exit 1")
    report = await scheduler.look()
    assert report.problems
    assert [row for row in report.past if row.raw_id == "4"] == []
    slurm.program("sacct", SACCT)
    await asyncio.sleep(0.4)  # accounting is not asked again at once
    report = await scheduler.look()
    assert [row.state for row in report.past if row.raw_id == "4"] == [JobState.TIMEOUT]


async def test_before_what_runs_is_ended_it_is_read_anew_who_works_in_it(slurm: FakeSlurm) -> None:
    scheduler = slurm.scheduler()
    job = await scheduler.read("4")
    assert (job.state, job.somebody_at_work) == (JobState.RUNNING, None)
    titles, user = "STEPID@USER@START_TIME@NODELIST@NAME@", job.user
    slurm.put("steps.txt", f"{titles}\n4.0@{user}@1795966500@gpu003@gdb@\n".encode())
    assert (await scheduler.read("4")).somebody_at_work is None, "nobody is about to end it: not asked again so soon"
    scheduler.requeue(job)
    assert "gdb" in str((await scheduler.read("4")).somebody_at_work)
    slurm.program("squeue", """case "$*" in *--steps*) exit 1 ;; *) cat {folder}/jobs.json ;; esac""")
    with pytest.raises(SchedulerSilentError, match="steps"):
        await scheduler.read("4")


@pytest.mark.parametrize("knows", [True, False])
async def test_attempts_are_numbered_where_accounting_can_and_it_is_asked_for_that_once(
    slurm: FakeSlurm, *, knows: bool
) -> None:
    before = {"State": "REQUEUED", "Submit": "1795966000", "Start": "1795966001", "End": "1795966100", "Restarts": "0"}
    slurm.account(accounted(1) | before, titles=(*TITLES, "Restarts") if knows else TITLES)
    fields = " ".join(("Reservation", "Restarts", "Start") if knows else ("Reservation", "Start"))
    slurm.program("sacct", f'case "$*" in *--helpformat*) echo "{fields}"; exit;; esac\n{SACCT}')
    scheduler = slurm.scheduler()
    await scheduler.look()
    report = await scheduler.look()
    assert sum(row.raw_id == "1" for row in report.past) == 1
    asked = slurm.calls("sacct")
    assert asked.count("--helpformat") == 1
    assert {",Restarts" in call for call in asked if call != "--helpformat"} == {knows}


async def test_accounting_whose_fields_are_not_told_is_asked_all_the_same(slurm: FakeSlurm) -> None:
    slurm.program("sacct", f'case "$*" in *--helpformat*) exit 1;; esac\n{SACCT}')
    report = await slurm.scheduler().look()
    assert report.problems == ()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            "printf 'Federation: coast\\nSelf:       alpha:10.0.0.1:6817 ID:1 FedState:ACTIVE\\n'",
            "is part of a federation",
        ),
        ("exit 1", "cannot be read"),
        ("echo garbage", "cannot be read"),
    ],
)
async def test_nothing_is_done_in_a_federation_nor_where_that_is_not_known(
    slurm: FakeSlurm, answer: str, words: str
) -> None:
    slurm.program("scontrol", f'case "$*" in *federation*) {answer}; exit;; esac\n{SCONTROL}')
    report = await slurm.scheduler().look()
    (lacking,) = report.facts.lacks
    assert words in lacking


async def test_an_empty_answer_is_no_federation(slurm: FakeSlurm) -> None:
    report = await slurm.scheduler().look()
    assert report.facts.lacks == ()
    assert "show federation" in slurm.calls("scontrol")
