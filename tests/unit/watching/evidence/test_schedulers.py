from __future__ import annotations

from datetime import UTC, datetime

import pytest

from relance.domain.views import JobState, NodeState
from relance.slurm.errors import SlurmError
from relance.slurm.hostlists import expand
from relance.watching.evidence.contexts import Context
from relance.watching.evidence.jobs import SeenJob, chosen, exit_of, jobs_of, limit_s, past_of, state_of, view_of
from relance.watching.evidence.tables import jobs_in, node_state, nodes_in, nodes_in_notes, nodes_of_document

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SACCT = {
    "meta": {"Slurm": {"version": {"major": 24}}},
    "jobs": [
        {
            "job_id": 17, "name": "pre", "user": "ada", "partition": "gpu",
            "state": {"current": ["CANCELLED"], "reason": "None"}, "kill_request_user": "ada",
            "exit_code": {"status": ["SIGNALED"], "return_code": {"set": True, "infinite": False, "number": 0},
                          "signal": {"id": {"set": True, "infinite": False, "number": 9}, "name": "KILL"}},
            "nodes": "n[1-3]", "restart_cnt": 2,
            "time": {"submission": 1767225600, "start": 1767225660, "end": 1767229260},
            "steps": [{"step": {"id": {"job_id": 17, "step_id": "0"}, "name": "train"}, "state": ["CANCELLED"],
                       "kill_request_user": "root",
                       "exit_code": {"return_code": {"set": True, "number": 1}, "signal": {"id": 15}}}],
        }
    ],
}  # fmt: skip
SQUEUE = {
    "jobs": [
        {
            "job_id": 18, "job_state": ["FAILED", "COMPLETING"], "state_reason": "NonZeroExitCode",
            "exit_code": {"return_code": {"set": True, "number": 1}, "signal": {"id": {"set": False, "number": 0}}},
            "nodes": "n4", "restart_cnt": 0, "user_id": 1001, "requeue": True,
            "submit_time": {"set": True, "number": 1767225600}, "start_time": {"set": True, "number": 1767225660},
            "end_time": {"set": True, "number": 0}, "time_limit": {"set": True, "number": 60},
        }
    ]
}  # fmt: skip
SIMPLE = {
    "jobs": [
        {
            "job_id": 9931, "state": "NODE_FAIL", "exit_code": "0:1", "derived_exit_code": "0:1", "nodes": "sp[1-3]",
            "start": "2026-08-19T10:00:00", "end": "2026-08-19T22:16:02", "time_limit": "2-00:00:00", "requeue": 0,
            "steps": [{"step": "9931.0", "state": "CANCELLED by 1002", "exit_code": "0:15"}],
        }
    ]
}  # fmt: skip


def nodes(shown: str) -> tuple[str, ...]:
    try:
        return expand(shown)
    except SlurmError:
        return ()


def test_accounting_of_a_real_release_is_read() -> None:
    (job,) = jobs_of(SACCT, nodes)
    assert (job.raw_id, job.state, job.exit_code, job.exit_signal) == ("17", JobState.CANCELLED, 0, 9)
    assert (job.nodes, job.restart_count, job.user) == (("n1", "n2", "n3"), 2, "ada")
    assert job.started_at == datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert job.steps is not None
    assert (job.steps[0].name, job.steps[0].cancelled_by, job.steps[0].exit_signal) == ("train", 0, 15)


def test_the_queue_of_a_real_release_is_read() -> None:
    (job,) = jobs_of(SQUEUE, nodes)
    assert (job.state, job.exit_code, job.exit_signal, job.uid) == (JobState.FAILED, 1, 0, 1001)
    assert (job.ended_at, job.time_limit_s, job.requeue) == (None, 3600.0, True)
    assert job.steps is None, "the queue knows no steps, which is not: there were none"


def test_a_short_form_is_read() -> None:
    (job,) = jobs_of(SIMPLE, nodes)
    view = view_of(job, NOW)
    assert (view.state, view.exit_code, view.exit_signal) == (JobState.NODE_FAIL, 0, 1)
    assert view.nodes == ("sp1", "sp2", "sp3")
    assert (view.time_limit_s, view.requeue_allowed) == (172_800.0, False)
    assert view.steps is not None
    assert view.steps[0].cancelled_by == 1002


def test_a_job_that_waits_again_ended_by_a_requeue() -> None:
    waiting = {"job_id": 1, "state": "PENDING", "reason": "BeginTime", "restart_cnt": 1, "nodes": "n1"}
    (again,) = jobs_of([waiting], nodes)
    (new,) = jobs_of([{**waiting, "restart_cnt": 0}], nodes)
    assert view_of(again, NOW).state is JobState.REQUEUED
    assert view_of(new, NOW).state is JobState.PENDING


def test_of_several_jobs_the_one_on_the_nodes_of_the_context_is_meant() -> None:
    jobs = jobs_of(
        [
            {"job_id": 1, "state": "COMPLETED", "nodes": "n[1-2]", "start": "2026-01-02T00:00:00"},
            {"job_id": 2, "state": "FAILED", "nodes": "n[1-2]", "start": "2026-01-01T00:00:00"},
            {"job_id": 3, "state": "FAILED", "nodes": "n9", "start": "2026-01-03T00:00:00"},
        ],
        nodes,
    )
    for order in (jobs, jobs[::-1]):
        found = chosen(order, Context(nodes=("n1", "n2")))
        assert found is not None
        assert found.raw_id == "2"
        named = chosen(order, Context(nodes=("n1", "n2"), job_id="3"))
        assert named is not None
        assert named.raw_id == "3"


def test_earlier_attempts_stand_beside_the_last_one() -> None:
    records = [
        {"job_id": 1, "state": "NODE_FAIL", "nodes": "n1", "restart_cnt": 0, "start": "2026-01-01T00:00:00"},
        {"job_id": 1, "state": "FAILED", "nodes": "n2", "restart_cnt": 1, "start": "2026-01-01T02:00:00"},
    ]
    jobs = jobs_of(records, nodes)
    last = chosen(jobs, Context())
    assert last is not None
    assert (last.restart_count, last.state) == (1, JobState.FAILED)
    (before,) = past_of(jobs, last, NOW)
    assert (before.state, before.nodes) == (JobState.NODE_FAIL, ("n1",))


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        ("CANCELLED by 1000", JobState.CANCELLED),
        (["RUNNING"], JobState.RUNNING),
        ({"current": ["TIMEOUT"]}, JobState.TIMEOUT),
        ("OUT_OF_ME+", None),
        ("NF", JobState.NODE_FAIL),
        ("PREEMPTED", JobState.PREEMPTED),
        (17, None),
        (None, None),
    ],
)
def test_states(shown: object, state: JobState | None) -> None:
    assert state_of(shown) is state


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("1:9", (1, 9)),
        (256, (1, 0)),
        (9, (0, 9)),
        ({"return_code": 2}, (2, 0)),
        ("x", (None, None)),
        (None, (None, None)),
    ],
)
def test_exits(shown: object, found: tuple[int | None, int | None]) -> None:
    assert exit_of(shown) == found


@pytest.mark.parametrize(
    ("shown", "seconds"),
    [("2-00:00:00", 172_800.0), ("01:30:00", 5400.0), ("30", 1800.0), ("UNLIMITED", None), (60, 3600.0)],
)
def test_time_limits(shown: object, seconds: float | None) -> None:
    assert limit_s(shown) == seconds


def test_tables_of_jobs_are_read() -> None:
    piped = (
        "JobID|JobName|State|ExitCode|NodeList|Start|End\n"
        "17|pre|FAILED|1:0|n[1-2]|2026-01-01T00:00:00|Unknown\n"
        "17.0|train|CANCELLED by 0|0:9|n[1-2]||\n"
    )
    (job,) = jobs_in(piped, nodes)
    assert (job.state, job.exit_code, job.nodes) == (JobState.FAILED, 1, ("n1", "n2"))
    assert [(step.name, step.cancelled_by) for step in job.steps or ()] == [("17.0", 0)]
    plain = (
        "JobID           JobName      State ExitCode\n"
        "------------ ---------- ---------- --------\n"
        "18                train    TIMEOUT      0:0\n"
    )
    assert [each.state for each in jobs_in(plain, nodes)] == [JobState.TIMEOUT]
    queue = (
        "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n"
        "19 gpu pre ada PD 0:00 4 (BeginTime)\n"
        "20 gpu pre ada R 1:00 2 n[3-4]\n"
    )
    waits, runs = jobs_in(queue, nodes)
    assert (waits.state, waits.reason, waits.nodes) == (JobState.PENDING, "BeginTime", ())
    assert (runs.state, runs.nodes) == (JobState.RUNNING, ("n3", "n4"))
    shown = (
        "JobId=21 JobName=pre\n"
        "   UserId=ada(1001) Requeue=1 Restarts=2\n"
        "   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)\n"
        "   ExitCode=1:0\n"
        "   NodeList=n[5-6]\n"
    )
    (job,) = jobs_in(shown, nodes)
    assert (job.raw_id, job.state, job.restart_count, job.nodes) == ("21", JobState.FAILED, 2, ("n5", "n6"))


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        ("idle", NodeState.IDLE), ("mixed", NodeState.ALLOCATED), ("down*", NodeState.DOWN),
        ("idle*", NodeState.UNKNOWN),
        ("IDLE+DRAIN", NodeState.DRAINED), ("drng", NodeState.DRAINED), ("maint", NodeState.MAINTENANCE),
        ("alloc@", NodeState.MAINTENANCE), ("DOWN+NOT_RESPONDING", NodeState.DOWN), ("NotReady", NodeState.DOWN),
        ("Ready,SchedulingDisabled", NodeState.DRAINED), ("odd", NodeState.UNKNOWN),
    ],
)  # fmt: skip
def test_words_for_nodes(shown: str, state: NodeState) -> None:
    assert node_state(shown) is state


def test_tables_of_nodes_are_read() -> None:
    found = {view.name: view for view in nodes_in("NODELIST STATE GRES\nn[1-2] idle gpu:8\nn3 down* gpu:8\n", nodes)}
    assert [(name, found[name].state) for name in sorted(found)] == [
        ("n1", NodeState.IDLE), ("n2", NodeState.IDLE), ("n3", NodeState.DOWN),
    ]  # fmt: skip
    (view,) = nodes_in(
        "REASON               USER      TIMESTAMP           NODELIST\n"
        "Not responding       slurm     2026-01-01T10:00:00 n3\n",
        nodes,
    )
    assert (view.name, view.reason, view.set_by, view.state) == ("n3", "Not responding", "slurm", NodeState.DRAINED)
    (view,) = nodes_in(
        "NodeName=n4 Arch=x86_64\n   State=DOWN+DRAIN\n   Reason=Xid 79 seen [root@2026-01-01T10:00:00]\n", nodes
    )
    assert (view.state, view.reason, view.set_by) == (NodeState.DOWN, "Xid 79 seen", "root")
    assert view.since == datetime(2026, 1, 1, 10, tzinfo=UTC)


def test_a_reason_of_blanks_without_end_takes_no_time() -> None:
    rows = f"REASON USER TIMESTAMP NODELIST\nx{' ' * 200_000}y\ndisk is bad root 2026-01-01T10:00:00 n3\n"
    (view,) = nodes_in(rows, nodes)
    assert (view.name, view.reason) == ("n3", "disk is bad")


def test_times_of_any_size_are_no_error() -> None:
    (job,) = jobs_of([{"job_id": 1, "state": "FAILED", "start_time": 10**400, "end_time": 1767225600}], nodes)
    assert (job.started_at, job.ended_at) == (None, datetime(2026, 1, 1, tzinfo=UTC))


def test_documents_of_nodes_are_read() -> None:
    document = {"nodes": [{"name": "n1", "state": ["IDLE", "DRAIN"], "reason": "ecc", "reason_changed_at": 1767225600}]}
    (view,) = nodes_of_document(document, nodes)
    assert (view.state, view.reason, view.since) == (NodeState.DRAINED, "ecc", datetime(2026, 1, 1, tzinfo=UTC))


def test_a_note_that_quotes_the_scheduler_tells_a_node() -> None:
    (view,) = nodes_in_notes("$ scontrol show node n1 | grep State\n"
        "   State=MIXED+DRAIN X=1\n"
        "   Reason=low gres [slurm@2026-01-01T10:00:00]\n")  # fmt: skip
    assert (view.name, view.state, view.reason) == ("n1", NodeState.DRAINED, "low gres")


def test_what_is_about_something_else_gives_no_job() -> None:
    others: tuple[object, ...] = (
        {"items": []},
        [],
        {"jobs": "none"},
        {"jobs": [{"id": 1}]},
        {"state": "FAILED"},
        "text",
        17,
        None,
    )
    for document in others:
        assert jobs_of(document, nodes) == ()
    assert chosen((), Context()) is None
    assert SeenJob(raw_id="1", state=JobState.UNKNOWN).steps is None
