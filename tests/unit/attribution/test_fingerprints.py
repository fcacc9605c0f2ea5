from __future__ import annotations

from dataclasses import replace

import pytest

from relance.attribution import attribute
from relance.domain.faults import Remedy
from relance.domain.findings import RuleHit
from tests.unit.attribution.cases import case, hit, key_error, killed, xid79


def mark(*hits: RuleHit) -> str:
    return attribute(case(*hits)).fingerprint


TRACE = """[rank3]: Traceback (most recent call last):
[rank3]:   File "/scratch/a1/repo/train.py", line 41, in read
[rank3]:     raise DataError(path)
[rank3]:   File "/usr/lib/python3.11/site-packages/torch/utils/data.py", line 7, in fetch
[rank3]: DataError: record 17 of /scratch/a1/data/shard_004.bin at 0x7f00 on n2 is damaged (2026-05-02 11:00:00)"""
BUG = hit("python_exception", 100, rank=3, excerpt=TRACE)

SAME: dict[str, str] = {
    "another rank": TRACE.replace("rank3", "rank6"),
    "another node": TRACE.replace("on n2", "on n4"),
    "another number": TRACE.replace("record 17", "record 9001"),
    "another address": TRACE.replace("0x7f00", "0x55ab"),
    "another time": TRACE.replace("2026-05-02 11:00:00", "2026-05-03 04:11:59"),
    "another folder": TRACE.replace("/scratch/a1/", "/scratch/b2/tmp/"),
    "another library version below it": TRACE.replace("line 7, in fetch", "line 9, in fetch"),
}
OTHER: dict[str, str] = {
    "another error": TRACE.replace("DataError: record", "KeyError: record"),
    "another place in the job's own code": TRACE.replace("line 41", "line 52"),
    "another function": TRACE.replace("in read", "in write"),
    "other words": TRACE.replace("is damaged", "is missing"),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_fault_has_the_same_fingerprint_with(name: str) -> None:
    assert mark(replace(BUG, excerpt=SAME[name])) == mark(BUG)


@pytest.mark.parametrize("name", OTHER)
def test_it_is_another_fault_with(name: str) -> None:
    assert mark(replace(BUG, excerpt=OTHER[name])) != mark(BUG)


def test_a_symptom_of_its_own_is_another_fault() -> None:
    assert mark(replace(BUG, symptom="assertion")) != mark(BUG)


def test_a_frame_and_an_exception_told_by_the_scanner_count_as_well() -> None:
    told = key_error(100)
    elsewhere = replace(told, captures={**told.captures, "frame": "/tmp/x/train.py:41 in read"})
    assert mark(told) == mark(elsewhere)
    assert mark(told) != mark(replace(told, captures={**told.captures, "frame": "/home/ada/train.py:42 in read"}))


def test_hardware_is_the_same_fault_on_another_node_and_device() -> None:
    other = xid79(140, node="n4", device="0000:9b:00", excerpt=xid79(1).excerpt.replace("n2", "n4").replace("5e", "9b"))
    assert mark(xid79(100)) == mark(other)


def test_a_kill_is_the_same_fault_on_another_rank() -> None:
    assert mark(killed(100, 3, "n2")) == mark(killed(150, 6, "n4"))
    assert attribute(case(killed(100))).remedy is Remedy.RESTART
