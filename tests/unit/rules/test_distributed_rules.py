"""What rules for collectives, launchers, devices and hosts take out of lines, whatever the version that wrote them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from relance.domain.faults import Role, Scope
from tests.unit.rules.packs import scan


def _captures(line: str, rule: str, scope: Scope = Scope.APPLICATION) -> Mapping[str, str]:
    (hit,) = (each for each in scan(line.encode() + b"\n", scope=scope).hits if each.rule == rule)
    return hit.captures


def _causes(line: str, scope: Scope = Scope.APPLICATION) -> set[str]:
    hits = scan(line.encode() + b"\n", scope=scope).hits
    return {hit.rule for hit in hits if hit.role in (Role.ROOT, Role.MAYBE)}


@pytest.mark.parametrize(
    ("line", "seq", "op", "numel_in", "timeout_ms"),
    [
        (
            (
                "[E PG.cpp:566] [Rank 4] Watchdog caught collective operation timeout: "
                "WorkNCCL(OpType=ALLGATHER, Timeout(ms)=1800000) ran for 1800301 milliseconds before timing out."
            ),
            None,
            "ALLGATHER",
            None,
            "1800000",
        ),
        (
            (
                "[E PG.cpp:828] [Rank 4] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=3, OpType=BROADCAST, Timeout(ms)=600000) ran for 600790 milliseconds before."
            ),
            "3",
            "BROADCAST",
            None,
            "600000",
        ),
        (
            (
                "[rank4]:[E502 11:32:00.1 PG.cpp:632] [Rank 4] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=1660, OpType=_ALLGATHER_BASE, NumelIn=16, NumelOut=128, Timeout(ms)=600000) ran for "
                "600041 milliseconds before timing out."
            ),
            "1660",
            "_ALLGATHER_BASE",
            "16",
            "600000",
        ),
    ],
)
def test_a_timeout_tells_which_collective_and_how_long_it_may_take(
    line: str, seq: str | None, op: str, numel_in: str | None, timeout_ms: str
) -> None:
    taken = _captures(line, "nccl-timeout")
    found = [taken.get(name) for name in ("seq", "op", "numel_in", "timeout_ms")]
    assert found == [seq, op, numel_in, timeout_ms]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (
            (
                "[rank3]:[E502 11:32:00.2 PG.cpp:2271] [PG ID 0 PG GUID 0(default_pg) Rank 3]  failure "
                "detected by watchdog at work sequence id: 7 PG status: last enqueued work: 19, last completed work: 16"
            ),
            "nccl-watchdog-state",
        ),
        (
            (
                "[rank3]:[E502 11:32:00.2 PG.cpp:1785] [PG 0 Rank 3] Timeout at NCCL work: 17, last "
                "enqueued NCCL work: 19, last completed NCCL work: 16."
            ),
            "nccl-timeout-at-work",
        ),
        (
            (
                "[rank3]:[E502 11:32:00.2 PG.cpp:1858] [PG ID 0 PG GUID 0(default_pg) Rank 3] Received a "
                "dump signal due to a collective timeout from  rank 8 and we will try our best to dump the debug info. "
                "Last enqueued NCCL work: 19, last completed NCCL work: 16.This is most likely caused by"
            ),
            "nccl-dump-remote",
        ),
    ],
)
def test_a_watchdog_tells_how_far_its_rank_had_come(line: str, rule: str) -> None:
    taken = _captures(line, rule)
    assert (taken["enqueued"], taken["completed"]) == ("19", "16")


def test_the_periodic_report_of_a_healthy_watchdog_is_no_state_of_a_stuck_one() -> None:
    line = b"NCCL Work update periodically: last enqueued NCCL work: 4, last completed NCCL work: 4.\n"
    assert not scan(line).counts


def test_an_error_that_a_watchdog_repeats_is_not_taken_for_the_ranks_own() -> None:
    text = "CUDA error: an illegal memory access was encountered"
    assert _causes(f"[rank4]: torch.AcceleratorError: {text}") == {"cuda-illegal-access"}
    assert _causes(
        f"[rank4]:[E502 11:12:00.4 x.cpp:1] Process group watchdog thread terminated with exception: {text}"
    ) == {"nccl-watchdog-cuda-error"}
    assert not _causes(f"[rank4]: Failed to update state for entry 118: nccl:all_reduce with error: {text}")


def test_a_communicator_tells_rank_device_and_host() -> None:
    taken = _captures(
        "cn04:6120:6533 [3] NCCL INFO ncclCommInitRankConfig comm 0x55d0c0 rank 27 nranks 32 cudaDev 3 nvmlDev 3 "
        "busId 5e000 commId 0x7c19aa02 - Init COMPLETE",
        "nccl-comm-map",
    )
    assert {name: taken[name] for name in ("rank", "nranks", "gpu", "pci", "host")} == {
        "rank": "27",
        "nranks": "32",
        "gpu": "3",
        "pci": "5e000",
        "host": "cn04",
    }


@pytest.mark.parametrize(
    "line",
    [
        "cn04:1:2 [4] net_ib.cc:1238 NCCL WARN NET/IB : Got completion from peer cn07<40117> with error 12, opcode 2",
        "cn04:1:2 [4] net_ib.cc:2244 NCCL WARN NET/IB: Got completion from peer cn07<40117> with status=12 opcode=0",
        (
            "[2026-05-02 11:12:00] cn04:1:2 [4] transport/net_ib/p2p.cc:410 NCCL WARN NET/IB: Got completion from peer "
            "cn07<40117> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129"
        ),
    ],
)
def test_a_peer_that_does_not_answer_is_named_by_every_version(line: str) -> None:
    taken = _captures(line, "ib-retry-exceeded")
    assert (taken["peer"], taken["host"]) == ("cn07", "cn04")


def test_a_store_tells_how_many_came() -> None:
    taken = _captures(
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 24/32 clients joined.",
        "c10d-clients-missing",
    )
    assert (taken["joined"], taken["world"]) == ("24", "32")


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("-9", "elastic-exit-killed"),
        ("137", "elastic-exit-killed"),
        ("-11", "elastic-exit-crashed"),
        ("139", "elastic-exit-crashed"),
        ("-7", "elastic-exit-bus-error"),
        ("-4", "elastic-exit-processor"),
        ("-6", "elastic-exit-aborted"),
        ("134", "elastic-exit-aborted"),
        ("-15", "elastic-exit-terminated"),
        ("143", "elastic-exit-terminated"),
        ("1", "elastic-exit-code"),
        ("2", "elastic-exit-code"),
        ("120", "elastic-exit-code"),
        ("131", "elastic-exit-code"),
        ("144", "elastic-exit-code"),
        ("255", "elastic-exit-code"),
    ],
)
def test_each_exit_code_of_a_failure_table_has_one_rule(code: str, rule: str) -> None:
    line = f"E0502 11:12:11.7 77 api.py:874] failed (exitcode: {code}) local_rank: 2 (pid: 33012) of binary: python"
    counts = scan(line.encode() + b"\n").counts
    assert {each for each in counts if each.startswith("elastic-exit")} == {rule}


@pytest.mark.parametrize(
    "line",
    [
        "cn04:6120:6533 [0] NCCL INFO NET/IB : No device found.",
        "cn04:6120:6533 [0] NCCL INFO Channel 00/0 : 3[3] -> 12[4] [send] via NET/Socket/0",
        "cn04:6120:6533 [0] NCCL INFO NVLS multicast support is not available on dev 0",
        "cn04:6120:6533 [0] NCCL INFO comm 0x55d0c0 rank 0 nranks 16 cudaDev 0 busId 18000 - Destroy COMPLETE",
        (
            "[W502 11:00:10.1 socket.cpp:697] [c10d] The IPv6 network addresses of (cn01, 29500) cannot be retrieved "
            "(gai error: -2 - Name or service not known)."
        ),
        (
            "[W502 11:20:15.2 T.cpp:3] [c10d] TCP client failed to connect/validate to host cn01:29500 - retrying "
            "(try=0, timeout=600000ms, delay=1184ms): Connection refused"
        ),
        (
            "[rank0]:[W502 11:32:10.2 PG.cpp:1538] Warning: WARNING: destroy_process_group() was not called "
            "before program exit, which can leak resources."
        ),
        (
            "HeartbeatMonitor environments: TORCH_NCCL_ENABLE_MONITORING (Whether to kill program when no watchdog "
            "heartbeat detected): 1, TORCH_NCCL_DUMP_ON_TIMEOUT: 1"
        ),
        "NCCL_IB_TIMEOUT=22 NCCL_IB_RETRY_CNT=7 CUDA_LAUNCH_BLOCKING=0",
    ],
)
def test_what_good_runs_print_names_no_cause(line: str) -> None:
    assert not _causes(line)


def test_a_hosts_words_count_for_nothing_in_the_output_of_a_job() -> None:
    line = "[ 5120.0] Out of memory: Killed process 4411 (python) total-vm:912345678kB, anon-rss:498765432kB"
    assert _causes(line, Scope.KERNEL) == {"host-out-of-memory"}
    assert not _causes(line)


def test_a_limit_of_the_job_is_not_taken_for_the_host_running_out() -> None:
    line = "[ 5120.0] Memory cgroup out of memory: Killed process 4411 (python) total-vm:91234567kB"
    assert _causes(line, Scope.KERNEL) == {"cgroup-out-of-memory"}
