"""What scanning finds does not depend on how it is done: by which engine, or by Python, in one block or in many."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relance.domain.faults import Scope
from relance.domain.findings import RuleHit
from relance.domain.observations import LogBlock
from relance.rules.engines import Re2Engine
from relance.rules.hyperscans import HyperscanEngine
from relance.rules.patterns import Pattern
from relance.rules.scanning import Scanner, ScanState
from tests.unit.rules.packs import packaged

RULES = packaged()
PATTERNS = [Pattern(text=rule.pattern, ignore_case=rule.ignore_case) for rule in RULES.rules]
EXAMPLES = sorted({line for rule in RULES.rules for text in rule.hit + rule.miss for line in text.splitlines() if line})


@cache
def engines() -> tuple[Re2Engine, HyperscanEngine]:
    """All rules in each engine: made when a test wants them, not by whoever only collects the tests."""
    return Re2Engine(PATTERNS), HyperscanEngine(PATTERNS)


@cache
def python() -> list[re.Pattern[bytes]]:
    return [re.compile(pattern.source) for pattern in PATTERNS]


@cache
def scanner(name: str = "hyperscan") -> Scanner:
    return Scanner(RULES, engine=Re2Engine if name == "re2" else HyperscanEngine)


examples = st.sampled_from([line.encode() for line in EXAMPLES])
labels = st.sampled_from([b"", b"3: ", b"[rank12]: ", b"[1,4]<stderr>:", b"2026-05-02T11:12:00.5Z: "])
# \x0b is a space to Python and none to RE2; \r and escape codes are for the cleaning that comes before an engine
odd_bytes = st.binary(max_size=30).map(lambda data: bytes(byte for byte in data if byte not in b"\n\r\x0b\x1b"))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """An example, whole or cut, maybe with another one or with noise in it."""
    line = draw(examples)
    match draw(st.integers(0, 4)):
        case 0:
            begin = draw(st.integers(0, len(line)))
            return line[begin : draw(st.integers(begin, len(line)))]
        case 1:
            at = draw(st.integers(0, len(line)))
            return line[:at] + draw(odd_bytes) + line[at:]
        case 2:
            return line + b" " + draw(examples)
        case 3:
            return line.swapcase()
        case _:
            return line


lines = st.builds(lambda label, line: label + line, labels, st.one_of(damaged(), odd_bytes))


@given(st.lists(lines, max_size=6))
@settings(max_examples=40, deadline=None)
def test_the_engines_find_what_python_finds_in_each_line_alone(text: list[bytes]) -> None:
    expected, start = [], 0
    for line in text:
        expected += [
            (start, start + len(line), at) for at, pattern in enumerate(python()) if line and pattern.search(line)
        ]
        start += len(line) + 1
    for engine in engines():
        assert engine.find(b"".join(line + b"\n" for line in text)) == expected


def test_the_engines_find_the_same_in_a_storm() -> None:
    storm = b"".join(b"[rank%d]: %s\n" % (number % 8, line.encode()) for number, line in enumerate(EXAMPLES[::60] * 3))
    assert engines()[1].find(storm) == engines()[0].find(storm)


def test_where_blocks_are_cut_changes_nothing() -> None:
    text = b"".join(b"[rank%d]: %s\n" % (number % 8, line.encode()) for number, line in enumerate(EXAMPLES))
    found = engines()[1].find(text)
    at = 0
    apart = []
    while at < len(text):  # blocks of about 4 KiB, cut at the end of a line
        end = text.find(b"\n", min(at + 4096, len(text) - 1)) + 1
        apart += [(start + at, stop + at, index) for start, stop, index in engines()[1].find(text[at:end])]
        at = end
    assert apart == found


def test_every_pair_of_an_example_and_a_rule_is_what_python_says() -> None:
    line_starts, text = [], b""
    for line in EXAMPLES[::7]:
        line_starts.append(len(text))
        text += line.encode() + b"\n"
    expected = [
        (start, text.index(b"\n", start), at)
        for start in line_starts
        for at, pattern in enumerate(python())
        if pattern.search(text, start, text.index(b"\n", start))
    ]
    assert engines()[1].find(text) == expected


@pytest.mark.parametrize("scope", list(Scope))
def test_every_rule_finds_its_own_examples_among_all_others_of_its_logs(scope: Scope) -> None:
    rules = [rule for rule in RULES.rules if scope in rule.scopes and not rule.traceback]
    patterns = [Pattern(text=rule.pattern, ignore_case=rule.ignore_case) for rule in rules]
    by_python = [re.compile(pattern.source) for pattern in patterns]
    text, expected = b"no line is the first of its block\n", set()
    for label in (b"", b"[rank4]: "):
        for at, rule in enumerate(rules):
            for line in (label + each.encode() for example in rule.hit for each in example.splitlines() if each):
                if by_python[at].search(line):
                    expected.add((len(text), at))
                text += line + b"\n"
    found = {(start, index) for start, _, index in HyperscanEngine(patterns).find(text)}
    assert sorted((rules[at].id, text[start : start + 120]) for start, at in expected - found) == []


noise = st.sampled_from(
    [
        b"",
        b"\r",
        b"\x00\x00",
        b"\x1b[31m",
        b"\x1b[0m",
        b"\xff\xfe",
        "训练失败 磁盘已满".encode(),
        b" 10%|#\r 20%|##",
        b"\n",
        b"\r\n",
    ]
)
pieces_of_text = st.lists(st.one_of(noise, examples, odd_bytes, st.just(b"x" * 5000)), max_size=12).map(b"".join)


@given(pieces_of_text)
@settings(max_examples=60, deadline=None)
def test_whatever_bytes_come_both_engines_give_the_same_hits(text: bytes) -> None:
    assert _scan([text]) == _scan([text], engine="re2")


traceback_lines = st.sampled_from(
    [
        b"Traceback (most recent call last):",
        b'  File "/repo/train.py", line 7, in main',
        b'  File "/repo/model.py", line 40, in step',
        b'  File "/venv/lib/python3.12/site-packages/torch/x.py", line 9, in f',
        b"    step(batch)",
        b"During handling of the above exception, another exception occurred:",
        b"",
        b"KeyError: 'x'",
        b"acme.Broken: shard",
        b"  exitcode  : -9 (pid: 7)",
        b"  host      : cn07",
        b"  rank      : 5 (local_rank: 1)",
        b"INFO all is well",
    ]
)
told = st.builds(
    lambda label, line: label + line + b"\n", st.sampled_from([b"", b"0: ", b"[rank1]: "]), traceback_lines | damaged()
)


@given(st.lists(told, min_size=1, max_size=30), st.sets(st.integers(1, 29)))
@settings(max_examples=80, deadline=None)
def test_hits_do_not_depend_on_the_bounds_of_blocks(text: list[bytes], cuts: set[int]) -> None:
    whole, whole_counts = _scan([b"".join(text)])
    bounds = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [b"".join(text[begin:end]) for begin, end in itertools.pairwise(bounds)]
    parts, part_counts = _scan(pieces)
    assert part_counts == whole_counts
    assert [hit for hit in whole if hit not in parts] == []


@given(st.lists(examples, min_size=1, max_size=6), st.integers(260, 700))
@settings(max_examples=60, deadline=None)
def test_a_long_line_in_overlapping_pieces_gives_each_rule_once(parts: list[bytes], size: int) -> None:
    line = b"> " + b" and then some more of the same ".join(parts) + b"\n"
    _, whole = _scan([line])
    overlap = 250
    pieces = [line[max(0, at - overlap) : at + size] for at in range(0, len(line), size)]
    _, found = _scan(pieces, overlap=overlap)
    in_reach = {rule.id for rule in RULES.rules if not (rule.fallback or rule.table or "$" in rule.pattern)}
    short = {name for name in whole if name in in_reach and _reach(name, line) <= overlap}
    assert {name: found.get(name) for name in short} == dict.fromkeys(short, 1)
    assert {name: count for name, count in found.items() if count > 1} == {}


def _reach(rule_id: str, line: bytes) -> int:
    rule = RULES.by_id[rule_id]
    match = re.compile(Pattern(text=rule.pattern, ignore_case=rule.ignore_case).source).search(line)
    return match.end() - match.start() if match else 0


def _scan(pieces: list[bytes], overlap: int = 0, engine: str = "hyperscan") -> tuple[list[RuleHit], dict[str, int]]:
    state, offset = ScanState(), 0
    hits: list[RuleHit] = []
    counts: dict[str, int] = {}
    for number, piece in enumerate(pieces):
        back = overlap if number and offset else 0
        back = min(back, offset)
        block = LogBlock(
            file="job.log",
            offset=offset - back,
            data=piece,
            scope=Scope.APPLICATION,
            read_at=datetime(2026, 6, 1, tzinfo=UTC),
            overlap=back,
        )
        state, result = scanner(engine).scan(block, state)
        offset += len(piece) - back
        hits += result.hits
        for rule, count in result.counts.items():
            counts[rule] = counts.get(rule, 0) + count
    return hits, counts
