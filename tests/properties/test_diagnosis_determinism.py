"""The same files give the same bytes: in whatever order they come, however they are cut, whenever they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from relance.attribution.scores import LabelError, label_of
from relance.cli.diagnosing import Means, NothingToReadError, diagnosis_of, means_of
from relance.cli.diagnosis_reports import report_of
from relance.cli.evidence_files import context_beside, files_of
from relance.watching.evidence import Context, ContextError, EvidenceFile, context_of
from tests.layers import ROOT

CASES = sorted(path.parent for path in (ROOT / "cases" / "open").glob("*/expected.yaml"))
NOW = datetime(2031, 3, 1, 12, tzinfo=UTC)


@cache
def means() -> Means:
    return means_of(None)


@cache
def plain_answer(case: Path) -> str:
    return answer(files_of((case,)), case, NOW)


def answer(files: Sequence[EvidenceFile], case: Path, now: datetime) -> str:
    given_context, _ = context_beside((case,))
    return json.dumps(report_of(diagnosis_of(files, given_context, means(), now)), indent=1)


def pieces(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """Data in pieces of these sizes, over and over."""
    at = number = 0
    while at < len(data):
        size = sizes[number % len(sizes)]
        yield data[at : at + size]
        at, number = at + size, number + 1


def cut(file: EvidenceFile, sizes: Sequence[int]) -> EvidenceFile:
    data = b"".join(file.chunks())

    def chunks() -> Iterable[bytes]:
        return pieces(data, sizes)

    return EvidenceFile(name=file.name, chunks=chunks)


@settings(max_examples=60, deadline=None)
@given(
    case=st.sampled_from(CASES),
    sizes=st.lists(st.integers(17, 5000), min_size=1, max_size=4),
    later_s=st.integers(0, 10_000_000),
    data=st.data(),
)
def test_order_pieces_and_the_time_of_reading_change_nothing(
    case: Path, sizes: list[int], later_s: int, data: st.DataObject
) -> None:
    files = data.draw(st.permutations([cut(file, sizes) for file in files_of((case,))]))
    assert answer(files, case, NOW + timedelta(seconds=later_s)) == plain_answer(case)


WORDS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just("n1"))
VALUES = st.recursive(
    WORDS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=5), st.integers(0, 9), st.just("ranks"), st.just("node")), inner,
                        max_size=3),
    ),
    max_leaves=8,
)  # fmt: skip
KEYS = (
    "nodes", "rank_to_node", "scheduler", "job_id", "domain", "decision", "suspects", "first_evidence", "also", "why",
)  # fmt: skip
FILES = st.one_of(VALUES, st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))


@settings(max_examples=200, deadline=None)
@given(FILES)
def test_any_yaml_is_a_label_or_said_not_to_be_one(value: object) -> None:
    with suppress(LabelError):
        label = label_of(yaml.safe_load(yaml.safe_dump(value)))
        assert label.domain
        assert label.decision


@settings(max_examples=200, deadline=None)
@given(FILES)
def test_any_yaml_is_a_context_or_said_not_to_be_one(value: object) -> None:
    with suppress(ContextError):
        found = context_of(yaml.safe_load(yaml.safe_dump(value)))
        assert all(isinstance(node, str) for node in (*found.nodes, *found.rank_to_node.values()))


NAMES = st.sampled_from(["job.log", "sacct.json", "events.log", "a.prom", "dmesg-n1.log", "x"])


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(NAMES, st.binary(max_size=300), max_size=4))
def test_any_bytes_are_judged_or_said_to_be_nothing(named: dict[str, bytes]) -> None:
    files = [EvidenceFile(name=name, chunks=partial(pieces, data, (100,))) for name, data in named.items()]
    with suppress(NothingToReadError):
        found = diagnosis_of(files, Context(), means(), NOW)
        json.dumps(report_of(found), allow_nan=False)
