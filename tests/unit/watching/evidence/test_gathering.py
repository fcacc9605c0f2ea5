from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path

import pytest

from relance.domain.faults import Scope
from relance.domain.findings import Sight
from relance.domain.views import JobState, NodeState
from relance.rules import load_pack
from relance.rules import pack as packaged_files
from relance.slurm.hostlists import expand
from relance.watching.evidence import CaseEvidence, Context, ContextError, EvidenceFile, Readers, context_of, gather

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
READERS = Readers(
    expand=expand,
    pack=load_pack({"metrics.yaml": (Path(packaged_files.__file__).parent / "metrics.yaml").read_text()}),
)
CONTEXT = Context(nodes=("n1", "n2"))
SYSLOG = (
    "Aug 19 22:10:31 n1 kernel: nvme ready\nAug 19 22:10:32 n2 kernel: lost\n   and its next line\n"
    "Aug 19 22:10:33 n1 slurmd[9]: launch task\nAug 19 22:10:34 n9 kernel: of another job\n"
)


def file(name: str, text: str | bytes) -> EvidenceFile:
    data = text.encode() if isinstance(text, str) else text
    return EvidenceFile(name=name, chunks=lambda: [data[:7], data[7:]])


def gathered(*files: EvidenceFile, context: Context = CONTEXT) -> CaseEvidence:
    return gather(files, context, READERS, NOW)


def texts(evidence: CaseEvidence) -> dict[tuple[str, Scope, str | None], str]:
    return {(log.name, log.scope, log.node): b"".join(log.chunks()).decode() for log in evidence.logs}


def test_a_folder_is_read_whole() -> None:
    found = gathered(
        file("job.log", "step 1\n"),
        file("sacct.json", json.dumps({"jobs": [{"job_id": 7, "state": "NODE_FAIL", "nodes": "n[1-2]"}]})),
        file("sinfo.txt", "NODELIST STATE\nn2 down*\n"),
        file("mem.csv", "ts,node,mem_used_gib,mem_total_gib\n2026-01-01T00:00:00Z,n1,99,100\n"),
        file("hosts.txt", "10.0.0.1 n1\n10.0.0.2  n2\n"),
    )
    assert found.job is not None
    assert (found.job.raw_id, found.job.state, found.job.nodes) == ("7", JobState.NODE_FAIL, ("n1", "n2"))
    assert [(view.name, view.state) for view in found.node_views] == [("n2", NodeState.DOWN)]
    assert [(hit.rule, hit.node, hit.line) for hit in found.signs] == [("metric-host-memory-full", "n1", 2)]
    assert found.addresses == {"10.0.0.1": "n1", "10.0.0.2": "n2"}
    assert {(log.name, log.scope) for log in found.logs} == {
        ("job.log", Scope.APPLICATION), ("sinfo.txt", Scope.NOTES), ("hosts.txt", Scope.NOTES),
    }  # fmt: skip
    assert {item.source for item in found.coverage} == {"sacct.json", "mem.csv"}


def test_the_order_of_files_does_not_matter() -> None:
    files = (
        file("a.prom", '# 2026-01-01T00:00:00Z\nDCGM_FI_DEV_XID_ERRORS{gpu="1",Hostname="n1"} 0\n'),
        file("b.prom", '# 2026-01-01T00:01:00Z\nDCGM_FI_DEV_XID_ERRORS{gpu="1",Hostname="n1"} 79\n'),
        file("sacct.json", '{"jobs": [{"job_id": 7, "state": "FAILED", "nodes": "n1"}]}'),
        file("old.json", '{"jobs": [{"job_id": 6, "state": "FAILED", "nodes": "n1"}]}'),
        file("syslog", SYSLOG),
    )
    seen = set()
    for order in permutations(files):
        found = gathered(*order)
        assert [hit.rule for hit in found.signs] == ["metric-xid-off-bus", "metric-xid-last"]
        seen.add(repr((found.job, found.signs, found.coverage, sorted(texts(found).items(), key=repr))))
    assert len(seen) == 1


def test_a_syslog_of_several_hosts_is_taken_apart_and_lines_stay_in_their_places() -> None:
    found = texts(gathered(file("syslog", SYSLOG)))
    assert set(found) == {
        ("syslog", Scope.KERNEL, "n1"), ("syslog", Scope.KERNEL, "n2"),
        ("syslog", Scope.SCHEDULER, "n1"), ("syslog", Scope.SCHEDULER, "n2"),
    }  # fmt: skip
    kernel = found["syslog", Scope.KERNEL, "n2"]
    assert len(kernel) == len(SYSLOG)
    assert [line.strip() for line in kernel.splitlines()] == [
        "", "Aug 19 22:10:32 n2 kernel: lost", "", "", "",
    ]  # fmt: skip
    assert [line.strip() for line in found["syslog", Scope.SCHEDULER, "n1"].splitlines()][3].endswith("launch task")


def test_lines_of_other_hosts_are_left_out_and_said() -> None:
    found = gathered(file("syslog", SYSLOG))
    assert [item.note for item in found.coverage] == ["lines of 1 other hosts were left out"]


def test_a_log_whose_lines_all_name_one_host_is_that_nodes() -> None:
    (log,) = gathered(file("kern.log", "Aug 19 22:10:31 n2 kernel: nvme ready\n")).logs
    assert (log.scope, log.node) == (Scope.KERNEL, "n2")


def test_events_in_json_become_lines_at_their_places_by_node() -> None:
    event = {
        "type": "Warning",
        "reason": "BackOff",
        "message": "again",
        "involvedObject": {"kind": "Pod", "name": "w-1"},
        "source": {"component": "kubelet", "host": "n2"},
        "metadata": {},
    }
    text = json.dumps({"kind": "List", "items": [event]}, indent=1)
    ((key, shown),) = texts(gathered(file("events.json", text))).items()
    assert key == ("events.json", Scope.SCHEDULER, "n2")
    (number,) = [at for at, line in enumerate(shown.splitlines()) if line]
    assert '"message"' in text.splitlines()[number]


def test_a_worker_log_is_on_the_node_of_its_pod() -> None:
    placed = "Normal Scheduled pod/pre-worker-1 Successfully assigned ml/pre-worker-1 to n2"
    events = file("events.log", f"2026-01-01T00:00:00Z {placed}\n")
    found = gathered(events, file("worker-1.log", "step 1\n"))
    assert {log.name: log.node for log in found.logs} == {"events.log": None, "worker-1.log": "n2"}


def test_a_worker_is_a_rank_only_where_a_node_has_one() -> None:
    one_each = Context(nodes=("n1", "n2"), rank_to_node={0: "n1", 1: "n2"})
    many = Context(nodes=("n1",), rank_to_node={0: "n1", 1: "n1"})
    assert [log.rank for log in gathered(file("worker-1.log", "x\n"), context=one_each).logs] == [1]
    assert [log.rank for log in gathered(file("worker-1.log", "x\n"), context=many).logs] == [None]


def test_nodes_that_nobody_named_are_the_jobs() -> None:
    sacct = file("sacct.json", '{"jobs": [{"job_id": 7, "state": "FAILED", "nodes": "n[7-8]"}]}')
    assert gathered(sacct, context=Context()).context.nodes == ("n7", "n8")
    assert gathered(sacct).context.nodes == ("n1", "n2")


def test_comments_of_a_table_are_notes() -> None:
    (log,) = gathered(file("m.csv", "ts,node,temp_c\n2026-01-01T00:00:00Z,n1,40\n# n2: fan failed\n")).logs
    assert (log.scope, b"".join(log.chunks())) == (Scope.NOTES, b"\n\n# n2: fan failed")


ARCHIVE = "an archive: not read; unpack it into a folder, and name that"


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("weights.bin", b"\0\1" * 100, "no text: not read"),
        ("train.yaml", b"lr: 1\n", "settings: not read"),
        ("other.json", b'{"a": [1]}', "JSON that nothing is known of: not read"),
        ("empty", b"", "empty"),
        ("logs.zip", b"PK\3\4" + b"\0" * 99, ARCHIVE),
        ("logs.tar", b"job.log".ljust(257, b"\0") + b"ustar\x0000" + b"\0" * 300 + b"CUDA error\n" * 99, ARCHIVE),
    ],
)
def test_what_is_no_evidence_is_left_out_and_said(name: str, data: bytes, why: str) -> None:
    found = gathered(file(name, data))
    assert found.is_empty
    assert [(item.source, item.note) for item in found.left_out] == [(name, why)]
    assert found.coverage == ()


@pytest.mark.parametrize(
    "data",
    ['{"level": "error", "msg": "x"}\n', '{"config": "' + "x" * 70_000 + '"}\nx\n', '{"step": 1} ' * 1_500_000],
    ids=["one line", "a long first line", "one line beyond every document"],
)
def test_a_log_whose_beginning_looks_like_a_document_is_a_log(data: str) -> None:
    found = gathered(file("job.log", data))
    assert [(log.name, log.scope) for log in found.logs] == [("job.log", Scope.APPLICATION)]
    assert (found.coverage, found.left_out) == ((), ())


def test_an_empty_log_is_a_log() -> None:
    assert [log.name for log in gathered(file("job.log", b"")).logs] == ["job.log"]


def test_what_cannot_be_read_stops_nothing_and_is_said() -> None:
    def broken() -> Iterable[bytes]:
        raise PermissionError(13, "Permission denied")

    found = gathered(
        EvidenceFile(name="dmesg-n1.log", chunks=broken), file("sacct.json", '{"jobs": ['), file("job.log", "x")
    )
    assert [(item.source, item.sight) for item in found.coverage] == [
        ("dmesg-n1.log", Sight.REFUSED), ("sacct.json", Sight.REFUSED),
    ]  # fmt: skip
    assert [log.name for log in found.logs] == ["job.log"]


@pytest.mark.parametrize(
    "data",
    [
        [1], "text", {"nodes": "n1"}, {"nodes": [1]}, {"nodes": [""]}, {"rank_to_node": 3}, {"rank_to_node": [3]},
        {"rank_to_node": [{"ranks": 0}]}, {"rank_to_node": [{"ranks": 0, "node": 7}]},
        {"rank_to_node": [{"ranks": "0-9999999", "node": "n1"}]}, {"scheduler": ["slurm"]}, {"job_id": True},
    ],
)  # fmt: skip
def test_a_context_that_cannot_be_meant_is_refused(data: object) -> None:
    with pytest.raises(ContextError):
        context_of(data)


def test_a_context_is_read() -> None:
    assert context_of(None) == Context()
    found = context_of(
        {"scheduler": "slurm", "job_id": 17, "nodes": ["n1"], "rank_to_node": {"0-1": "n1"}, "note": [1]}
    )
    assert found == Context(nodes=("n1",), rank_to_node={0: "n1", 1: "n1"}, scheduler="slurm", job_id="17")


def test_a_schedulers_tables_are_notes_too() -> None:
    found = gathered(
        file("sacct.txt", "JobID|State|ExitCode|NodeList\n7|FAILED|1:0|n[1-2]\n"),
        file("sinfo.txt", "NODELIST STATE\nn1 idle\n"),
    )
    assert found.job is not None
    assert found.job.nodes == ("n1", "n2")
    assert {(log.name, log.scope) for log in found.logs} == {("sacct.txt", Scope.NOTES), ("sinfo.txt", Scope.NOTES)}
