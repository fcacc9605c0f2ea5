"""What lines become beside others, and what silence, accusations, spread, slowness and waiting add to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relance.attribution import attribute
from relance.attribution.addresses import plain
from relance.domain.faults import FaultDomain, Remedy, RestartHint, Role, Scope, SuspectKind
from relance.domain.findings import Beside, FindingKind, RuleHit
from relance.domain.progress import Phase, Progress
from relance.domain.verdicts import CaseFile, Presence, Strength, Verdict
from relance.domain.views import JobState
from tests.unit.attribution.cases import (
    FAILED,
    NODES,
    RUNNING,
    at,
    case,
    finding,
    hit,
    key_error,
    killed,
    timeout,
    trained_until,
    xid31,
    xid79,
)

ALL = Presence(ranks=frozenset(range(8)), nodes=frozenset(NODES), first_at=at(0))
STARTING = Progress(as_of=at(300), phase=Phase.STARTING)


def named(verdict: Verdict) -> tuple[str, ...]:
    return tuple(item.node for item in verdict.suspects)


def answer(verdict: Verdict) -> tuple[str, Remedy, tuple[str, ...]]:
    return verdict.cause, verdict.remedy, named(verdict)


def remapped(when: float = 99, node: str = "n2", **changes: Any) -> RuleHit:  # noqa: ANN401 - any field of a hit
    """A row that is only context, and a root beside an uncorrectable error on its node."""
    beside = (Beside(rules=("dbe-*",), role=Role.ROOT),)
    fields = {"symptom": "row_remapped", "rule": "remap", "role": Role.CONTEXT, "beside": beside, "offset": 1}
    return xid79(when, node, **{**fields, **changes})


def uncorrectable(when: float = 98, node: str = "n2", **changes: Any) -> RuleHit:  # noqa: ANN401 - any field of a hit
    fields = {"symptom": "ecc_seen", "rule": "dbe-48", "role": Role.CONTEXT, "offset": 2}
    return xid79(when, node, **{**fields, **changes})


BESIDE: dict[str, tuple[tuple[RuleHit, ...], bool]] = {
    "the companion on the same node raises it": ((remapped(), uncorrectable()), True),
    "without its companion it stays what it is": ((remapped(),), False),
    "a companion on another node does not": ((remapped(), uncorrectable(node="n3")), False),
    "nor one on a node that is not of the job": ((remapped(), uncorrectable(node="n9")), False),
    "nor one of another minute": ((remapped(), uncorrectable(30)), False),
    "nor is a row of a node that is not of the job raised": ((remapped(node="n9"), uncorrectable(node="n9")), False),
    "nor one by a companion that is of the job": ((remapped(node="n9"), uncorrectable()), False),
    "nor one of an earlier attempt": ((remapped(-800), uncorrectable(-801)), False),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_a_row_becomes_beside_others_of_its_node_and_time(name: str) -> None:
    rows, raised = BESIDE[name]
    assert (attribute(case(*rows, killed(100))).cause == "row_remapped") is raised


def test_of_several_companions_the_first_that_the_pack_names_counts() -> None:
    beside = (Beside(rules=("dbe-*",), role=Role.CONTEXT), Beside(rules=("other",), role=Role.ROOT))
    rows = (remapped(role=Role.ROOT, beside=beside), uncorrectable(), uncorrectable(97, rule="other"))
    assert attribute(case(*rows, killed(100))).cause == "task_killed"


def test_lines_of_one_output_are_companions_however_far_apart() -> None:
    milder = hit("save_failed", 20, beside=(Beside(rules=("disk-full",), role=Role.CASCADE),))
    late = hit("disk_full", 190)
    assert attribute(case(milder, late)).cause == "disk_full"
    assert attribute(case(milder, replace(late, rule="another"))).cause == "save_failed"


LINK_DOWN = xid79(20, symptom="port_down", domain=FaultDomain.INTERCONNECT, rule="port-down")
LINK_UP = replace(LINK_DOWN, rule="port-up", symptom="port_up", role=Role.RECOVERY, at=at(25), seen_at=at(26), offset=9)


def later(row: RuleHit, seconds: float) -> RuleHit:
    return replace(row, at=at(20 + seconds), seen_at=at(21 + seconds), offset=row.offset + int(seconds * 100))


def test_a_link_that_came_back_once_is_no_cause_and_one_that_flaps_may_be() -> None:
    once = (LINK_DOWN, LINK_UP)
    assert attribute(case(*once, timeout(100, 0))).cause == "collective_timeout"
    again = (*once, later(LINK_DOWN, 40), later(LINK_UP, 45))
    assert answer(attribute(case(*again, timeout(100, 0))))[::2] == ("port_down", ("n2",))


def test_that_another_link_came_back_takes_nothing_back() -> None:
    up = replace(LINK_UP, node="n3", file="n3/kern.log")
    assert attribute(case(LINK_DOWN, up, timeout(100, 0))).cause == "port_down"


@pytest.mark.parametrize(("first", "cause"), [("down", "collective_timeout"), ("up", "port_down")])
def test_where_lines_bear_no_times_their_order_in_the_log_tells_what_came_back(first: str, cause: str) -> None:
    down, up = (replace(row, at=None, seen_at=at(290)) for row in (LINK_DOWN, LINK_UP))
    ends = {"down": (replace(down, offset=1), replace(up, offset=2)), "up": (replace(up, offset=1), down)}[first]
    assert attribute(case(*ends, timeout(295, 0))).cause == cause


def test_a_watchdog_that_repeats_an_error_is_no_root_of_its_own() -> None:
    error = replace(xid79(99), scope=Scope.APPLICATION, node=None, rank=5, file="job.log", offset=500)
    wrapper = hit("watchdog_exception", 99, role=Role.CASCADE, rank=5, offset=500)
    alone, wrapped = attribute(case(error)), attribute(case(error, wrapper))
    assert alone.suspects[0].strength is Strength.HARD
    assert wrapped.suspects[0].strength is Strength.WEAK


NEVER = {
    "a line that only frames another": hit("job_failed", 90),
    "what a first attempt says of its checkpoint": hit("cold_start", 90, restart=RestartHint.NO),
    "a root that is said to be of no domain": hit("all_well", 90, domain=FaultDomain.NONE),
}


@pytest.mark.parametrize("name", NEVER)
def test_what_is_never_a_fault_is_never_the_cause(name: str) -> None:
    assert attribute(case(NEVER[name], key_error(100))).cause == "python_exception"
    assert attribute(case(NEVER[name])).cause == "exited_nonzero"


def test_what_training_went_on_after_hides_nothing_that_the_same_rank_says_later() -> None:
    caught, fatal = key_error(20), hit("cuda_oom", 195, rank=3)
    verdict = attribute(case(caught, fatal, progress=trained_until(190)))
    assert (verdict.cause, verdict.remedy) == ("cuda_oom", Remedy.RESTART)


def test_what_training_went_on_after_hides_nothing_that_the_same_node_says_later() -> None:
    verdict = attribute(case(xid79(20), xid79(196), killed(199), progress=trained_until(190)))
    assert answer(verdict) == ("gpu_fell_off_bus", Remedy.RESTART_EXCLUDING, ("n2",))
    assert verdict.evidence[0].when == at(196)


def test_what_training_went_on_after_is_no_suspicion_where_nothing_else_is_left() -> None:
    ended = finding(xid79(20), kind=FindingKind.EXIT)
    verdict = attribute(case(findings=(ended,), job=None, progress=trained_until(290)))
    assert answer(verdict) == ("ended_without_a_sign", Remedy.RESTART, ())


def waited(when: float, rank: int, **seen: str) -> RuleHit:
    """A rank's time-out of a collective of ten seconds."""
    return replace(timeout(when, rank), captures={"seq": "17", "op": "ALLREDUCE", "timeout_ms": "10000", **seen})


def test_the_two_ends_of_a_transfer_are_no_mismatch() -> None:
    ends = [waited(100 + rank, rank, op="SEND" if rank % 2 else "RECV") for rank in range(8)]
    assert attribute(case(*ends)).cause == "collective_timeout"


def test_ranks_of_several_groups_under_one_number_are_no_mismatch() -> None:
    both = [waited(100 + rank, rank, op=["ALLREDUCE", "ALLGATHER"][rank // 4]) for rank in range(8)]
    assert attribute(case(*both)).cause == "collective_mismatch"
    told = [replace(line, excerpt=f"[PG ID 1 PG GUID {at // 4}(g) Rank {at}] Watchdog") for at, line in enumerate(both)]
    assert attribute(case(*told)).cause == "collective_timeout"


def test_a_mismatch_shows_first_where_the_odd_collective_began_first() -> None:
    lines = [waited(100 + rank, rank, op="BROADCAST" if rank == 6 else "ALLREDUCE") for rank in range(8)]
    early = replace(lines[6], at=at(95), seen_at=at(96))
    verdict = attribute(case(*lines[:6], early, lines[7]))
    assert (verdict.cause, verdict.evidence[0].rank) == ("collective_mismatch", 6)


@pytest.mark.parametrize(
    ("behind", "suspects"), [((5,), ("n3",)), ((0, 1, 2, 3), ()), ((), ())], ids=["one", "half of them", "nobody"]
)
def test_only_few_ranks_can_be_behind(behind: tuple[int, ...], suspects: tuple[str, ...]) -> None:
    lines = [waited(100 + rank, rank, enqueued="18" if rank in behind else "20") for rank in range(8)]
    assert named(attribute(case(*lines))) == suspects


def test_ranks_whose_lines_were_left_out_have_waited_all_the_same() -> None:
    told = finding(*(waited(100 + rank, rank) for rank in range(5)))
    counted = replace(told, ranks={"collective-timeout": frozenset(range(7))})
    assert named(attribute(case(findings=(counted,)))) == ("n4",)


NOBODY_CAME = hit("store_unreachable", 100, domain=FaultDomain.UNKNOWN, role=Role.CASCADE, node="n1")
DOUBTFUL = xid79(90, "n4", symptom="pcie_nonfatal", role=Role.MAYBE)
THREE = Presence(nodes=frozenset(NODES[:3]))


def test_a_sign_that_training_went_on_after_does_not_harden_a_suspicion_by_silence() -> None:
    early, wait = replace(DOUBTFUL, at=at(20), seen_at=at(21)), replace(NOBODY_CAME, at=at(290), seen_at=at(291))
    verdict = attribute(case(wait, early, presence=THREE, progress=trained_until(280)))
    assert (verdict.cause, verdict.suspects[0].strength) == ("node_did_not_join", Strength.WEAK)


def test_many_silent_nodes_are_a_log_that_is_not_there() -> None:
    few = Presence(nodes=frozenset({"n1"}))
    assert attribute(case(NOBODY_CAME, presence=few)).suspects == ()
    most = case(NOBODY_CAME, presence=Presence(nodes=frozenset({"n1", "n2"})), nodes=(*NODES, "n5"))
    assert attribute(most).suspects == ()


def test_a_rank_that_fell_silent_long_before_the_others_is_who_they_waited_for() -> None:
    ends = {rank: at(290) for rank in range(8)} | {5: at(120)}
    heard = replace(ALL, last_at=ends)
    verdict = attribute(case(timeout(295, 0), presence=heard))
    assert answer(verdict) == ("silent_rank", Remedy.RESTART, ("n3",))
    together = replace(heard, last_at=dict.fromkeys(range(8), at(290)))
    assert attribute(case(timeout(295, 0), presence=together)).suspects == ()


def refused(when: float, node: str, peer: str, **changes: Any) -> RuleHit:  # noqa: ANN401 - any field of a hit
    """A connection that broke, as one end tells it."""
    fields = {
        "domain": FaultDomain.INTERCONNECT, "role": Role.CASCADE, "suspect": SuspectKind.PEER, "node": node,
        "restart": RestartHint.OK, "captures": {"peer": peer}, "file": f"{node}.log",
    }  # fmt: skip
    return hit("nccl_connect_failed", when, **{**fields, **changes})


ACCUSED: dict[str, tuple[tuple[RuleHit, ...], tuple[str, ...]]] = {
    "the node that two others name": ((refused(100, "n1", "n3"), refused(101, "n2", "n3-ib0<4013>")), ("n3",)),
    "one that names twice is one": ((refused(100, "n1", "n3"), refused(101, "n1", "n3")), ()),
    "a node does not accuse itself": ((refused(100, "n3", "n3"), refused(101, "n1", "n3")), ()),
    "two named alike often are none": (
        (refused(100, "n1", "n3"), refused(101, "n2", "n3"), refused(102, "n1", "n4"), refused(103, "n2", "n4")), (),
    ),
    "a host that is not of the job is none": ((refused(100, "n1", "n9"), refused(101, "n2", "n9")), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCUSED)
def test_an_end_that_several_others_name_is_suspect(name: str) -> None:
    lines, suspects = ACCUSED[name]
    assert named(attribute(case(*lines))) == suspects


def test_an_end_that_did_not_answer_is_hard_and_one_that_closed_is_weak() -> None:
    pair = (refused(100, "n1", "n3"), refused(101, "n2", "n3"))
    assert attribute(case(*pair)).remedy is Remedy.RESTART_EXCLUDING
    closed = [replace(line, symptom="peer_closed", rule="closed") for line in pair]
    verdict = attribute(case(*closed))
    assert (verdict.remedy, verdict.suspects[0].strength) == (Remedy.RESTART, Strength.WEAK)


def test_accusations_that_training_went_on_after_count_no_more() -> None:
    pair = (refused(20, "n1", "n3"), refused(21, "n2", "n3"))
    assert attribute(case(*pair, timeout(200, 0), progress=trained_until(190))).suspects == ()
    late = refused(200, "n1", "n3")
    assert attribute(case(late, pair[1], progress=trained_until(190))).suspects == ()
    again = (late, refused(201, "n2", "n3"))
    assert named(attribute(case(*pair, *again, progress=trained_until(190)))) == ("n3",)


def test_peers_are_named_by_addresses_that_hosts_told_of_themselves() -> None:
    book = hit(
        "nccl_address", 5, node="n3", role=Role.CONTEXT, captures={"address": "192.0.2.7<0>"}, file="n3.log", rank=4
    )
    pair = (refused(100, "n1", "192.0.2.7<4013>"), refused(101, "n2", "::ffff:192.0.2.7"))
    assert named(attribute(case(book, *pair))) == ("n3",)
    assert named(attribute(case(*pair))) == ()
    assert named(attribute(case(*pair, addresses={"192.0.2.7": "n4"}))) == ("n4",)


@pytest.mark.parametrize(
    "text",
    [
        "2001:db8::7",
        "[2001:db8::7]:29500",
        "2001:DB8::7<4013>",
        " 2001:db8::7%ib0 ",
        "[2001:db8::7]",
        "[2001:db8::7%e0]:1",
    ],
)
def test_a_long_address_is_the_same_with_port_interface_and_brackets(text: str) -> None:
    assert plain(text) == "2001:db8::7"


@pytest.mark.parametrize("text", ["192.0.2.7:29500", "::ffff:192.0.2.7", "[::ffff:192.0.2.7]:80", "192.0.2.7<0>"])
def test_a_short_address_is_the_same_with_its_port_and_in_its_longer_form(text: str) -> None:
    assert plain(text) == "192.0.2.7"


def odd(node: str, when: float = 5) -> RuleHit:
    return hit(
        "gdr_off", when, node=node, role=Role.CONTEXT, domain=FaultDomain.SYSTEM, file=f"{node}.log",
        restart=RestartHint.NOTHING,
    )  # fmt: skip


ODD: dict[str, tuple[CaseFile, tuple[str, ...]]] = {
    "one node alone": (case(odd("n2"), timeout(100, 0), presence=ALL), ("n2",)),
    "two nodes are no oddity": (case(odd("n2"), odd("n3"), timeout(100, 0), presence=ALL), ()),
    "of others that were not heard it cannot be said": (
        case(odd("n2"), timeout(100, 0), presence=Presence(nodes=frozenset({"n1", "n2"}))), (),
    ),
    "without harm it is only slower": (case(odd("n2"), job=RUNNING, presence=ALL, progress=trained_until(290)), ()),
    "nor is it why a run broke that had trained with it": (
        case(odd("n2"), timeout(200, 0), presence=ALL, progress=trained_until(190)), (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_a_node_that_alone_is_set_up_otherwise_is_suspect_where_the_job_broke(name: str) -> None:
    given, suspects = ODD[name]
    assert named(attribute(given)) == suspects


def missing(rank: int, symptom: str = "path_missing", when: float = 50) -> RuleHit:
    return hit(symptom, when, rank=rank, restart=RestartHint.NO, offset=5000 + rank)


ONE_NODE: dict[str, tuple[CaseFile, Remedy, tuple[str, ...]]] = {
    "both ranks of a node": (case(missing(4), missing(5)), Remedy.RESTART, ("n3",)),
    "a library is the node's own": (
        case(missing(4, "library_missing"), missing(5, "library_missing")), Remedy.RESTART_EXCLUDING, ("n3",),
    ),
    "one rank of two may be the program": (case(missing(4)), Remedy.STOP, ()),
    "but not of a limit of its host": (case(missing(4, "fd_limit")), Remedy.RESTART_EXCLUDING, ("n3",)),
    "the first rank's node": (case(missing(0), missing(1)), Remedy.STOP, ()),
    "two nodes": (case(missing(4), missing(6)), Remedy.STOP, ()),
    "a job of one node": (
        case(missing(1), nodes=("n1",), rank_to_node={0: "n1", 1: "n1"}), Remedy.STOP, (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_NODE)
def test_a_setting_that_is_missing_on_one_node_alone_is_that_nodes(name: str) -> None:
    given, remedy, suspects = ONE_NODE[name]
    verdict = attribute(given)
    assert (verdict.remedy, named(verdict)) == (remedy, suspects)


REPEATS: dict[str, tuple[CaseFile, bool, bool]] = {
    "a mistake by its kind": (case(key_error(100), presence=ALL, progress=trained_until(99)), True, True),
    "what is no mistake by its kind": (
        case(hit("python_exception", 100, rank=3, captures={"exception": "RuntimeError"}), progress=trained_until(99)),
        False, False,
    ),
    "an index out of range": (case(hit("bad_index_or_label", 100, rank=3), progress=trained_until(99)), True, True),
    "before the first step": (
        case(hit("python_exception", 100, rank=3), presence=ALL, progress=STARTING), True, False,
    ),
    "when it began is not known": (case(hit("python_exception", 100, rank=3), progress=STARTING), False, False),
    "memory of one rank after many steps": (
        case(hit("cuda_oom", 100, rank=3), progress=trained_until(99)), False, False,
    ),
    "memory of all ranks after many steps": (
        case(*(hit("cuda_oom", 100, rank=rank, offset=rank) for rank in range(8)), progress=trained_until(99)),
        True, True,
    ),
    "memory of all ranks in the first steps": (
        case(
            *(hit("cuda_oom", 100, rank=rank, offset=rank) for rank in range(8)),
            progress=replace(trained_until(99), steps_seen=3),
        ),
        True, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATS)
def test_a_fault_of_the_program_is_stopped_only_if_it_is_certain_to_come_again(name: str) -> None:
    given, stops, confirmable = REPEATS[name]
    verdict = attribute(given)
    assert (verdict.remedy is Remedy.STOP, verdict.confirmable) == (stops, confirmable)


def fault_of(process: str, when: float, node: str = "n2", device: str = "0000:18:00") -> RuleHit:
    return replace(xid31(when, node, device), captures={"pid": process})


SAME_GPU: dict[str, tuple[tuple[RuleHit, ...], Remedy]] = {
    "under two processes": ((fault_of("11", 100), fault_of("12", 130)), Remedy.RESTART_EXCLUDING),
    "one of which was of an earlier attempt": ((fault_of("11", -5000), fault_of("12", 100)), Remedy.RESTART_EXCLUDING),
    "under one process": ((fault_of("11", 100), fault_of("11", 130)), Remedy.RESTART),
    "and on another GPU of the node as well": (
        (fault_of("11", 100), fault_of("12", 130), fault_of("13", 131, device="0000:9a:00")), Remedy.RESTART,
    ),
    "and on a node of other jobs": ((fault_of("11", 100), fault_of("12", 130), fault_of("1", 131, "n9")),
                                    Remedy.RESTART_EXCLUDING),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME_GPU)
def test_a_page_fault_is_the_gpus_where_the_same_one_has_it_again(name: str) -> None:
    rows, remedy = SAME_GPU[name]
    verdict = attribute(case(*rows))
    assert verdict.remedy is remedy
    assert (verdict.domain is FaultDomain.HARDWARE) is (remedy is Remedy.RESTART_EXCLUDING)


def sample(symptom: str, when: float, node: str, **changes: Any) -> RuleHit:  # noqa: ANN401 - any field of a hit
    """A condition over metrics that was met on a node."""
    fields = {
        "scope": Scope.METRICS, "node": node, "role": Role.CONTEXT, "domain": FaultDomain.HARDWARE,
        "file": "telemetry.csv", "restart": RestartHint.NOTHING, "offset": int(when) * 10 + int(node[1:]),
    }  # fmt: skip
    return hit(symptom, when, **{**fields, **changes})


SLOW = hit("job_slow", 200, role=Role.CONTEXT, domain=FaultDomain.UNKNOWN, scope=Scope.NOTES)
THROTTLED = sample("clocks_throttled", 150, "n3", captures={"slow": "1"})


@pytest.mark.parametrize("progress", [None, trained_until(290)], ids=["no steps known", "it steps on"])
def test_a_slow_job_is_better_off_without_the_one_node_that_shows_why(progress: Progress | None) -> None:
    verdict = attribute(case(SLOW, THROTTLED, job=RUNNING, progress=progress))
    assert answer(verdict) == ("clocks_throttled", Remedy.RESTART_EXCLUDING, ("n3",))


NOT_SLOW: dict[str, CaseFile] = {
    "nobody says that it is slow": case(THROTTLED, job=RUNNING, progress=trained_until(290)),
    "two nodes show it": case(SLOW, THROTTLED, replace(THROTTLED, node="n4", offset=9), job=RUNNING),
    "what is no cause of slowness": case(
        SLOW, replace(THROTTLED, captures={}), job=RUNNING, progress=trained_until(290)
    ),
    "a failed job that had trained on with it": case(THROTTLED, progress=trained_until(190)),
}


@pytest.mark.parametrize("name", NOT_SLOW)
def test_a_node_is_not_slow_by_itself(name: str) -> None:
    assert attribute(NOT_SLOW[name]).suspects == ()


IDLE = tuple(sample("job_idle_power", 200, node) for node in NODES)


def test_gpus_that_idle_on_most_nodes_are_a_standstill() -> None:
    verdict = attribute(case(*IDLE[:2], job=RUNNING, progress=trained_until(190)))
    assert answer(verdict) == ("hang_no_progress", Remedy.RESTART, ())


def test_that_gpus_idled_before_steps_went_on_hides_no_later_standstill() -> None:
    early = [replace(line, at=at(20), seen_at=at(21), offset=1) for line in IDLE[:1]]
    assert attribute(case(*early, *IDLE, job=RUNNING, progress=trained_until(190))).cause == "hang_no_progress"


STEPPING_ON: dict[str, CaseFile] = {
    "they idle on few nodes": case(IDLE[0], job=RUNNING, progress=trained_until(190)),
    "steps went on after it": case(*IDLE, job=RUNNING, progress=trained_until(290)),
    "it completed": case(*IDLE, job=replace(FAILED, state=JobState.COMPLETED)),
}


@pytest.mark.parametrize("name", STEPPING_ON)
def test_gpus_that_idle_are_no_standstill_where(name: str) -> None:
    assert attribute(STEPPING_ON[name]).remedy is Remedy.NONE


PENDING = hit(
    "unschedulable", 100, scope=Scope.SCHEDULER, role=Role.CONTEXT, domain=FaultDomain.SCHEDULER,
    restart=RestartHint.WAIT, file="events.txt",
)  # fmt: skip
PLACED = replace(
    PENDING, symptom="pod_scheduled", rule="placed", restart=RestartHint.NOTHING, at=at(120), offset=99,
)  # fmt: skip
STUCK = replace(PENDING, at=at(150), seen_at=at(151), offset=15000)


WAITS: dict[str, tuple[CaseFile, bool]] = {
    "the scheduler says so at the end": (case(PENDING, job=None), True),
    "it was placed afterwards": (case(PENDING, PLACED, job=None), False),
    "it was placed, and waits again": (case(PENDING, PLACED, STUCK, job=None), True),
    "it made steps afterwards": (case(PENDING, job=None, progress=trained_until(130)), False),
    "it made steps, and waits again": (case(PENDING, STUCK, job=None, progress=trained_until(130)), True),
    "the program speaks afterwards": (case(PENDING, timeout(140, 0), job=None), False),
    "the program says that it waits for others": (
        case(PENDING, replace(NOBODY_CAME, at=at(140), seen_at=at(141)), job=None),
        True,
    ),
    "the program spoke before": (case(timeout(50, 0), PENDING, job=None), True),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_job_that_was_not_placed_waits(name: str) -> None:
    given, waits = WAITS[name]
    assert (attribute(given).remedy is Remedy.WAIT) is waits


DOUBTS: dict[str, tuple[CaseFile, bool]] = {
    "a running job that steps": (case(DOUBTFUL, job=RUNNING, progress=trained_until(92)), True),
    "one whose steps are not known": (case(DOUBTFUL, job=RUNNING), False),
    "one with a consequence": (case(DOUBTFUL, timeout(95, 0), job=RUNNING, progress=trained_until(92)), False),
    "one with a note that frightens": (
        case(DOUBTFUL, replace(timeout(95, 0), scope=Scope.NOTES), job=RUNNING, progress=trained_until(92)), True,
    ),
    "a failed one": (case(DOUBTFUL, progress=trained_until(92)), False),
    "a GPU that will not come back": (
        case(replace(xid79(90), weight=0.95), job=RUNNING, progress=trained_until(92)), False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DOUBTS)
def test_a_doubtful_row_of_a_host_is_none_for_a_job_that_nothing_shows_harmed(name: str) -> None:
    given, healthy = DOUBTS[name]
    doubtful = replace(
        given,
        findings=tuple(
            replace(
                item,
                hits=tuple(replace(one, weight=0.5) if one.symptom == "pcie_nonfatal" else one for one in item.hits),
            )
            for item in given.findings
        ),
    )
    assert (attribute(doubtful).cause == "healthy") is healthy
