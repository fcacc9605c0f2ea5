from __future__ import annotations

import re2

from relance.domain.encoding import decode, encode
from relance.domain.faults import Scope
from relance.rules.finders import finder
from relance.rules.needs import ways
from relance.rules.pushdown import NO_PASSAGE, WANTED_BYTES, Passage, Prefilter, prefilter
from tests.unit.rules.packs import pack, packaged, rule

CHATTER = [
    "gpu012:1000:2000 [3] NCCL INFO Channel 02/0 : 3[3] -> 4[4] via P2P/IPC/read",
    "gpu012:1000:2000 [3] NCCL INFO Connected all rings",
    '2026-11-29 12:00:00,123 INFO httpx: HTTP Request: POST http://10.0.3.7:8000/v1/generate "HTTP/1.1 200 OK" 0.12',
    "[rank3]: DEBUG dataloader prefetched shard 17 of /data/tokens/shard_00017.bin in 0.213 s queue=4",
    "2026-11-29 12:00:00 INFO workers: 32, shards: 4096, seed: 17",
]


def passes(wanted: Prefilter, line: str) -> bool:
    return re2.compile(wanted.lines).search(line) is not None


def of(*patterns: str, also: tuple[str, ...] = ()) -> Prefilter:
    rules = [rule(f"own-{at}", pattern) for at, pattern in enumerate(patterns)]
    return prefilter(pack(*rules), Scope.APPLICATION, also)


def test_the_packaged_rules_make_short_patterns_that_leave_chatter_where_it_is() -> None:
    for scope in (Scope.APPLICATION, Scope.KERNEL, Scope.SCHEDULER, Scope.DEVICE):
        wanted = prefilter(packaged(), scope)
        assert 0 < len(wanted.lines.encode()) <= WANTED_BYTES
        assert wanted.unfit == ()
    wanted = prefilter(packaged(), Scope.APPLICATION)
    assert [line for line in CHATTER if passes(wanted, line)] == []


def test_a_line_that_cleaning_would_change_passes() -> None:
    wanted = of("disk is full")
    assert passes(wanted, "disk \x1b[31mis full")
    assert passes(wanted, "disk\x00is full")
    assert passes(wanted, "10%\rdisk is full\r20%")
    assert not passes(wanted, "disk is empty")


def test_case_counts_for_nothing() -> None:
    assert passes(of("(?i)disk is full"), "DISK IS FULL")


def test_each_alternative_is_looked_for() -> None:
    wanted = of(r"(?:quench|plasma leak) in (?:coil|torus) \d+|\bcryostat warm\b")
    for line in ("quench in coil 3", "plasma leak in torus 9", "cryostat warm"):
        assert passes(wanted, line)
    assert not passes(wanted, "coil 3 is well")


def test_without_a_text_the_shape_is_looked_for() -> None:
    wanted = of(r"^[A-F]{4}-\d{3}: \S{2}$")
    assert passes(wanted, "ABCD-123: é")
    assert passes(wanted, "FFFF-999: ok")
    assert not passes(wanted, "abcd-123: ok")


def test_a_pattern_that_nobody_can_take_apart_has_all_lines_travel() -> None:
    wanted = of(r"\pN\Qa.b\E")
    assert wanted.lines == ""
    assert wanted.unfit == ("own-0",)
    assert of(r"[[:alpha:]]+ broke \p{Greek}").unfit == ()


def test_what_else_is_wanted_travels() -> None:
    wanted = of("disk is full", also=(r"tokamak shot \d+",))
    assert passes(wanted, "tokamak shot 12")


def test_texts_beyond_ascii_are_looked_for() -> None:
    wanted = of(r"\xe7\xa3\x81\xe7\x9b\x98\xe5\xb7\xb2\xe6\xbb\xa1", r"erreur de m\xc3\xa9moire")
    assert passes(wanted, "3: 磁盘已满")
    assert passes(wanted, "erreur de mémoire")
    assert not passes(wanted, "all is well")


def test_a_rough_pattern_takes_whole_characters_for_bytes() -> None:
    (way,) = ways(r"a.{3}b[^c]{2}d\xc3\xa9e")
    assert way.rough(100) == r"a.{0,3}b[^\x0ac]{0,2}d.?.?e"
    assert re2.compile(way.rough(100)).search("a日bé" + "déé") is None
    assert re2.compile(way.rough(100)).search("a日bédée") is not None


def test_a_traceback_is_a_passage_until_its_exception() -> None:
    wanted = of("disk is full")
    lines = [b"well", b"3: Traceback (most recent call last):", b'3:   File "a.py", line 3, in f', b"4: other"]
    assert [passes(wanted, line.decode()) for line in lines] == [False, True, False, False]
    assert wanted.opening(lines) == 1
    passage = wanted.after(lines)
    assert passage.is_open
    assert wanted.after([b"4: Other: no"], passage).is_open
    assert wanted.after([b"3: ValueError: x"], passage) == NO_PASSAGE


def test_a_row_of_a_failure_table_is_a_passage_of_five_lines() -> None:
    wanted = prefilter(packaged(), Scope.APPLICATION)
    row = b"[default0]:  host      : gpu017"
    assert passes(wanted, row.decode())
    assert wanted.opening([b"x", row]) == 1
    assert wanted.after([row, b"1", b"2", b"3", b"4"]).is_open
    assert not wanted.after([row, b"1", b"2", b"3", b"4", b"5"]).is_open
    assert prefilter(packaged(), Scope.KERNEL).opening([row]) is None


def test_a_passage_can_be_kept() -> None:
    wanted = of("disk is full")
    passage = wanted.after([b"Traceback (most recent call last):", b"    password = 'hunter2'"])
    kept = encode(passage)
    assert decode(Passage, kept) == passage
    assert "hunter2" not in str(kept)


def test_a_finder_keeps_that_case_does_not_count() -> None:
    assert finder(r"(?i)\d+ hello world").text.startswith("(?i)")
