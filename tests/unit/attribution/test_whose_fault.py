from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from relance.attribution import attribute, faults_sentence
from relance.domain.faults import FaultDomain, Remedy, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Certainty, Coverage, FindingKind, OddNode, RuleHit, Sight, Sign
from relance.domain.stages import EndRunning
from relance.domain.verdicts import CaseFile, FleetSign, Presence, Strength, Suspect, Verdict
from relance.domain.views import JobState, NodeState, StepView
from tests.unit.attribution.cases import (
    FAILED,
    NODES,
    RUNNING,
    at,
    case,
    down,
    earlier,
    finding,
    hit,
    key_error,
    killed,
    launch_failure,
    teardown,
    timeout,
    trained_until,
    xid31,
    xid79,
)

OOM = hit("cuda_oom", 50, rank=0)
KERNEL_OOM = hit(
    "cgroup_oom", 99, scope=Scope.KERNEL, node="n2", file="n2/kern.log", suspect=SuspectKind.SELF,
    excerpt="Memory cgroup out of memory: Killed process 4411",
)  # fmt: skip
NFS = [
    hit("nfs_stall", 90 + index, scope=Scope.KERNEL, domain=FaultDomain.STORAGE, suspect=SuspectKind.ALL,
        restart=RestartHint.WAIT, node=node, file=f"{node}/kern.log")
    for index, node in enumerate(NODES)
]  # fmt: skip
NFS_BACK = replace(NFS[0], symptom="nfs_recovered", role=Role.RECOVERY, at=at(120), offset=20000)
IO_ERRORS = [
    hit("io_error", 100, rank=rank, domain=FaultDomain.STORAGE, suspect=SuspectKind.SELF, restart=RestartHint.EXCLUDE,
        offset=10000 + rank)
    for rank in range(0, 8, 2)
]  # fmt: skip
IB_RETRY = hit(
    "ib_retry_exceeded", 99, domain=FaultDomain.INTERCONNECT, role=Role.MAYBE, suspect=SuspectKind.PEER,
    restart=RestartHint.OK, rank=0, captures={"peer": "n2-ib0<4013>"},
)  # fmt: skip
JOB_CANCELLED = hit("user_cancelled", 100, domain=FaultDomain.USER, restart=RestartHint.SCHEDULER)
TERMED = [
    hit("task_terminated", 100, domain=FaultDomain.UNKNOWN, role=Role.TEARDOWN, restart=RestartHint.NOTHING,
        captures={"node": node}, offset=10000 + index)
    for index, node in enumerate(NODES)
]  # fmt: skip
STEP_ENDED = hit(
    "step_cancelled", 100, domain=FaultDomain.UNKNOWN, role=Role.TEARDOWN, restart=RestartHint.NOTHING, offset=9000,
)  # fmt: skip
EXITED = hit(
    "task_exit", 99, domain=FaultDomain.UNKNOWN, role=Role.CONTEXT, restart=RestartHint.NOTHING,
    captures={"node": "n1", "exit": "3"},
)  # fmt: skip
NODE_FAILED = hit(
    "node_failed", 100, domain=FaultDomain.HARDWARE, suspect=SuspectKind.PEER, restart=RestartHint.EXCLUDE,
    captures={"node": "n3"},
)  # fmt: skip
XID_NEEDS_RESET = xid79(99.5, symptom="gpu_needs_reset")
CONTAINED = xid79(99, symptom="ecc_contained", restart=RestartHint.OK)
DOUBTFUL = xid79(90, symptom="pcie_nonfatal", role=Role.MAYBE)
SEGFAULT = hit(
    "task_crash", 100, domain=FaultDomain.UNKNOWN, role=Role.MAYBE, suspect=SuspectKind.PEER, rank=3,
    restart=RestartHint.ONCE, captures={"node": "n2", "task": "3"},
)  # fmt: skip
ADVICE = hit("cuda_advice", 10, role=Role.DIAGNOSTIC, domain=FaultDomain.HARDWARE, suspect=SuspectKind.SELF)
BARRIER = hit(
    "barrier_rank_missing", 100, domain=FaultDomain.UNKNOWN, suspect=SuspectKind.RANK, restart=RestartHint.NOTHING,
    rank=0, captures={"rank": "5"},
)  # fmt: skip
CANCELLED_STEP = StepView(name="17.0", state=JobState.CANCELLED, cancelled_by=0)
OTHERS_OOM_KILL = hit("cgroup_oom", 110, scope=Scope.KERNEL, node="n2", file="n2/kern.log", at=None)
DONE = hit("done", 180, role=Role.RECOVERY, domain=FaultDomain.NONE, restart=RestartHint.NOTHING)
PORT_ERROR = hit(
    "ib_async_fatal", 100, domain=FaultDomain.INTERCONNECT, suspect=SuspectKind.SELF, restart=RestartHint.EXCLUDE,
    captures={"host": "n3"},
)  # fmt: skip

NOBODY_CAME = hit(
    "store_unreachable", 100, domain=FaultDomain.UNKNOWN, role=Role.CASCADE, suspect=SuspectKind.ALL, node="n1"
)


def waited(when: float, rank: int, op: str = "ALLREDUCE", enqueued: int = 20) -> RuleHit:
    """A rank's time-out of collective 17, which began ten seconds earlier."""
    seen = {"seq": "17", "op": op, "timeout_ms": "10000", "enqueued": str(enqueued), "completed": "16"}
    return replace(timeout(when, rank), captures=seen)


SITUATIONS: dict[str, tuple[CaseFile, FaultDomain, str, Remedy, tuple[str, ...]]] = {
    "a traceback of the job's own code": (
        case(key_error(100), teardown(101)),
        FaultDomain.APPLICATION, "python_exception", Remedy.STOP, (),
    ),
    "a rule that says no is a stop": (
        case(key_error(100, restart=RestartHint.NO, symptom="import_error")),
        FaultDomain.APPLICATION, "import_error", Remedy.STOP, (),
    ),
    "a root row of a host before the program's fault outranks it": (
        case(xid79(99), key_error(100)), FaultDomain.HARDWARE, "gpu_fell_off_bus", Remedy.RESTART_EXCLUDING, ("n2",),
    ),
    "a host's row with the program's fault outranks it, for clocks are coarse": (
        case(key_error(100), xid79(105)), FaultDomain.HARDWARE, "gpu_fell_off_bus", Remedy.RESTART_EXCLUDING, ("n2",),
    ),
    "a host's row long after the program's own root line does not": (
        case(key_error(100), xid79(140)), FaultDomain.APPLICATION, "python_exception", Remedy.STOP, (),
    ),
    "a host's row that comes late explains an end without a cause, on the same node": (
        case(launch_failure(100), teardown(101), xid79(112)),
        FaultDomain.HARDWARE, "gpu_fell_off_bus", Remedy.RESTART_EXCLUDING, ("n2",),
    ),
    "and not one on another node": (
        case(launch_failure(100), xid79(112, node="n4")), FaultDomain.UNKNOWN, "launch_failure", Remedy.RESTART,
        ("n2",),
    ),
    "an end without any line takes a late row of any node": (
        case(xid79(205)), FaultDomain.HARDWARE, "gpu_fell_off_bus", Remedy.RESTART_EXCLUDING, ("n2",),
    ),
    "a row of a node that is not the job's says nothing": (
        case(xid79(99, node="n9"), killed(100)),
        FaultDomain.UNKNOWN,
        "task_killed",
        Remedy.RESTART,
        (),
    ),
    "nor does one from long before the attempt": (
        case(xid79(-700), killed(100)),
        FaultDomain.UNKNOWN,
        "task_killed",
        Remedy.RESTART,
        (),
    ),
    "one from shortly before it does: a GPU that is gone is not told again": (
        case(xid79(-60), killed(100)),
        FaultDomain.HARDWARE,
        "gpu_fell_off_bus",
        Remedy.RESTART_EXCLUDING,
        ("n2",),
    ),
    "the driver's order overrides a mild companion": (
        case(CONTAINED, XID_NEEDS_RESET), FaultDomain.HARDWARE, "ecc_contained", Remedy.RESTART_EXCLUDING, ("n2",),
    ),
    "a contained error leaves its node in use": (
        case(CONTAINED), FaultDomain.HARDWARE, "ecc_contained", Remedy.RESTART, ("n2",),
    ),
    "a kill without a sign has no class": (
        case(killed(100), teardown(101)), FaultDomain.UNKNOWN, "task_killed", Remedy.RESTART, (),
    ),
    "an oom-killer's line gives a kill its class": (
        case(KERNEL_OOM, killed(100)), FaultDomain.APPLICATION, "cgroup_oom", Remedy.RESTART, (),
    ),
    "so does the scheduler's word": (
        case(killed(100), job=replace(FAILED, state=JobState.OUT_OF_MEMORY)),
        FaultDomain.APPLICATION, "cgroup_oom", Remedy.RESTART, (),
    ),
    "so does a row of the node": (
        case(killed(100), xid79(104)), FaultDomain.HARDWARE, "gpu_fell_off_bus", Remedy.RESTART_EXCLUDING, ("n2",),
    ),
    "a doubtful network row beside a death is the dead peer": (
        case(IB_RETRY, killed(100)), FaultDomain.UNKNOWN, "task_killed", Remedy.RESTART, (),
    ),
    "what came after the shut-down had begun is a consequence": (
        case(timeout(99, 0), teardown(100), key_error(120)),
        FaultDomain.APPLICATION, "python_exception", Remedy.RESTART, (),
    ),
    "a kill after the step was taken down is a consequence": (
        case(timeout(99, 0), teardown(100), killed(140)), FaultDomain.UNKNOWN, "collective_timeout", Remedy.RESTART, (),
    ),
    "only consequences: nobody is named": (
        case(timeout(100, 0), timeout(100.5, 1)), FaultDomain.UNKNOWN, "collective_timeout", Remedy.RESTART, (),
    ),
    "advice never counts": (
        case(ADVICE, timeout(100, 0)), FaultDomain.UNKNOWN, "collective_timeout", Remedy.RESTART, (),
    ),
    "the same error on most ranks is one incident without a suspect": (
        case(*(launch_failure(100 + rank / 10, rank) for rank in range(8))),
        FaultDomain.UNKNOWN, "launch_failure", Remedy.RESTART, (),
    ),
    "a fault of storage on most nodes is a shared service: wait": (
        case(*IO_ERRORS), FaultDomain.STORAGE, "io_error", Remedy.WAIT, (),
    ),
    "and on one node that node's": (
        case(IO_ERRORS[1]), FaultDomain.STORAGE, "io_error", Remedy.RESTART_EXCLUDING, ("n2",),
    ),
    "an error of storage that other owners have too is shared": (
        case(
            IO_ERRORS[1],
            fleet=tuple(
                FleetSign(incident_id=f"i{name}", owner=name, workflow=name, domain=FaultDomain.STORAGE,
                          cause="io_error", at=at(290))
                for name in ("bo", "cy")
            ),
        ),
        FaultDomain.STORAGE, "io_error", Remedy.WAIT, (),
    ),
    "two nodes of a job may both be broken": (
        case(xid79(99, "n1"), xid79(99, "n2")),
        FaultDomain.HARDWARE,
        "gpu_fell_off_bus",
        Remedy.RESTART_EXCLUDING,
        ("n1", "n2"),
    ),
    "three at the same moment are not": (
        case(*(xid79(99, node) for node in NODES[:3])),
        FaultDomain.HARDWARE,
        "gpu_fell_off_bus",
        Remedy.RESTART,
        (),
    ),
    "a file server that is silent on all nodes": (
        case(*NFS), FaultDomain.STORAGE, "nfs_stall", Remedy.WAIT, (),
    ),
    "and one that came back": (
        case(NFS[0], NFS_BACK, killed(200)), FaultDomain.UNKNOWN, "task_killed", Remedy.RESTART, (),
    ),
    "what training went on after is not what ended it": (
        case(OOM, killed(190), progress=trained_until(189)), FaultDomain.UNKNOWN, "task_killed", Remedy.RESTART, (),
    ),
    "a running attempt that trained on is sound": (
        case(OOM, job=RUNNING, progress=trained_until(290)), FaultDomain.NONE, "recovered", Remedy.NONE, (),
    ),
    "a line that says who is missing points, and does not exclude": (
        case(BARRIER), FaultDomain.UNKNOWN, "barrier_rank_missing", Remedy.RESTART, ("n3",),
    ),
    "a root line earlier than the pointer wins": (
        case(key_error(90, rank=5), BARRIER), FaultDomain.APPLICATION, "python_exception", Remedy.STOP, (),
    ),
    "the host in NCCL's own prefix counts if it is one of the job's": (
        case(PORT_ERROR), FaultDomain.INTERCONNECT, "ib_async_fatal", Remedy.RESTART_EXCLUDING, ("n3",),
    ),
    "and is nothing if it is not": (
        case(replace(PORT_ERROR, captures={"host": "elsewhere"})),
        FaultDomain.INTERCONNECT, "ib_async_fatal", Remedy.RESTART, (),
    ),
    "srun says that a node failed": (
        case(NODE_FAILED), FaultDomain.HARDWARE, "node_failed", Remedy.RESTART_EXCLUDING, ("n3",),
    ),
    "the job is told that a node failed, and the scheduler shows which": (
        case(replace(NODE_FAILED, captures={}, suspect=SuspectKind.NONE), node_views=(down("n4"),)),
        FaultDomain.HARDWARE, "node_failed", Remedy.RESTART_EXCLUDING, ("n4",),
    ),
    "the scheduler shows a node as lost": (
        case(timeout(160, 0), node_views=(down("n4"),)),
        FaultDomain.HARDWARE, "node_unreachable", Remedy.RESTART_EXCLUDING, ("n4",),
    ),
    "a node that a person took down is no sign": (
        case(timeout(160, 0), node_views=(down("n4", "new disks", set_by="olga"),)),
        FaultDomain.UNKNOWN, "collective_timeout", Remedy.RESTART, (),
    ),
    "nor is a node that Slurm drained because of our own restart": (
        case(
            timeout(160, 0),
            node_views=(down("n4", "Kill task failed", state=NodeState.DRAINED, set_by="root"),),
            expected={"n4": "our own restart of job 9"},
        ),
        FaultDomain.UNKNOWN, "collective_timeout", Remedy.RESTART, (),
    ),
    "nor is one that is lost while we keep it out": (
        case(timeout(160, 0), node_views=(down("n4"),), expected={"n4": "relance keeps it out for olga"}),
        FaultDomain.UNKNOWN, "collective_timeout", Remedy.RESTART, (),
    ),
    "nor is planned maintenance": (
        case(timeout(160, 0), node_views=(down("n4", state=NodeState.MAINTENANCE),)),
        FaultDomain.UNKNOWN, "collective_timeout", Remedy.RESTART, (),
    ),
    "a lost node later than the program's own bug does not outrank it": (
        case(key_error(100), node_views=(down("n4"),)),
        FaultDomain.APPLICATION, "python_exception", Remedy.STOP, (),
    ),
    "a lost node explains a fault of storage seen before it was noticed": (
        case(IO_ERRORS[1], node_views=(down("n4"),)),
        FaultDomain.HARDWARE,
        "node_unreachable",
        Remedy.RESTART_EXCLUDING,
        ("n4",),
    ),
    "a death that the launcher tells while it shuts down": (
        case(timeout(99, 0), teardown(100, "agent_teardown"), killed(100.5)),
        FaultDomain.UNKNOWN,
        "task_killed",
        Remedy.RESTART,
        (),
    ),
    "a death long after the launcher began to shut down": (
        case(timeout(99, 0), teardown(100, "agent_teardown"), killed(140)),
        FaultDomain.UNKNOWN,
        "collective_timeout",
        Remedy.RESTART,
        (),
    ),
    "NODE_FAIL alone names no node": (
        case(job=replace(FAILED, state=JobState.NODE_FAIL)), FaultDomain.HARDWARE, "node_failed", Remedy.RESTART, (),
    ),
    "nothing but an exit code": (
        case(findings=(finding(kind=FindingKind.EXIT),)), FaultDomain.UNKNOWN, "exited_nonzero", Remedy.RESTART, (),
    ),
    "nothing at all": (
        case(job=RUNNING), FaultDomain.NONE, "healthy", Remedy.NONE, (),
    ),
    "a process that ended, and the scheduler does not say so yet": (
        case(findings=(finding(EXITED, signs=frozenset({Sign.PROCESS_DEATH})),), job=RUNNING),
        FaultDomain.UNKNOWN,
        "ended_without_a_sign",
        Remedy.RESTART,
        (),
    ),
    "a process that ended long before the last step": (
        case(
            findings=(finding(EXITED, signs=frozenset({Sign.PROCESS_DEATH})),),
            job=RUNNING,
            progress=trained_until(290),
        ),
        FaultDomain.NONE,
        "healthy",
        Remedy.NONE,
        (),
    ),
    "a doubtful row of a host is weak": (
        case(DOUBTFUL, timeout(100, 0)), FaultDomain.HARDWARE, "pcie_nonfatal", Remedy.RESTART, ("n2",),
    ),
    "the program's own root line outranks a doubtful row of a host": (
        case(DOUBTFUL, key_error(100)), FaultDomain.APPLICATION, "python_exception", Remedy.STOP, (),
    ),
    "a process that crashed is weak evidence against its node": (
        case(SEGFAULT), FaultDomain.UNKNOWN, "task_crash", Remedy.RESTART, ("n2",),
    ),
    "page faults on many nodes at once are the program's": (
        case(*(xid31(100, node, device=f"dev{node}") for node in NODES)),
        FaultDomain.APPLICATION, "gpu_page_fault", Remedy.STOP, (),
    ),
    "the same traceback on all nodes within seconds happens again": (
        case(*(key_error(100 + rank / 10, rank) for rank in range(8))),
        FaultDomain.APPLICATION, "python_exception", Remedy.STOP, (),
    ),
    "memory that ran out on all ranks may fit the next time": (
        case(*(hit("cuda_oom", 50 + rank / 10, rank=rank, offset=rank) for rank in range(8))),
        FaultDomain.APPLICATION, "cuda_oom", Remedy.RESTART, (),
    ),
    "a file that only one node's ranks miss is that node's view of the file system": (
        case(*(hit("path_missing", 50, rank=rank, restart=RestartHint.NO, offset=rank) for rank in (4, 5))),
        FaultDomain.STORAGE, "path_missing", Remedy.RESTART, ("n3",),
    ),
    "a file that the first rank misses is the program's": (
        case(hit("path_missing", 50, rank=0, restart=RestartHint.NO)),
        FaultDomain.APPLICATION, "path_missing", Remedy.STOP, (),
    ),
    "ranks in different collectives under one number are the program's order": (
        case(*(waited(100 + rank / 10, rank, op="BROADCAST" if rank == 5 else "ALLREDUCE") for rank in range(8))),
        FaultDomain.APPLICATION, "collective_mismatch", Remedy.STOP, (),
    ),
    "the rank that had asked for fewer collectives is who the others waited for": (
        case(*(waited(100 + rank / 10, rank, enqueued=20 if rank != 5 else 18) for rank in range(8))),
        FaultDomain.UNKNOWN, "collective_rank_missing", Remedy.RESTART, ("n3",),
    ),
    "so are the ranks that did not wait at all": (
        case(*(waited(100 + rank / 10, rank) for rank in range(8) if rank not in (6, 7))),
        FaultDomain.UNKNOWN, "collective_rank_missing", Remedy.RESTART, ("n4",),
    ),
    "that half of the ranks did not tell points at nobody": (
        case(*(waited(100 + rank / 10, rank) for rank in range(4))),
        FaultDomain.UNKNOWN, "collective_timeout", Remedy.RESTART, (),
    ),
    "the node that nobody heard of while the others waited": (
        case(NOBODY_CAME, presence=Presence(ranks=frozenset(range(6)), nodes=frozenset({"n1"}))),
        FaultDomain.UNKNOWN, "node_did_not_join", Remedy.RESTART, ("n4",),
    ),
    "and whose own log tells of trouble": (
        case(NOBODY_CAME, replace(DOUBTFUL, node="n4"), presence=Presence(nodes=frozenset(NODES[:3]))),
        FaultDomain.SYSTEM, "node_did_not_join", Remedy.RESTART_EXCLUDING, ("n4",),
    ),
    "silence alone is no sign": (
        case(presence=Presence(nodes=frozenset(NODES[:3]))), FaultDomain.UNKNOWN, "exited_nonzero", Remedy.RESTART, (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
def test_whose_fault_it_is(name: str) -> None:
    given, domain, cause, remedy, suspects = SITUATIONS[name]
    verdict = attribute(given)
    assert (verdict.domain, verdict.cause) == (domain, cause), verdict
    assert verdict.remedy is remedy, verdict
    assert tuple(item.node for item in verdict.suspects) == suspects, verdict


DECISIONS: dict[str, tuple[CaseFile, FaultDomain, str]] = {
    "the job was cancelled": (
        case(key_error(100), job=replace(FAILED, state=JobState.CANCELLED)), FaultDomain.USER, "user_cancelled",
    ),
    "a step was cancelled by a uid, root or not": (
        case(killed(100), job=replace(FAILED, steps=(CANCELLED_STEP,))),
        FaultDomain.USER, "user_cancelled",
    ),
    "a line tells that the job was cancelled, and the books are not there to deny it": (
        case(JOB_CANCELLED, killed(101), job=replace(FAILED, steps=None)), FaultDomain.USER, "user_cancelled",
    ),
    "the time limit": (case(job=replace(FAILED, state=JobState.TIMEOUT)), FaultDomain.SCHEDULER, "time_limit"),
    "preempted in its grace time": (
        case(job=replace(FAILED, preempted_at=at(150))), FaultDomain.SCHEDULER, "preempted",
    ),
    "preempted, as a line tells": (
        case(hit("preempted", 100, domain=FaultDomain.SCHEDULER, restart=RestartHint.SCHEDULER)),
        FaultDomain.SCHEDULER, "preempted",
    ),
    "TERM on all ranks, and nothing before": (
        case(*TERMED, job=replace(FAILED, exit_code=143)), FaultDomain.USER, "terminated_from_outside",
    ),
    "TERM on all ranks, and KILL on the one that did not heed it": (
        case(STEP_ENDED, *TERMED, replace(killed(105), offset=20000), job=replace(FAILED, exit_code=143)),
        FaultDomain.USER, "terminated_from_outside",
    ),
    "KILL on all ranks, which leaves none to get TERM": (
        case(STEP_ENDED, replace(killed(100), offset=9500), job=replace(FAILED, exit_code=143)),
        FaultDomain.USER, "terminated_from_outside",
    ),
    "ended by SIGTERM, and nothing in its output": (
        case(job=replace(FAILED, exit_code=143)),
        FaultDomain.USER,
        "terminated_from_outside",
    ),
    "TERM, and a traceback from the handler afterwards": (
        case(*TERMED, key_error(103), job=replace(FAILED, exit_code=0, exit_signal=15)),
        FaultDomain.USER, "terminated_from_outside",
    ),
    "requeued by the scheduler": (
        case(job=replace(FAILED, state=JobState.REQUEUED)), FaultDomain.SCHEDULER, "requeued",
    ),
    "completed": (case(OOM, job=replace(FAILED, state=JobState.COMPLETED)), FaultDomain.NONE, "done"),
    "the program's word that it finished": (case(DONE, job=None), FaultDomain.NONE, "done"),
    "it finished, and before that only the host's log had told of faults": (
        case(xid31(100), OTHERS_OOM_KILL, xid79(120), DONE, job=None), FaultDomain.NONE, "done",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_is_left_alone_and_blames_no_node(name: str) -> None:
    given, domain, cause = DECISIONS[name]
    verdict = attribute(given)
    assert (verdict.domain, verdict.cause, verdict.remedy) == (domain, cause, Remedy.NONE), verdict
    assert verdict.suspects == ()


NO_DECISIONS: dict[str, CaseFile] = {
    "the books deny a line about a cancelled job": case(JOB_CANCELLED, job=FAILED),
    "a fault came before the line": case(key_error(90), JOB_CANCELLED, job=None),
    "ranks got TERM because one had ended with a code of its own": case(
        EXITED, *TERMED, job=replace(FAILED, exit_code=143)
    ),
    "ranks got TERM after one was killed": case(killed(99), *TERMED, job=replace(FAILED, exit_code=143)),
    "ranks got TERM after one was killed, of which srun told when the step's end had been told": case(
        STEP_ENDED, replace(killed(100), offset=9500), *TERMED, job=replace(FAILED, exit_code=143)
    ),
    "it ended by SIGTERM, and nothing of its output could be read": case(
        job=replace(FAILED, exit_code=143), coverage=(Coverage(source="job.log", sight=Sight.REFUSED),)
    ),
    "it ended by SIGTERM, and of its output nothing came, only metrics": case(
        job=replace(FAILED, exit_code=143),
        coverage=(
            Coverage(source="loki", sight=Sight.MISSING),
            Coverage(source="prometheus", sight=Sight.SEEN, scope=Scope.METRICS),
        ),
    ),
    "its word that a part of it finished, and training went on until the host lost a GPU": case(
        replace(DONE, at=at(20), seen_at=at(21), offset=2000), xid79(170), job=None, progress=trained_until(165)
    ),
    "a rank's error, a fault of its host, and another rank that says it finished": case(
        xid79(99), timeout(130, 3), DONE, job=None
    ),
    "a preemption of an earlier attempt": case(killed(99), job=replace(FAILED, preempted_at=at(-500))),
}


@pytest.mark.parametrize("name", NO_DECISIONS)
def test_what_only_looks_like_a_decision_is_none(name: str) -> None:
    assert attribute(NO_DECISIONS[name]).remedy is not Remedy.NONE


def repeated(*hits: object, times: int, progress: bool | None = False, **changes: object) -> Verdict:
    """The verdict on a fault that ended so many earlier attempts as well."""
    once = case(*hits, **changes)  # type: ignore[arg-type]
    mark = attribute(once).fingerprint
    before = tuple(earlier(mark, count, progress=progress) for count in range(times))
    return attribute(replace(once, earlier=before))


@pytest.mark.parametrize(
    ("times", "progress", "may_be_tried"),
    [(0, False, True), (1, False, False), (1, None, True), (2, None, False), (2, True, True)],
    ids=["first time", "again without progress", "again, progress unknown", "a third time", "with progress each time"],
)
def test_a_bug_of_the_program_gets_one_try_and_never_more_than_three_attempts(
    times: int, progress: bool | None, may_be_tried: bool
) -> None:
    verdict = repeated(key_error(100), times=times, progress=progress)
    assert (verdict.remedy, verdict.confirmable) == (Remedy.STOP, may_be_tried)
    assert "train.py:41" in verdict.summary


def test_an_unknown_cause_is_stopped_at_the_third_time_without_progress() -> None:
    assert repeated(killed(100), times=1).remedy is Remedy.RESTART
    assert repeated(killed(100), times=2).remedy is Remedy.STOP
    assert repeated(killed(100), times=5, progress=None).remedy is Remedy.RESTART
    assert attribute(case(killed(100))).restart_limit_without_progress == 2


def test_the_same_hardware_fault_on_ever_new_nodes_is_left_to_the_budgets() -> None:
    assert repeated(xid79(100), times=3).remedy is Remedy.RESTART_EXCLUDING


def suspected(node: str, ago: timedelta, device: str | None = None) -> tuple[str, Suspect, object]:
    return node, Suspect(node=node, strength=Strength.WEAK, reason="before", device=device), at(300) - ago


@pytest.mark.parametrize(
    ("ago", "remedy"),
    [(timedelta(days=6), Remedy.RESTART_EXCLUDING), (timedelta(days=8), Remedy.RESTART)],
    ids=["within a week", "longer ago"],
)
def test_weak_evidence_excludes_at_its_second_time_within_a_week(ago: timedelta, remedy: Remedy) -> None:
    given = case(DOUBTFUL, timeout(100, 0), node_history=(suspected("n2", ago),))
    verdict = attribute(given)
    assert verdict.remedy is remedy
    assert bool(verdict.suspects[0].before) is (remedy is Remedy.RESTART_EXCLUDING)


@pytest.mark.parametrize(
    ("device", "remedy"),
    [("0000:18:00", Remedy.RESTART_EXCLUDING), ("0000:5e:00", Remedy.RESTART)],
    ids=["the same GPU", "another GPU of that node"],
)
def test_a_page_fault_excludes_only_when_the_same_gpu_repeats(device: str, remedy: Remedy) -> None:
    given = case(xid31(100), node_history=(suspected("n2", timedelta(days=1), device),))
    assert attribute(given).remedy is remedy


LINKS: dict[str, tuple[list[tuple[str, str]], tuple[str, ...], Strength]] = {
    "the end that occurs with many partners": ([("n1", "n3"), ("n2", "n3"), ("n4", "n3")], ("n3",), Strength.HARD),
    "one pair without a sign of its own is weak, both ends": ([("n1", "n3")], ("n1", "n3"), Strength.WEAK),
}


@pytest.mark.parametrize("name", LINKS)
def test_a_fault_between_two_nodes_counts_per_end(name: str) -> None:
    pairs, suspects, strength = LINKS[name]
    hits = [
        hit("ib_fatal_completion", 100, domain=FaultDomain.INTERCONNECT, suspect=SuspectKind.BOTH,
            restart=RestartHint.EXCLUDE, captures={"host": one, "peer": other}, offset=10000 + index)
        for index, (one, other) in enumerate(pairs)
    ]  # fmt: skip
    verdict = attribute(case(*hits, nodes=(*NODES, "n5", "n6", "n7", "n8")))
    assert tuple(item.node for item in verdict.suspects) == suspects
    assert {item.strength for item in verdict.suspects} == {strength}


def test_one_pair_is_settled_by_the_end_with_a_row_of_its_own() -> None:
    link = hit(
        "ib_fatal_completion", 100, domain=FaultDomain.INTERCONNECT, suspect=SuspectKind.BOTH,
        restart=RestartHint.EXCLUDE, captures={"host": "n1", "peer": "n3"},
    )  # fmt: skip
    verdict = attribute(case(link, xid79(120, node="n3", symptom="pcie_nonfatal", role=Role.MAYBE)))
    assert tuple(item.node for item in verdict.suspects) == ("n3",)


def test_a_clock_that_is_ahead_does_not_make_a_late_row_early() -> None:
    """Rank 3's node writes 100 s ahead: its line cannot have been read before it was written."""
    ahead = key_error(200, node="n2", file="n2/rank3.log", seen_at=at(101))
    first = hit("import_error", 99, rank=0, restart=RestartHint.NO, node="n1", file="n1/rank0.log", seen_at=at(100))
    assert attribute(case(ahead, first)).cause == "import_error"
    behind = replace(first, at=at(150), seen_at=at(151))
    assert attribute(case(ahead, behind)).cause == "python_exception"


def test_the_drivers_order_also_overrides_how_often_its_companion_would_be_tried() -> None:
    mild = xid79(99, symptom="pbdma_error", role=Role.MAYBE, restart=RestartHint.ONCE)
    assert attribute(case(mild)).restart_limit_without_progress == 1
    assert attribute(case(mild, XID_NEEDS_RESET)).restart_limit_without_progress is None


def test_a_confirmed_hang_has_a_cause_of_its_own_and_suspects_only_by_an_independent_sign() -> None:
    hang = finding(kind=FindingKind.HANG, symptom="hang")
    alone = attribute(case(job=RUNNING, findings=(hang,)))
    assert (alone.domain, alone.cause, alone.remedy, alone.suspects) == (
        FaultDomain.UNKNOWN, "hang", Remedy.RESTART, (),
    )  # fmt: skip
    assert (alone.proof, alone.proof_at) == (EndRunning.HANG, at(100))
    signed = attribute(case(job=RUNNING, findings=(hang, finding(xid79(95)))))
    assert signed.cause == "gpu_fell_off_bus"
    assert signed.proof is EndRunning.HANG


TOLD_ONLY: dict[str, tuple[FindingKind, Certainty, Remedy]] = {
    "a suspected hang": (FindingKind.HANG, Certainty.SUSPECTED, Remedy.WAIT),
    "slower steps": (FindingKind.SLOWDOWN, Certainty.CONFIRMED, Remedy.NONE),
    "a diverging loss": (FindingKind.DIVERGENCE, Certainty.CONFIRMED, Remedy.NONE),
    "a node's health": (FindingKind.NODE_HEALTH, Certainty.CONFIRMED, Remedy.NONE),
    "an attempt that did not resume": (FindingKind.DID_NOT_RESUME, Certainty.CONFIRMED, Remedy.NONE),
}


@pytest.mark.parametrize("name", TOLD_ONLY)
def test_what_is_told_only_never_asks_for_a_restart(name: str) -> None:
    kind, certainty, remedy = TOLD_ONLY[name]
    verdict = attribute(case(job=RUNNING, findings=(finding(kind=kind, certainty=certainty),)))
    assert verdict.remedy is remedy
    assert verdict.proof is None


@pytest.mark.parametrize("sign", list(Sign))
def test_what_a_node_told_while_the_job_went_on_proves_nothing(sign: Sign) -> None:
    outlived = finding(kind=FindingKind.NODE_HEALTH, certainty=Certainty.SUSPECTED, signs=frozenset({sign}))
    verdict = attribute(case(job=RUNNING, findings=(outlived, finding(key_error(100)))))
    assert (verdict.proof, verdict.proven_death) == (None, False)


def test_an_attempt_that_did_not_resume_is_not_restarted_when_it_fails_later() -> None:
    lost = finding(kind=FindingKind.DID_NOT_RESUME, symptom="did_not_resume")
    running = attribute(case(job=RUNNING, findings=(lost,)))
    assert (running.cause, running.remedy) == ("did_not_resume", Remedy.NONE)
    later = attribute(case(findings=(lost, finding(xid79(150)))))
    assert (later.cause, later.remedy) == ("gpu_fell_off_bus", Remedy.NONE)


def test_a_hang_is_proven_from_its_confirmation_on() -> None:
    """A checkpoint may have been saved between the last step and then."""
    hang = finding(kind=FindingKind.HANG, symptom="hang", progress=trained_until(100))
    assert attribute(case(job=RUNNING, findings=(hang,))).proof_at == at(300)


def test_a_hang_that_silence_alone_confirms_is_no_proof_where_silence_is_expected() -> None:
    odd = (OddNode(node="n4", by=frozenset({Sign.NODE_SILENT})),)
    hang = finding(kind=FindingKind.HANG, symptom="hang", signs=frozenset({Sign.NODE_SILENT}), odd=odd)
    told = case(job=RUNNING, findings=(hang,))
    assert attribute(told).proof is EndRunning.HANG
    for state, set_by in ((NodeState.MAINTENANCE, None), (NodeState.DRAINED, "olga")):
        view = down("n4", "new disks", state=state, set_by=set_by)
        assert attribute(replace(told, node_views=(view,))).proof is None
        assert attribute(replace(told, node_views=(replace(view, name="n1"),))).proof is EndRunning.HANG
    both = replace(hang, signs=hang.signs | {Sign.DEVICE})
    planned = (down("n4", state=NodeState.MAINTENANCE),)
    assert attribute(case(job=RUNNING, findings=(both,), node_views=planned)).proof is EndRunning.HANG


def test_what_is_expected_of_a_node_is_said_and_not_counted() -> None:
    verdict = attribute(case(timeout(160, 0), expected={"n4": "our own restart", "n99": "not of this attempt"}))
    assert verdict.not_counted == ("n4: our own restart",)


def test_a_death_and_a_lost_node_are_proofs_with_their_times() -> None:
    dead = attribute(case(killed(100), job=RUNNING))
    assert (dead.proven_death, dead.proof, dead.proof_at) == (True, EndRunning.DEAD_RANK, at(100))
    lost = attribute(case(timeout(160, 0), job=RUNNING, node_views=(down("n4"),)))
    assert (lost.proof, lost.proof_at) == (EndRunning.NODE_LOST, at(150))
    frightening = attribute(case(key_error(100), job=RUNNING))
    assert (frightening.proven_death, frightening.proof) == (False, None)


def test_the_settle_time_counts_from_the_newest_first_line_of_a_rank_or_node_not_from_repeats() -> None:
    verdict = attribute(case(key_error(100, rank=1), key_error(104, rank=2), key_error(190, rank=1)))
    assert verdict.last_root_at == at(105)


@pytest.mark.parametrize(("when", "seen"), [(110, True), (90, False)], ids=["after the root", "before the root"])
def test_a_restarter_inside_the_job_counts_when_it_was_at_work_after_the_fault(when: float, seen: bool) -> None:
    line = hit("in_job_restart", when, role=Role.CONTEXT, domain=FaultDomain.UNKNOWN, restart=RestartHint.WAIT)
    assert (attribute(case(key_error(100), line, job=RUNNING)).in_job_restart_at is not None) is seen


SENTENCES: dict[str, tuple[CaseFile, str]] = {
    "a node": (case(xid79(99)), "It is a node, not your code: n2 (GPU fell off bus)."),
    "your code or data": (
        case(key_error(100)), "It is your code or data: KeyError: 'tokens_3' at train.py:41 in read.",
    ),
    "a shared service": (case(*NFS), "It is a shared service, not your code: NFS stall."),
    "the scheduler or a person": (
        case(job=replace(FAILED, state=JobState.TIMEOUT)), "The scheduler or a person decided: time limit.",
    ),
    "cannot tell": (
        case(killed(100)), "It cannot be told whose fault it is: task killed is all that was seen.",
    ),
    "no fault": (case(job=RUNNING), "Nothing was wrong."),
}  # fmt: skip


@pytest.mark.parametrize("name", SENTENCES)
def test_it_is_said_in_one_sentence_whose_fault_it_is(name: str) -> None:
    given, sentence = SENTENCES[name]
    assert faults_sentence(attribute(given)) == sentence


def test_the_evidence_begins_with_the_line_that_decides_and_the_next_best_is_named() -> None:
    verdict = attribute(case(key_error(100), xid79(105), launch_failure(106)))
    assert verdict.evidence[0].symptom == "gpu_fell_off_bus"
    assert len(verdict.evidence) <= 6
    assert verdict.runner_up is not None
    assert verdict.runner_up.cause == "python_exception"


def test_the_order_in_which_findings_came_does_not_matter() -> None:
    hits = (timeout(99, 0), launch_failure(100), teardown(101), xid79(104), killed(103))
    forwards = attribute(case(findings=tuple(finding(item) for item in hits)))
    backwards = attribute(case(findings=tuple(finding(item) for item in reversed(hits))))
    assert replace(forwards, proof_at=None) == replace(backwards, proof_at=None)


def test_a_sign_that_came_twice_counts_once() -> None:
    once = attribute(case(key_error(100)))
    twice = attribute(case(findings=(finding(key_error(100)), finding(key_error(100), kind=FindingKind.EXIT))))
    assert once.evidence == twice.evidence


def test_the_exit_alone_is_no_proof_of_more_than_an_end() -> None:
    ended = finding(kind=FindingKind.EXIT, signs=frozenset({Sign.PROCESS_DEATH}))
    verdict = attribute(case(findings=(ended,)))
    assert verdict.proven_death
    assert verdict.basis is not None
    assert verdict.basis.level == "very low"


def test_a_mistake_in_a_setting_is_the_jobs_own_not_a_persons_wish() -> None:
    verdict = attribute(case(hit("config_invalid", 20, domain=FaultDomain.USER, restart=RestartHint.NO)))
    assert (verdict.domain, verdict.remedy) == (FaultDomain.APPLICATION, Remedy.STOP)


def test_a_line_without_a_label_is_placed_by_the_next_process_that_the_scheduler_reports_as_ended() -> None:
    ecc = hit(
        "gpu_ecc_double_bit", 100, domain=FaultDomain.HARDWARE, suspect=SuspectKind.RANK, restart=RestartHint.EXCLUDE
    )
    ended = replace(EXITED, captures={"node": "n3", "exit": "1"}, offset=10100)
    verdict = attribute(case(ecc, ended))
    assert (verdict.remedy, verdict.suspects[0].node) == (Remedy.RESTART_EXCLUDING, "n3")
    assert attribute(case(ecc, replace(ended, offset=1))).suspects == ()


def test_a_program_that_tells_of_its_signal_was_ended_by_somebody_whatever_its_code() -> None:
    told = hit("signal_received", 100, domain=FaultDomain.USER, role=Role.MAYBE, restart=RestartHint.SCHEDULER)
    after = replace(EXITED, offset=10500, at=at(105))
    verdict = attribute(case(told, key_error(103), after))
    assert (verdict.domain, verdict.remedy) == (FaultDomain.USER, Remedy.NONE)
    assert attribute(case(killed(90), told)).cause == "task_killed"


def test_a_restarter_that_gave_up_is_not_at_work() -> None:
    line = hit("in_job_restart", 110, role=Role.CONTEXT, domain=FaultDomain.UNKNOWN, restart=RestartHint.WAIT)
    over = replace(line, symptom="in_job_restarts_exhausted", rule="over", offset=20000)
    assert attribute(case(key_error(100), line, over, job=RUNNING)).in_job_restart_at is None


GAPS: dict[str, tuple[Coverage, str]] = {
    "not there": (Coverage(source="n2/kern.log", sight=Sight.MISSING), "n2/kern.log is not there"),
    "refused": (
        Coverage(source="job.log", sight=Sight.REFUSED, note="a link"), "job.log could not be read (a link)",
    ),
    "behind": (Coverage(source="job.log", sight=Sight.LAGGING), "job.log was read, but not to its end"),
    "unknown": (Coverage(source="n2/kern.log", sight=Sight.UNKNOWN), "n2/kern.log was not seen"),
    "bytes lost": (
        Coverage(source="job.log", sight=Sight.SEEN, lost_bytes=9),
        "9 bytes of job.log were lost before they were read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GAPS)
def test_what_was_not_seen_is_listed_and_makes_less_sure(name: str) -> None:
    coverage, gap = GAPS[name]
    verdict = attribute(case(key_error(100), coverage=(coverage,)))
    assert verdict.gaps == (gap,)
    sure = attribute(case(key_error(100)))
    assert sure.gaps == ()
    assert (verdict.confidence < sure.confidence) is (coverage.sight is not Sight.SEEN)


def test_books_that_cannot_be_read_are_a_gap() -> None:
    verdict = attribute(case(key_error(100), job=replace(FAILED, steps=None)))
    assert "a person's decision cannot be ruled out" in verdict.gaps[0]
    assert attribute(case(key_error(100), coverage=())).gaps == ("nothing is known of what was read",)


def test_logs_in_which_nothing_was_recognised_are_no_proof_of_health() -> None:
    verdict = attribute(case(job=None, findings=(), progress=None))
    assert verdict.remedy is Remedy.NONE
    assert verdict.cause == "nothing_recognised"
    assert verdict.basis is not None
    assert verdict.basis.level == "very low"
    trained = attribute(case(job=None, findings=(), progress=trained_until(60)))
    assert trained.cause == "healthy"


def test_metrics_that_a_site_does_not_have_make_nobody_less_sure_of_what_logs_say() -> None:
    without = Coverage(source="prometheus", sight=Sight.MISSING, scope=Scope.METRICS, note="no GPU metrics of node n1")
    sure, told = (attribute(case(key_error(100), coverage=coverage)) for coverage in ((), (without,)))
    assert told.confidence == sure.confidence
