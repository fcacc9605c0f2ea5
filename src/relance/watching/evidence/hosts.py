"""Logs of many writers taken apart: syslog of several hosts, journals of a host's kernel and daemons.

What is left out of a part is blanked, not cut: lines keep their numbers and places.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from relance.domain.faults import Scope
from relance.watching.evidence.naming import known_node

MOST_HOSTS = 32
"""A file of more hosts is read for the first of them; each is a pass of its own."""
_LINE = re.compile(
    rb"""(?:<\d{1,3}>)?(?:(?:[A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d(?:\.\d{1,9})?
      | \d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)\ )?
    (?P<host>[A-Za-z0-9][\w.-]*)\ (?P<program>kernel|[A-Za-z][\w@./()-]*(?=\[\d+\]))(?:\[\d+\])?:\ """,
    re.VERBOSE,
)
_PROGRAMS: tuple[tuple[re.Pattern[bytes], Scope], ...] = (
    (re.compile(rb"(?:nv-fabricmanager|nvidia-fabricmanager|nv-hostengine|nvidia-imex|nvlsm)"), Scope.DEVICE),
    (re.compile(rb"(?:slurmd|slurmctld|slurmstepd|kubelet|containerd|dockerd|crio|k3s|pbs_mom)"), Scope.SCHEDULER),
)
_DAEMONS = tuple((re.compile(rb" " + pattern.pattern + rb"[^\n ]{0,40}: "), scope) for pattern, scope in _PROGRAMS)
_BLANKS = bytes(each if each in b"\r\n" else 32 for each in range(256))
_LONGEST_LINE = 1 << 20
Chunks = Callable[[], Iterable[bytes]]


def hosts_of(head: bytes) -> Counter[str]:
    """How many lines of a log's beginning each host wrote, where lines say so."""
    found: Counter[str] = Counter()
    for line in head.splitlines():
        told = _LINE.match(line)
        if told:
            found[told["host"].decode("latin-1")] += 1
    return found


def scopes_of(head: bytes) -> frozenset[Scope]:
    """The scopes of the programs that wrote a journal's beginning."""
    return frozenset(scope for line in head.splitlines() if (scope := _scope_of(line)) is not None)


def host_in(head: bytes, nodes: tuple[str, ...]) -> str | None:
    """The only host that a log's lines name, as the attempt calls it; None if there is none, or several."""
    found = hosts_of(head)
    if len(found) != 1:
        return None
    (host,) = found
    return known_node(host, nodes) or host


def part(chunks: Chunks, *, host: str | None = None, scope: Scope | None = None) -> Chunks:
    """The lines of one host, of the programs of one scope, or both.

    A line that names neither goes with the kernel's where hosts are not told apart, else nowhere.
    """
    return partial(_part, chunks, None if host is None else host.encode("latin-1"), scope)


def _part(chunks: Chunks, host: bytes | None, scope: Scope | None) -> Iterator[bytes]:
    for data in _whole_lines(chunks()):
        kept = bytearray(data.translate(_BLANKS)) if host is not None else bytearray(data)
        if host is not None:
            for start, end in _lines_with(host + b" ", data):
                told = _LINE.match(data, start)
                if told is not None and told["host"] == host:
                    kept[start:end] = data[start:end]
        if scope is not None:
            kept = _of_scope(kept, data, scope)
        yield bytes(kept)


def _of_scope(kept: bytearray, data: bytes, scope: Scope) -> bytearray:
    """The lines of one scope's programs; the kernel's are all that no daemon wrote."""
    result = kept if scope is Scope.KERNEL else bytearray(data.translate(_BLANKS))
    for pattern, other in _DAEMONS:
        for found in pattern.finditer(data):
            start = data.rfind(b"\n", 0, found.start()) + 1
            end = data.find(b"\n", found.end())
            end = len(data) if end < 0 else end
            told = _LINE.match(data, start)
            if told is None or _scope_of_program(told["program"]) is not other:
                continue
            if scope is Scope.KERNEL:
                result[start:end] = b" " * (end - start)
            elif other is scope:
                result[start:end] = kept[start:end]
    return result


def _lines_with(text: bytes, data: bytes) -> Iterator[tuple[int, int]]:
    """Where the lines begin and end that hold a text."""
    at = data.find(text)
    while at >= 0:
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield data.rfind(b"\n", 0, at) + 1, end
        at = data.find(text, end)


def _whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        end = data.rfind(b"\n") + 1
        if end == 0 and len(data) > _LONGEST_LINE:
            end = len(data)
        rest = data[end:]
        if end:
            yield data[:end]
    if rest:
        yield rest


def _scope_of(line: bytes) -> Scope | None:
    told = _LINE.match(line)
    return None if told is None else _scope_of_program(told["program"])


def _scope_of_program(program: bytes) -> Scope | None:
    return next((scope for pattern, scope in _PROGRAMS if pattern.match(program)), None)
