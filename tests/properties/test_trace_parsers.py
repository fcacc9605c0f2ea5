"""Traces are other people's files: whatever they hold, they are read or refused with a sentence, and nothing else."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from relance.traces import TraceFile, TraceReport, UnreadableTraceError, looks_like, parse, read
from relance.traces.dumps import read_dump
from relance.traces.elastic import read_error
from relance.traces.pickles import read_pickle
from relance.traces.ras import read_ras_json
from relance.traces.ras_text import read_ras_text
from relance.traces.stacks import read_stacks
from tests.unit.traces.test_ras import lose, mismatch, world
from tests.unit.traces.test_reading import ERROR
from tests.unit.traces.test_stacks import LOADING, handler, spy, spy_json, traceback
from tests.unit.traces.worlds import Fault, Run

RUN = Run(Fault(stops={6: 12}))
DUMPS = [RUN.dump(rank) for rank in range(16)]
SAMPLES: list[bytes] = [
    *(file.data for form in ("torch", "json", "old") for file in RUN.files(form=form)[5:7]),
    pickle.dumps(DUMPS[0], 4),
    json.dumps(lose(world(), 2)).encode(),
    (mismatch() + mismatch()).encode(),
    *(form(LOADING).encode() for form in (spy, spy_json, handler, traceback)),
    json.dumps(ERROR).encode(),
]
NAMES = ["nccl_trace_rank_3", "fr_1.json", "stack-2.txt", "error.json", "ras.txt", "x"]
PARSERS: list[Callable[[bytes], object]] = [
    *(partial(lambda parser, name, data: parser(TraceFile(name=name, data=data)), each, "rank_3")
      for each in (parse, read_dump, read_stacks, read_error)),
    *(partial(lambda parser, data: parser(data, "x"), each) for each in (read_ras_json, read_ras_text)),
    read_pickle,
]  # fmt: skip

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A sample with bytes changed, cut, doubled, or put into another."""
    data = draw(st.sampled_from(SAMPLES))
    at = draw(st.integers(0, len(data)))
    match draw(st.integers(0, 4)):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + draw(st.binary(max_size=9)) + data[at + draw(st.integers(0, 9)) :]
        case 2:
            return data[at:] + data[:at]
        case 3:
            return data + draw(st.sampled_from(SAMPLES))
        case _:
            lines = data.split(b"\n")
            return b"\n".join(draw(st.permutations(lines[:40])))


@st.composite
def changed(draw: st.DrawFn) -> TraceFile:
    """A dump in which one value, somewhere, is another."""
    rank = draw(st.integers(0, 15))
    dump = json.loads(json.dumps(DUMPS[rank]))
    at: Any = dump
    for _ in range(draw(st.integers(0, 4))):
        keys = list(at) if isinstance(at, dict) else list(range(len(at))) if isinstance(at, list) else []
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        inner = at[key]
        if not isinstance(inner, dict | list) or draw(st.booleans()):
            at[key] = draw(plain)
            break
        at = inner
    data = pickle.dumps(dump, 4) if draw(st.booleans()) else json.dumps(dump).encode()
    return TraceFile(name=f"nccl_trace_rank_{rank}", data=data)


@given(st.one_of(st.binary(max_size=200), damaged()), st.sampled_from(PARSERS))
@settings(max_examples=400, deadline=None)
def test_a_parser_reads_any_bytes_or_refuses_them_with_a_remedy(data: bytes, parser: Callable[[bytes], object]) -> None:
    try:
        parser(data)
    except UnreadableTraceError as error:
        assert len(str(error)) < 600  # noqa: PT017 - either way is right
        assert str(error).endswith(".")  # noqa: PT017 - the same


@given(st.text(max_size=30) | st.sampled_from(NAMES), st.binary(max_size=64) | damaged())
@settings(max_examples=200, deadline=None)
def test_any_file_is_told_apart_and_reading_it_stops_nothing(name: str, data: bytes) -> None:
    looks_like(name, data)
    report = read([TraceFile(name=name, data=data)])
    assert isinstance(report, TraceReport)
    assert all(each.file == name for each in report.unreadable)


@given(st.lists(changed(), min_size=1, max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_dumps_with_odd_values_are_weighed_the_same_in_any_order(files: list[TraceFile], random: Random) -> None:
    unique = list({file.name: file for file in files}.values())
    report = read(unique)
    assert all(0 <= sign.confidence <= 1 for sign in report.signs)
    assert all(sign.because.endswith(".") for sign in report.signs)
    random.shuffle(unique)
    assert read(unique) == report


@given(st.sets(st.integers(0, 15), min_size=9), st.integers(0, 15), st.integers(3, 20))
@settings(max_examples=25, deadline=None)
def test_whichever_dumps_are_kept_no_healthy_rank_is_called_idle_or_late(kept: set[int], rank: int, place: int) -> None:
    run = Run(Fault(stops={rank: place}))
    report = read(run.files(without=tuple(set(range(16)) - kept)))
    blamed = {
        each
        for sign in report.signs
        if sign.kind.value in {"fr_idle_rank", "fr_laggard", "fr_missing_rank"}
        for each in sign.ranks
    }
    assert blamed <= {rank}
