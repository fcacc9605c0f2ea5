from __future__ import annotations

import pytest

from relance.domain.faults import Scope
from relance.watching.evidence.kinds import FileKind, look
from relance.watching.evidence.naming import read_name

NODES = ("gpu003", "gpu004.cluster.local", "tern-g01")
DMESG = b"[   12.345678] nvme nvme0: 64/0/0 default/read/poll queues\n[   13.000001] EXT4-fs (sda1): mounted\n"
SYSLOG = b"Aug 19 22:10:31 gpu003 kernel: nvme nvme0: ready\nAug 19 22:10:37 gpu003 systemd[1]: Started Session 90\n"
STEPS = b"iteration 1/ 100 | lm loss: 9.1\niteration 2/ 100 | lm loss: 9.0\n"
CTLD = (
    b"[2026-01-30T12:38:58.771] _job_complete: JobId=17 WEXITSTATUS 1\n"
    b"[2026-01-30T12:38:59.001] sched: Allocate JobId=18\n"
)
FABRIC = (
    b"[Jan 03 2026 10:11:12] [INFO] [tid 4711] Fabric Manager version\n[Jan 03 2026 10:11:13] [ERROR] [tid 4711] gone\n"
)
EVENTS = (
    b"2026-02-13T07:50:02Z Normal Started pod/w-0 Started container\n"
    b"2026-02-13T07:50:03Z Warning BackOff pod/w-1 again\n"
)
TABLE = b"LAST SEEN   TYPE      REASON    OBJECT     MESSAGE\n2m          Warning   BackOff   pod/w-1    again\n"
PROM = b'# HELP up Whether it is up\nup 1\nDCGM_FI_DEV_XID_ERRORS{gpu="3",Hostname="gpu003"} 79\n'
CSV = b"# taken by hand\nts,node,mem_used_gib,mem_total_gib\n2026-04-23T09:09:50Z,gpu003,214,2015\n"


@pytest.mark.parametrize(
    ("name", "head", "kind", "scope"),
    [
        ("job.log", STEPS, FileKind.LOG, Scope.APPLICATION),
        ("slurm-4711.out", DMESG, FileKind.LOG, Scope.APPLICATION),
        ("dmesg-gpu003.log", STEPS, FileKind.LOG, Scope.KERNEL),
        ("host.log", DMESG, FileKind.LOG, Scope.KERNEL),
        ("host.log", SYSLOG, FileKind.LOG, Scope.KERNEL),
        ("host.log", STEPS, FileKind.LOG, Scope.APPLICATION),
        ("central.log", CTLD, FileKind.LOG, Scope.SCHEDULER),
        ("slurmd-gpu003.log", CTLD, FileKind.LOG, Scope.SCHEDULER),
        ("fm.log", FABRIC, FileKind.LOG, Scope.DEVICE),
        ("cluster.log", EVENTS, FileKind.LOG, Scope.SCHEDULER),
        ("seen.txt", TABLE, FileKind.LOG, Scope.SCHEDULER),
        ("audit.log", b"type=SYSCALL msg=audit(1784736138.118:44120): arch=c0\n", FileKind.LOG, Scope.KERNEL),
        ("ufm-events.csv", (b"time,id,severity,object,text\n"
            b"2026-05-23 04:41:03,394,info,SW x,y\n"), FileKind.TABLE, Scope.DEVICE),
        ("df.txt", b"Filesystem  Size  Used\n/dev/a  1T  1T\n", FileKind.LOG, Scope.NOTES),
        ("node-gpu003.txt", b"$ nvidia-smi -L | wc -l\n7\n", FileKind.LOG, Scope.NOTES),
        ("mail.txt", b"Dear all, the file server goes down at six.\n", FileKind.LOG, Scope.NOTES),
        ("train.txt", STEPS, FileKind.LOG, Scope.APPLICATION),
        ("telemetry.csv", CSV, FileKind.TABLE, Scope.METRICS),
        ("numbers", CSV, FileKind.TABLE, Scope.NOTES),
        ("loss.csv", b"step,loss\n1,9.1\n2,9.0\n", FileKind.LOG, Scope.NOTES),
        ("gpu003.prom", PROM, FileKind.PROMETHEUS, Scope.SCHEDULER),
        ("scrape", PROM, FileKind.PROMETHEUS, Scope.SCHEDULER),
        ("sacct.json", b'{\n "jobs": [\n', FileKind.JSON, Scope.SCHEDULER),
        ("answer", b'{"jobs": [{"job_id": 1}]}', FileKind.JSON, Scope.SCHEDULER),
        ("job.log", b'{"step": 1, "loss": 9}\n{"step": 2, "loss": 8}\n', FileKind.LOG, Scope.APPLICATION),
        ("job.log", b"[rank0]: hello\n[rank1]: hello\n", FileKind.LOG, Scope.APPLICATION),
        ("events.yaml", b"apiVersion: v1\nitems:\n- kind: Event\nkind: List\n", FileKind.YAML, Scope.SCHEDULER),
        ("train.yaml", b"lr: 0.1\nkind: adam\n", FileKind.SETTINGS, Scope.APPLICATION),
        ("sacct.txt", b"JobID|JobName|State|ExitCode\n17|pre|FAILED|1:0\n", FileKind.JOBS, Scope.SCHEDULER),
        ("who.txt", b"NODELIST STATE GRES\ngpu003 down* gpu:8\n", FileKind.NODES, Scope.NOTES),
        ("weights.bin", b"\0" * 100 + b"text", FileKind.BINARY, Scope.APPLICATION),
        ("dump.pt", b"PK\x03\x04abc", FileKind.BINARY, Scope.APPLICATION),
        ("console-gpu003.log", b"\0" * 500 + DMESG, FileKind.LOG, Scope.KERNEL),
        ("slurm-1.out.gz", DMESG, FileKind.LOG, Scope.APPLICATION),
        ("df.txt.zst", b"all is well\n", FileKind.LOG, Scope.NOTES),
        ("packed.gz", b"\x1f\x8b\x08", FileKind.BINARY, Scope.APPLICATION),
        ("job.log", b"", FileKind.EMPTY, Scope.APPLICATION),
    ],
)  # fmt: skip
def test_files_are_told_apart(name: str, head: bytes, kind: FileKind, scope: Scope) -> None:
    told = look(name, head, NODES)
    assert told.kind is kind
    if kind in (FileKind.LOG, FileKind.TABLE, FileKind.NODES):
        assert told.scope is scope


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("dmesg-gpu003.log", "gpu003"),
        ("dmesg-gpu004.log", "gpu004.cluster.local"),
        ("dmesg-tern-g01.log.1.gz", "tern-g01"),
        ("gpu003.dmesg", "gpu003"),
        ("gpu003/kern.log", "gpu003"),
        ("syslog.gpu003", "gpu003"),
        ("syslog.1", None),
        ("kern.log.2.gz", None),
        ("dmesg-stranger.log", "stranger"),
        ("df-local.txt", None),
        ("notes-gpu003.txt", "gpu003"),
        ("rank-3.log", None),
        ("gpu003-rank-3.log", "gpu003"),
    ],
)
def test_a_name_tells_the_node(name: str, node: str | None) -> None:
    assert read_name(name, NODES).node == node


def test_without_known_nodes_a_folder_or_a_piece_of_the_name_is_the_node() -> None:
    assert read_name("n17/dmesg.log").node == "n17"
    assert read_name("logs/dmesg.log").node is None
    assert read_name("dmesg-n17.log").node == "n17"


@pytest.mark.parametrize(
    ("name", "rank", "worker"),
    [("rank-3.log", 3, None), ("out_rank12.err", 12, None), ("worker-0.log", None, 0), ("job.log", None, None)],
)
def test_a_name_tells_the_rank(name: str, rank: int | None, worker: int | None) -> None:
    told = read_name(name)
    assert (told.rank, told.worker) == (rank, worker)
