"""Readers of what lies beside a job take whatever comes: no crash, bounded room, the same whatever the pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from relance.rules import load_pack
from relance.rules import pack as packaged_files
from relance.rules.metrics import evaluate
from relance.watching.evidence import Context, ContextError, EvidenceFile, Readers, context_of, gather
from relance.watching.evidence.jobs import chosen, jobs_of, past_of, view_of
from relance.watching.evidence.kinds import look
from relance.watching.evidence.kubernetes import told_by_json, told_by_yaml
from relance.watching.evidence.prometheus import read_text
from relance.watching.evidence.samples import Samples
from relance.watching.evidence.tables import jobs_in, nodes_in, nodes_in_notes, nodes_of_document
from relance.watching.evidence.telemetry import read_table
from relance.watching.evidence.values import DocumentError

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
PACK = load_pack({"metrics.yaml": (Path(packaged_files.__file__).parent / "metrics.yaml").read_text()})
WANTED = frozenset(name for rule in PACK.metrics for name in rule.names)
NODES = ("n1", "n2")
FEW = settings(max_examples=30, deadline=None)

words = st.sampled_from(
    ["n1", "n[1-3]", "FAILED", "PENDING", "CANCELLED by 0", "0:9", "1767225600", "2026-01-01T00:00:00Z", "", "None",
     "gpu", "DCGM_FI_DEV_XID_ERRORS", "node_memory_MemAvailable_bytes", "nan", "1e999", "-1", "0x48", "\x00", "é"]
)  # fmt: skip
keys = st.sampled_from(
    ["jobs", "job_id", "state", "job_state", "exit_code", "nodes", "steps", "step", "time", "start", "end", "set",
     "number", "infinite", "return_code", "signal", "id", "restart_cnt", "items", "kind", "metadata", "name", "status",
     "conditions", "type", "reason", "message", "involvedObject", "containerStatuses", "terminated", "sinfo", "node",
     "rank_to_node", "ranks", "scheduler", "data", "result", "metric", "__name__", "values", "time_limit", "user"]
)  # fmt: skip
plain = st.one_of(st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), words, st.text(max_size=8))
documents = st.recursive(
    plain, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=6)), max_leaves=25
)
lines = st.lists(
    st.one_of(
        st.lists(words, min_size=1, max_size=6).map(",".join),
        st.lists(words, min_size=1, max_size=6).map(" ".join),
        st.sampled_from(
            ["ts,node,gpu,temp_c,mem_used_gib,mem_total_gib", "2026-01-01T00:00:00Z,n1,3,58,99,100",
                "# 2026-01-01T00:00:00Z",
             'DCGM_FI_DEV_XID_ERRORS{gpu="1",Hostname="n1"} 79', "DCGM_FI_DEV_GPU_TEMP 1e400 99999999999999999",
             "JobID|State|ExitCode|NodeList", "NODELIST STATE REASON", "NodeName=n1 State=DOWN Reason=x [root@2026]",
             "JobId=1 JobState=FAILED", "$ scontrol show node n1", "   State=DOWN", "{", "apiVersion: v1", "kind: List"]
        ),
        st.text(max_size=20),
    ),
    max_size=12,
)  # fmt: skip


def nothing(_: str) -> tuple[str, ...]:
    return ()


def file(name: str, data: bytes) -> EvidenceFile:
    return EvidenceFile(name=name, chunks=lambda: [data])


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


@FEW
@given(documents)
def test_documents_of_any_shape_are_taken(document: object) -> None:
    data = json.dumps(document).encode()
    jobs = jobs_of(document, nothing)
    job = chosen(jobs, Context(nodes=NODES))
    if job is not None:
        view_of(job, NOW)
        past_of(jobs, job, NOW)
    nodes_of_document(document, nothing)
    told_by_json(data, document)


@FEW
@given(documents)
def test_a_context_is_used_or_refused(document: object) -> None:
    for data in (document, {"nodes": document}, {"rank_to_node": document}):
        with suppress(ContextError):
            context = context_of(data)
            assert all(isinstance(node, str) for node in (*context.nodes, *context.rank_to_node.values()))


@FEW
@given(lines)
def test_yaml_is_read_or_refused(given_lines: list[str]) -> None:
    text = "\n".join(given_lines)
    with suppress(DocumentError):
        assert all(line.line >= 1 for line in told_by_yaml(text.encode()).lines)
    with suppress(ContextError, ValueError, yaml.YAMLError):
        context_of(yaml.safe_load(text))


@FEW
@given(lines)
def test_tables_are_taken(given_lines: list[str]) -> None:
    text = "\n".join(given_lines)
    jobs_in(text, nothing)
    nodes_in(text, nothing)
    nodes_in_notes(text)
    look("x", text.encode(), NODES)


@FEW
@given(lines, st.lists(st.integers(0, 1000), max_size=5))
def test_samples_are_the_same_whatever_the_pieces(given_lines: list[str], places: list[int]) -> None:
    data = "\n".join(given_lines).encode()
    for read in (read_text, read_table):
        whole, pieces = Samples(WANTED), Samples(WANTED)
        first = read("m", [data], whole, NODES, None)
        assert read("m", cut(data, places), pieces, NODES, None) == first
        assert repr(pieces.series()) == repr(whole.series())
        evaluate(PACK.metrics, whole.series(), NOW)


@FEW
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["job.log", "sacct.json", "e.json", "m.prom", "t.csv", "syslog", "sinfo.txt", "x.yaml"]),
            st.one_of(lines.map("\n".join), documents.map(json.dumps)),
        ),
        max_size=4,
        unique_by=lambda pair: pair[0],
    ),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_a_folder_of_anything_is_gathered_the_same_in_any_order(files: list[tuple[str, str]], random: object) -> None:
    given_files = [file(name, text.encode()) for name, text in files]
    readers = Readers(expand=nothing, pack=PACK)
    first = gather(given_files, Context(nodes=NODES), readers, NOW)
    random.shuffle(given_files)  # type: ignore[attr-defined] # hypothesis' own
    again = gather(given_files, Context(nodes=NODES), readers, NOW)

    def shown(evidence: object) -> str:
        return repr(
            [getattr(evidence, name) for name in ("signs", "job", "past", "node_views", "coverage", "left_out")]
        )

    assert shown(again) == shown(first)


def test_a_scrape_without_end_takes_a_bounded_room() -> None:
    samples = Samples(frozenset({"a"}))
    long_line = b'a{x="' + b"y" * 300_000
    read_text("m", (chunk for _ in range(20) for chunk in (long_line, b'"} 1\n', b"a 1\n")), samples, (), None)
    (series,) = samples.series()
    assert [len(point.file) for point in series.points] == [1] * 20
