"""Rules for schedulers, platforms and storage, where single lines as examples do not suffice."""

from __future__ import annotations

from pathlib import Path

import pytest

from relance.domain.faults import Role, Scope
from relance.domain.findings import RuleHit
from tests.unit.rules.packs import by_rule, scan

RECORDINGS = Path(__file__).parents[1] / "slurm" / "recordings"
RELEASES = ("slurm-22.05", "slurm-23.11", "slurm-24.11", "slurm-25.11")
LOST = "2-node-lost-and-time-limit"

HEALTHY_START = b"""\
LAST SEEN   TYPE      REASON             OBJECT              MESSAGE
3m1s        Normal    Scheduled          pod/tr-worker-1     Successfully assigned ml/tr-worker-1 to gk-07
3m0s        Normal    Pulling            pod/tr-worker-1     Pulling image "registry.example/llm:0.9"
2m21s       Normal    Pulled             pod/tr-worker-1     Successfully pulled image "registry.example/llm:0.9" in 38s
2m20s       Warning   BackOff            pod/tr-worker-1     Back-off restarting failed container init-peers
2m11s       Warning   Unhealthy          pod/tr-worker-1     Readiness probe failed: connection refused
2m10s       Normal    Created            pod/tr-worker-1     Created container trainer
2m10s       Normal    Started            pod/tr-worker-1     Started container trainer
2m9s        Normal    NodeHasSufficientMemory   node/gk-07   Node gk-07 status is now: NodeHasSufficientMemory
1s          Normal    Killing            pod/tr-worker-1     Stopping container trainer
1s          Normal    Completed          job/tr              Job completed
"""

HEALTHY_SLURM = b"""\
[2026-05-02T11:00:00.001] _slurm_rpc_submit_batch_job: JobId=5120 InitPrio=1 usec=310
[2026-05-02T11:00:01.001] sched: Allocate JobId=5120 NodeList=cn[01-04] #CPUs=512 Partition=gpu
[2026-05-02T11:00:02.001] prolog_running_decr: Configuration for JobId=5120 is complete
[2026-05-02T12:00:02.001] _job_complete: JobId=5120 WEXITSTATUS 0
[2026-05-02T12:00:02.002] _job_complete: JobId=5120 done
[2026-05-02T12:00:03.002] cleanup_completing: JobId=5120 completion process took 1 seconds
"""


def notes(release: str, name: str) -> bytes:
    return (RECORDINGS / release / LOST / name).read_bytes()


def accusations(data: bytes, scope: Scope) -> list[RuleHit]:
    return [hit for hit in scan(data, scope=scope).hits if hit.role in (Role.ROOT, Role.MAYBE)]


@pytest.mark.parametrize(
    "table",
    [
        b"NODELIST|STATE|REASON|TIMESTAMP|CPUS\ncn06|idle|none|Unknown|128\ncn07|down*|Not responding|2026-05-02|128\n",
        b"NODELIST   NODES PARTITION  STATE REASON\ncn06  1  gpu*  idle  none\ncn07  1  gpu*  down*  Not responding\n",
        (
            b"REASON               USER      TIMESTAMP           NODELIST\n"
            b"Not responding       slurm     2026-05-02T11:12:00 cn07\n"
        ),
    ],
)
def test_sinfo_names_the_node_that_does_not_answer_and_no_other(table: bytes) -> None:
    found = accusations(table, Scope.NOTES)
    assert {(hit.symptom, hit.captures.get("node")) for hit in found} == {("node_unreachable", "cn07")}


@pytest.mark.parametrize("release", RELEASES)
def test_scontrol_shows_the_reason_of_a_node(release: str) -> None:
    found = accusations(notes(release, "scontrol-show-node.txt"), Scope.NOTES)
    assert "node_unreachable" in {hit.symptom for hit in found}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("rule", "symptom", "raw_id"),
    [
        ("sacct-timeout", "time_limit", "4"),
        ("sacct-cancelled", "user_cancelled", "12"),
        ("sacct-node-fail", "node_failed", "13"),
    ],
)
def test_the_books_tell_how_each_job_ended(release: str, rule: str, symptom: str, raw_id: str) -> None:
    found = by_rule(scan(notes(release, "sacct.txt"), scope=Scope.NOTES), rule)
    assert found
    assert {hit.symptom for hit in found} == {symptom}
    assert all(hit.excerpt.startswith(f"{raw_id}|") for hit in found)


@pytest.mark.parametrize("release", RELEASES)
def test_a_cluster_without_a_fault_accuses_no_node(release: str) -> None:
    data = (RECORDINGS / release / "1-mixed" / "scontrol-show-node.txt").read_bytes()
    assert accusations(data, Scope.NOTES) == []


@pytest.mark.parametrize("scope", [Scope.SCHEDULER, Scope.NOTES])
def test_a_pods_healthy_life_accuses_nobody(scope: Scope) -> None:
    assert accusations(HEALTHY_START, scope) == []


@pytest.mark.parametrize("scope", [Scope.SCHEDULER, Scope.NOTES])
def test_a_jobs_healthy_life_in_the_controllers_log_accuses_nobody(scope: Scope) -> None:
    assert accusations(HEALTHY_SLURM, scope) == []


def test_the_node_of_a_pod_is_told_by_its_scheduling() -> None:
    (hit,) = by_rule(scan(HEALTHY_START, scope=Scope.SCHEDULER), "pod-scheduled")
    assert (hit.captures["pod"], hit.captures["node"]) == ("tr-worker-1", "gk-07")


@pytest.mark.parametrize(
    ("path", "local"),
    [("/tmp/x", True), ("/local/nvme0/x", True), ("/raid/cache/x", True), ("/scratch/run7/x", False)],
)
def test_a_full_disk_is_the_nodes_own_by_its_path(path: str, local: bool) -> None:
    result = scan(f"OSError: [Errno 28] No space left on device: '{path}'\n".encode())
    assert by_rule(result, "disk-full")
    assert bool(by_rule(result, "disk-full-local")) is local


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        (b"store2:/export    80T   80T     0 100% /proj\n", "df-full-shared"),
        (b"192.0.2.7@o2ib:/scr  2.1P  2.1P  1.0G 100% /scr\n", "df-full-shared"),
        (b"/dev/nvme0n1p1  880G  880G     0 100% /local\n", "df-full-local"),
    ],
)
def test_df_tells_a_full_shared_store_from_a_full_local_disk(row: bytes, rule: str) -> None:
    found = accusations(b"Filesystem      Size  Used Avail Use% Mounted on\n" + row, Scope.NOTES)
    assert [hit.rule for hit in found] == [rule]


def test_words_of_the_scheduler_in_a_programs_output_are_no_events() -> None:
    text = b"the pod was OOMKilled\n  Reason: OOMKilled\nWarning NodeNotReady node/gk-07\n0/40 nodes are available\n"
    assert accusations(text, Scope.APPLICATION) == []
