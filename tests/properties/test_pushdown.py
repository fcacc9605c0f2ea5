"""What a log store lets through finds what all lines find: by scanning, and by reading progress."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from relance.domain.faults import Scope
from relance.domain.findings import RuleHit
from relance.domain.observations import LogBlock
from relance.domain.progress import ProgressMark, StepSeen
from relance.progress import ProgressReader, ReaderState, wanted_patterns
from relance.rules.needs import ways
from relance.rules.patterns import LineMatcher, Pattern
from relance.rules.pushdown import NO_PASSAGE, Prefilter, prefilter
from relance.rules.scanning import Scanner, ScanState
from tests.unit.rules.packs import READ_AT, packaged, scanner

SCOPES = (Scope.APPLICATION, Scope.KERNEL, Scope.SCHEDULER, Scope.DEVICE)
EXAMPLES = {
    scope: sorted(
        {line for rule in packaged().rules if scope in rule.scopes for text in rule.hit for line in text.splitlines()}
    )
    for scope in SCOPES
}
HEALTHY_LOGS = {
    path.stem: path.read_bytes().splitlines()
    for path in sorted((Path(__file__).parents[1] / "unit/rules/healthy").glob("*.log"))
}
HEALTHY = sorted({line.decode() for lines in HEALTHY_LOGS.values() for line in lines})
TRACEBACKS = [
    [
        "Traceback (most recent call last):",
        '  File "/repo/train.py", line 7, in main',
        "    step(batch)",
        '  File "/venv/lib/python3.12/site-packages/torch/x.py", line 9, in f',
        "    return g()",
        "           ^^^",
        "ValueError: bad",
    ],
    [
        "Traceback (most recent call last):",
        '  File "/repo/data.py", line 40, in load',
        "    open(path)",
        "FileNotFoundError: [Errno 2] No such file or directory: 'a'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        '  File "/repo/data.py", line 44, in load',
        "    raise Unhappy from None",
        "mine.Unhappy",
    ],
    ["Traceback (most recent call last):", *["  odd"] * 3, *["something else"] * 9, "RuntimeError: late"],
]
TABLES = [
    [
        "[0]:",
        "  time      : 2026-06-01_11:02:03",
        "  host      : gpu017.example.org",
        "  rank      : 12 (local_rank: 4)",
        "  exitcode  : -9 (pid: 4711)",
        "  error_file: <N/A>",
        "  traceback : Signal 9 (SIGKILL) received by PID 4711",
    ],
    ["  rank      : 12 (local_rank: 4)", "    nothing : much", "  exitcode  : 1 (pid: 4711)"],
    [
        "  time : 3",
        "between",
        "  host      : a",
        "  b : 2",
        "  c : 2",
        "  d : 2",
        "  e : 2",
        "  exitcode  : 1 (pid: 47)",
    ],
    ["  exitcode  : -11 (pid: 4711)"],
]
LABELS = ("", "", "3: ", "[rank5]: ", "[default0]:", "[1,4]<stderr>:", "2026-05-02T11:12:00.5Z ", "(Actor pid=3) ")
NOISE = ("\x1b[31m", "\x1b[0m", "\r", "\0", " ", "|", "é日本")


@cache
def prefilter_of(scope: Scope) -> Prefilter:
    return prefilter(packaged(), scope)


@cache
def with_progress() -> Prefilter:
    return prefilter(packaged(), Scope.APPLICATION, wanted_patterns())


def passes(wanted: Prefilter, line: bytes) -> bool:
    """Whether the store would send the line: its text is UTF-8, and the pattern sees a whole entry."""
    return _server(wanted.lines).search(line.decode("utf-8", "replace")) is not None


def _server(pattern: str) -> re2._Regexp:
    if pattern not in _SERVERS:
        _SERVERS[pattern] = re2.compile(pattern)
    return _SERVERS[pattern]


_SERVERS: dict[str, re2._Regexp] = {}


def travelled(wanted: Prefilter, lines: Sequence[bytes]) -> list[bytes]:
    """The fewest lines that may be delivered: those that pass, and passages."""
    passage, sent = NO_PASSAGE, []
    for line in lines:
        if passage.is_open or passes(wanted, line):
            sent.append(line)
            passage = wanted.after([line], passage)
    return sent


def hits(lines: Sequence[bytes], scope: Scope, using: Scanner | None = None) -> tuple[list[RuleHit], dict[str, int]]:
    data = b"".join(line + b"\n" for line in lines)
    block = LogBlock(file="a", offset=0, data=data, scope=scope, read_at=READ_AT, node="gpu017")
    _, result = (using or scanner()).scan(block, ScanState())
    return [replace(hit, offset=0) for hit in result.hits], dict(result.counts)


@st.composite
def logs(draw: st.DrawFn, scope: Scope) -> list[bytes]:
    """What several writers wrote, line by line between each other."""
    writers: list[list[str]] = []
    for _ in range(draw(st.integers(1, 4))):
        label = draw(st.sampled_from(LABELS))
        pieces = draw(
            st.lists(
                st.one_of(
                    st.sampled_from(TRACEBACKS),
                    st.sampled_from(TABLES),
                    st.lists(st.sampled_from(EXAMPLES[scope]), max_size=3),
                    st.lists(st.sampled_from(HEALTHY), max_size=4),
                ),
                max_size=4,
            )
        )
        lines = [line for piece in pieces for line in piece]
        writers.append([label + _spoilt(draw, line) for line in lines])
    mixed: list[bytes] = []
    while any(writers):
        writer = draw(st.sampled_from([each for each in writers if each]))
        count = draw(st.integers(1, 5))
        mixed += [line.encode() for line in writer[:count]]
        del writer[:count]
    return mixed


def _spoilt(draw: st.DrawFn, line: str) -> str:
    if draw(st.integers(0, 7)):
        return line
    at = draw(st.integers(0, len(line)))
    return line[:at] + draw(st.sampled_from(NOISE)) + line[at:]


@pytest.mark.parametrize("scope", SCOPES)
def test_every_example_of_a_rule_passes(scope: Scope) -> None:
    wanted = prefilter_of(scope)
    missed = [
        (rule.id, text)
        for rule in packaged().rules
        if scope in rule.scopes and not rule.traceback
        for text in rule.hit
        if not any(passes(wanted, line.encode()) for line in text.splitlines())
    ]
    assert missed == []


@pytest.mark.parametrize("scope", SCOPES)
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_what_travels_gives_the_hits_that_everything_gives(scope: Scope, data: st.DataObject) -> None:
    lines = data.draw(logs(scope))
    assert hits(travelled(prefilter_of(scope), lines), scope) == hits(lines, scope)


BYTES = st.characters(max_codepoint=255)
RULES = sorted(packaged().rules, key=lambda rule: rule.id)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_whatever_a_rule_matches_passes(data: st.DataObject) -> None:
    rule = data.draw(st.sampled_from([rule for rule in RULES if not rule.traceback and rule.scopes & set(SCOPES)]))
    python = re.compile(rule.pattern, re.ASCII | (re.IGNORECASE if rule.ignore_case else 0))
    made = data.draw(st.from_regex(python, alphabet=BYTES))
    line = made.encode("latin-1").decode("utf-8", "replace").encode()  # as a store has it
    if b"\n" in line or LineMatcher(Pattern(text=rule.pattern, ignore_case=rule.ignore_case)).span(line) is None:
        return
    for scope in rule.scopes & set(SCOPES):
        assert passes(prefilter_of(scope), line)
    found = ways(rule.pattern, ignore_case=rule.ignore_case)
    for length in (0, 80, 10_000):
        assert any(_server(way.rough(length)).search(line.decode()) for way in found)


@given(lines=logs(Scope.APPLICATION), cuts=st.lists(st.integers(0, 40), max_size=4))
@settings(max_examples=150, deadline=None)
def test_how_many_lines_are_told_at_once_changes_no_passage(lines: list[bytes], cuts: list[int]) -> None:
    wanted = prefilter_of(Scope.APPLICATION)
    one_by_one = in_pieces = NO_PASSAGE
    for line in lines:
        one_by_one = wanted.after([line], one_by_one)
    bounds = [0, *sorted(cuts), len(lines)]
    for begin, end in itertools.pairwise(bounds):
        in_pieces = wanted.after(lines[begin:end], in_pieces)
    assert in_pieces == one_by_one


def marks(lines: Sequence[bytes]) -> list[ProgressMark]:
    data = b"".join(line + b"\n" for line in lines)
    block = LogBlock(file="a", offset=0, data=data, scope=Scope.APPLICATION, read_at=READ_AT)
    return [
        replace(mark, offset=0) if isinstance(mark, StepSeen) else mark
        for mark in ProgressReader().read(block, ReaderState())[1]
    ]


@pytest.mark.parametrize("name", sorted(HEALTHY_LOGS))
def test_what_travels_of_a_healthy_log_tells_of_the_same_progress(name: str) -> None:
    lines = HEALTHY_LOGS[name]
    sent = travelled(with_progress(), lines)
    assert marks(sent) == marks(lines)
    assert hits(sent, Scope.APPLICATION) == hits(lines, Scope.APPLICATION)
