"""Answers of NCCL's RAS as text: what `ncclras`, or STATUS and VERBOSE STATUS on its port, print."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from relance.domain.log_times import dated
from relance.traces.documents import lines_of
from relance.traces.ras import MAX_QUERIES, Communicator, Event, Member, Process, RasAnswer
from relance.traces.signs import UnreadableTraceError

MAX_MEMBERS = 100_000
"""Lines about ranks that are kept of one answer."""

_BEGINS = re.compile(r"NCCL version \d|Job summary$")
_ROW = re.compile(r" *(\d+) +(\d+) +(\d+) +[\d-]+ +(\d+) +(\d+) +([A-Z]+) +([A-Z,]+)$")
_TOTALS = re.compile(r" *\d+ +\d+ +\d+ +\d+ +(\d+)$")
_COMMUNICATOR = re.compile(r"#(\d+)-(\d+) \(([0-9a-f]+)\) ([A-Z]+)")
_RANK = re.compile(r" *Rank (\d{1,7})\b(.*)")
_THE_RANKS = re.compile(r" *The missing ranks?: ([\d, ]+)")
_PROCESS = re.compile(r"(?:Process|process) (\d+) on node (\S+)(?: managing GPUs? (\d+))?")
_GPU = re.compile(r"GPU (\d+)(?: \([^)]*?(\d+)\))?")
_LAUNCHED = re.compile(
    r"(?:(\d+) ranks? ha(?:ve|s)|Rank \d+ has) (?:launched up to operation (\d+)|not launched any operations)"
)
_REPORTED = re.compile(r"(?:(\d+) ranks|Rank \d+) reported (.+?)(?: -- .*)?$")
_STATUS = re.compile(r"(?:(\d+) ranks have|Rank \d+ has) status ([A-Z]+)")
_EVENT = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\] (PEER_[A-Z_]+): (.*)")


@dataclass(kw_only=True)
class _Kind:
    """How many operations of one kind ranks launched: all counts that are told, and those of listed ranks."""

    told: set[int] = field(default_factory=set)
    ranks: dict[int, int] = field(default_factory=dict)


@dataclass(kw_only=True)
class _Section:
    """One communicator while its lines are read."""

    name: str
    size: int | None
    kind: str
    members: dict[int, Member] = field(default_factory=dict)
    kinds: list[_Kind] = field(default_factory=list)
    tells: list[str] = field(default_factory=list)
    count: int | None = None
    """The count of operations that the next ranks have."""
    error: str = ""


@dataclass(kw_only=True)
class _Reading:
    """One answer while its lines are read."""

    line: int
    at: datetime | None = None
    size: int | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    sections: list[_Section] = field(default_factory=list)
    dead: list[Process] = field(default_factory=list)
    unresponsive: list[Process] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    part: str = ""
    rows: int = 0
    kept: int = 0


def read_ras_text(data: bytes, file: str) -> tuple[RasAnswer, ...]:
    """The answers in a text.

    Raises:
        UnreadableTraceError: It holds no answer of RAS.
    """
    readings: list[_Reading] = []
    previous = ""
    for number, line in lines_of(data):
        begins = _BEGINS.match(line) is not None and not (line.startswith("Job") and previous.startswith("NCCL"))
        if begins and len(readings) < MAX_QUERIES:
            readings.append(_Reading(line=number))
        if line.startswith(("NCCL version", "Job summary")):
            previous = line[:4]
        elif line.startswith("Communicators"):
            previous = ""
        if not readings and (line.startswith("Communicators") or _EVENT.match(line) or _COMMUNICATOR.match(line)):
            readings.append(_Reading(line=number))
        if readings and readings[-1].kept < MAX_MEMBERS:
            _take(readings[-1], line)
    answers = tuple(_answer(each, file) for each in readings if each.rows or each.sections or each.events or each.dead)
    if not answers:
        raise UnreadableTraceError(
            "The file is no answer of NCCL's RAS: it has no communicators. Ask with `ncclras -v`, NCCL 2.24 or newer."
        )
    return answers


def _take(reading: _Reading, line: str) -> None:
    stripped = line.strip()
    if not stripped:
        reading.part = reading.part if reading.sections else ""
        return
    event = _EVENT.match(stripped)
    section = _COMMUNICATOR.match(stripped)
    if event is not None:
        process = _process(event[3])
        if process is not None:
            reading.events.append(Event(name=event[2], process=process, at=dated(event[1].encode())))
            reading.kept += 1
    elif section is not None:
        size = reading.sizes.get(section[1])
        reading.sections.append(_Section(name=section[3], size=size, kind=section[4]))
        reading.part = "communicator"
    elif stripped in {"INCOMPLETE", "DEAD", "TIMEOUT", "Errors", "Warnings"}:
        reading.part = stripped
    elif reading.part in {"INCOMPLETE", "DEAD"}:
        process = _process(stripped)
        if process is not None:
            (reading.dead if reading.part == "DEAD" else reading.unresponsive).append(process)
            reading.kept += 1
    elif reading.part == "communicator":
        _take_member(reading, reading.sections[-1], stripped)
    else:
        _take_summary(reading, line)


def _take_summary(reading: _Reading, line: str) -> None:
    row, totals = _ROW.match(line), _TOTALS.match(line)
    if row is not None:
        reading.sizes[row[1]] = int(row[4][:9])
        reading.rows += 1
    elif totals is not None:
        reading.size = int(totals[1][:9])
    elif reading.at is None:
        reading.at = dated(line.encode())


def _take_member(reading: _Reading, section: _Section, line: str) -> None:
    launched, reported, status = _LAUNCHED.match(line), _REPORTED.match(line), _STATUS.match(line)
    rank = _RANK.match(line)
    missing = _THE_RANKS.match(line)
    if line.startswith("Communicator ranks have different"):
        section.count, section.error = None, ""
        section.tells.append(line)
        section.kinds.append(_Kind())
    if launched is not None:
        section.count, section.error = int((launched[2] or "0")[:15]), ""
        section.tells.append(line)
        section.kinds = section.kinds or [_Kind()]
        section.kinds[-1].told.add(section.count)
    elif reported is not None:
        section.count, section.error = None, reported[2]
    elif status is not None:
        section.count, section.error = None, "aborted" if status[2] == "ABORT" else ""
        section.tells.append(line)
    if missing is not None:
        for each in missing[1].split(","):
            _add(reading, section, int(each.strip()[:7] or "0"), None)
    elif rank is not None:
        section.tells.append(line)
        _add(reading, section, int(rank[1]), _process(rank[2]))


def _add(reading: _Reading, section: _Section, rank: int, process: Process | None) -> None:
    incomplete = section.kind == "INCOMPLETE"
    error = section.error if section.kind == "ERROR" or section.error == "aborted" else ""
    section.members[rank] = Member(rank=rank, process=process, error=error, missing=incomplete, unresponsive=incomplete)
    if section.count is not None:
        section.kinds[-1].ranks[rank] = section.count
    reading.kept += 1


def _process(line: str) -> Process | None:
    found = _PROCESS.search(line)
    if found is None:
        return None
    gpu = _GPU.search(line)
    told = found[3] or (None if gpu is None else gpu[2] or gpu[1])
    return Process(host=found[2][:200], pid=int(found[1][:12]), gpu=None if told is None else int(told[:6]))


def _answer(reading: _Reading, file: str) -> RasAnswer:
    dead = {(each.host, each.pid) for each in reading.dead}
    communicators = []
    for section in reading.sections:
        members = tuple(
            Member(rank=each.rank, process=each.process, error=each.error, missing=each.missing,
                   unresponsive=each.unresponsive and not _is_dead(each, dead, reading),
                   dead=_is_dead(each, dead, reading))
            for each in section.members.values()
        )  # fmt: skip
        communicators.append(
            Communicator(
                name=section.name,
                size=section.size,
                members=members,
                incomplete=section.kind == "INCOMPLETE" and not members,
                mismatch=section.kind == "MISMATCH",
                behind=_behind(section),
                tells=tuple(section.tells),
            )
        )
    return RasAnswer(
        file=file,
        line=reading.line,
        at=reading.at,
        size=reading.size,
        tells=bool(reading.rows or communicators or reading.dead or reading.unresponsive),
        communicators=tuple(communicators),
        dead=tuple(reading.dead),
        unresponsive=tuple(each for each in reading.unresponsive if (each.host, each.pid) not in dead),
        events=tuple(reading.events),
    )


def _is_dead(member: Member, dead: set[tuple[str, int | None]], reading: _Reading) -> bool:
    """Old texts name missing ranks without a process: all are dead where all missing processes are."""
    if not member.missing:
        return False
    if member.process is not None:
        return (member.process.host, member.process.pid) in dead
    return bool(dead) and not reading.unresponsive


def _behind(section: _Section) -> dict[int, int]:
    """By how many operations listed ranks are behind the most that any rank launched."""
    found: dict[int, int] = {}
    for kind in section.kinds:
        for rank, count in kind.ranks.items():
            found[rank] = found.get(rank, 0) + max(kind.told) - count
    return {rank: lag for rank, lag in found.items() if lag}
