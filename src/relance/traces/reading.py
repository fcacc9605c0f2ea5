"""Traces told apart by name and first bytes, read, and put together for one job."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from relance.traces.documents import begins_as_json
from relance.traces.dumps import Dump, read_dump
from relance.traces.elastic import read_error, signs_of_errors
from relance.traces.pickles import is_pickle
from relance.traces.ras import RasAnswer, read_ras_json
from relance.traces.ras_signs import rank_hosts_of, signs_of_answers
from relance.traces.ras_text import read_ras_text
from relance.traces.recorder import signs_of_dumps
from relance.traces.signs import (
    RankHost,
    TraceFile,
    TraceKind,
    TraceReport,
    TraceSign,
    Unreadable,
    UnreadableTraceError,
    WorkerError,
)
from relance.traces.stack_signs import signs_of_stacks
from relance.traces.stacks import Stack, read_stacks

HEAD_BYTES = 8192
"""So many first bytes tell what a file is."""

_PICKLED = re.compile(rb"pg_config|pg_status|entries|record_id|profiling_name|collective_seq_id")
_DUMP_KEYS = re.compile(rb'"(?:pg_config|pg_status|collective_seq_id|profiling_name|p2p_seq_id)"\s*:')
_RAS_KEYS = re.compile(rb'"communicators(?:_count)?"\s*:|"event"\s*:\s*"PEER_')
_ERROR_BEGINS = re.compile(rb'\s*\{\s*"message"\s*:\s*\{\s*"(?:message|extraInfo|errorCode)"')
_STACK_KEYS = re.compile(rb'"(?:owns_gil|os_thread_id)"\s*:')
_RAS_TEXT = re.compile(
    rb"^Job summary\r?\n=+|^RAS Monitor Mode|^Group +Comms +Nodes +Ranks"
    rb"|^\[\d{4}-\d\d-\d\d [\d:]{8}\] PEER_[A-Z_]+: Process \d",
    re.MULTILINE,
)
_SPY_TEXT = re.compile(rb"^(?:[^\n]{0,60}: )?Process \d+: [^\n]*\r?\n(?:[^\n]{0,60}: )?Python v\d", re.MULTILINE)
_SPY_THREAD = re.compile(rb'^Thread \S+ \((?:active|idle)[^)]*\)(?:: "|\s*$)', re.MULTILINE)
_HANDLER_THREAD = re.compile(
    rb"(?:(?:Current thread|Thread) 0x[0-9a-fA-F]+[^\n]*|^Stack) \(most recent call first\)", re.MULTILINE
)
_HANDLER_LINE = (
    rb"Timeout \(\d+:\d\d:\d\d[^\n]*|(?:Current thread|Thread) 0x[^\n]*|Stack \([^\n]*|  File \"[^\n]*|  \.{3}|"
)
_HANDLER_ONLY = re.compile(rb"(?:(?:" + _HANDLER_LINE + rb")\r?\n)*+[^\n]*\Z")
_EARLY_BYTES = 400
"""So far down a file that is a trace says what it is; a job's log may hold the same words further down."""
_RAS_NAME = re.compile(r"(?:^|[^a-z])(?:nccl)?ras(?:[^a-z]|$)", re.IGNORECASE)
_STACK_NAME = re.compile(r"py-?spy|stack|faulthandler|backtrace", re.IGNORECASE)
_TRACEBACK = re.compile(rb"Traceback \(most recent call (?:first|last)\)")


def looks_like(name: str, head: bytes) -> TraceKind | None:
    """What kind of trace a file is, by its name and first bytes (`HEAD_BYTES` are enough); None for any other file.

    A job's log may hold stacks and answers of RAS, too; it is no trace for that.
    """
    head = head[:HEAD_BYTES]
    if is_pickle(head[:3]):
        return TraceKind.FLIGHT_RECORDER if _PICKLED.search(head) else None
    if begins_as_json(head):
        for pattern, kind in (
            (_RAS_KEYS, TraceKind.NCCL_RAS),
            (_DUMP_KEYS, TraceKind.FLIGHT_RECORDER),
            (_STACK_KEYS, TraceKind.STACKS),
        ):
            if pattern.search(head):
                return kind
        return TraceKind.ELASTIC_ERROR if _ERROR_BEGINS.match(head) else None
    return _of_text(name.rpartition("/")[2], head)


def _of_text(base: str, head: bytes) -> TraceKind | None:
    """What kind of trace a text is: it says so at its beginning, or its name and its contents agree."""
    if _RAS_TEXT.search(head if _RAS_NAME.search(base) else head[:_EARLY_BYTES]):
        return TraceKind.NCCL_RAS
    named = _STACK_NAME.search(base) is not None
    if _SPY_TEXT.search(head if named else head[:_EARLY_BYTES]):
        return TraceKind.STACKS
    handler = _HANDLER_THREAD.search(head) is not None
    if named and (handler or _SPY_THREAD.search(head) or _TRACEBACK.search(head)):
        return TraceKind.STACKS
    return TraceKind.STACKS if handler and _HANDLER_ONLY.match(head) else None


def parse(file: TraceFile) -> Dump | tuple[RasAnswer, ...] | tuple[Stack, ...] | WorkerError:
    """What one file holds.

    Raises:
        UnreadableTraceError: It cannot be used. Says why, and what to do about it.
    """
    match looks_like(file.name, file.data[:HEAD_BYTES]):
        case TraceKind.FLIGHT_RECORDER:
            return read_dump(file)
        case TraceKind.NCCL_RAS:
            reads = read_ras_json if begins_as_json(file.data) else read_ras_text
            return reads(file.data, file.name)
        case TraceKind.STACKS:
            return read_stacks(file)
        case TraceKind.ELASTIC_ERROR:
            return read_error(file)
        case None:
            raise UnreadableTraceError(
                "The file is no trace that Relance knows. It reads flight-recorder dumps, answers of ncclras, "
                "stacks of py-spy and faulthandler, and error files of torchelastic."
            )


def read(files: Iterable[TraceFile]) -> TraceReport:
    """What all traces of a job say together; files that cannot be used are listed, and stop nothing."""
    dumps: list[Dump] = []
    answers: list[RasAnswer] = []
    stacks: list[Stack] = []
    errors: list[WorkerError] = []
    unreadable: list[Unreadable] = []
    for file in sorted(files, key=lambda file: file.name):
        try:
            found = parse(file)
        except UnreadableTraceError as error:
            unreadable.append(Unreadable(file=file.name, why=str(error)))
            continue
        if isinstance(found, Dump):
            dumps.append(found)
        elif isinstance(found, WorkerError):
            errors.append(found)
        else:
            answers += [each for each in found if isinstance(each, RasAnswer)]
            stacks += [each for each in found if isinstance(each, Stack)]
    hosts = rank_hosts_of(answers)
    signs = (
        *signs_of_dumps(dumps), *signs_of_answers(answers), *signs_of_stacks(stacks), *signs_of_errors(errors),
    )  # fmt: skip
    return TraceReport(
        signs=tuple(sorted(_placed(signs, hosts), key=lambda sign: -sign.confidence)),
        rank_hosts=hosts,
        errors=tuple(errors),
        unreadable=tuple(unreadable),
    )


def _placed(signs: Iterable[TraceSign], hosts: Iterable[RankHost]) -> list[TraceSign]:
    """The signs with host and GPU of their first rank, where RAS tells them and the sign does not."""
    by_rank = {each.rank: each for each in hosts}
    placed = []
    for sign in signs:
        known = by_rank.get(sign.ranks[0]) if sign.ranks and sign.host is None else None
        placed.append(sign if known is None else replace(sign, host=known.host, gpu=known.gpu))
    return placed
