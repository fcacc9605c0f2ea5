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
    rb"""^(?:<\d{1,3}>)?(?:(?:[A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d(?:\.\d{1,9})?
      | \d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)\ )?
    (?P<host>[A-Za-z0-9][\w.-]*)\ (?P<program>kernel|[A-Za-z][\w@./()-]*(?=\[\d+\]))(?:\[\d+\])?:\ """,
    re.VERBOSE,
)
_PROGRAMS: tuple[tuple[re.Pattern[bytes], Scope], ...] = (
    (re.compile(rb"(?:nv-fabricmanager|nvidia-fabricmanager|nv-hostengine|nvidia-imex|nvlsm)"), Scope.DEVICE),
    (re.compile(rb"(?:slurmd|slurmctld|slurmstepd|kubelet|containerd|dockerd|crio|k3s|pbs_mom)"), Scope.SCHEDULER),
)
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
    """The lines of one host, of the programs of one scope, or both; one that does not say goes with that before."""
    return partial(_part, chunks, None if host is None else host.encode("latin-1"), scope)


def _part(chunks: Chunks, host: bytes | None, scope: Scope | None) -> Iterator[bytes]:
    rest = b""
    wanted = True
    for chunk in chunks():
        lines = (rest + chunk).splitlines(keepends=True)
        rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        if len(rest) > 1 << 20:
            lines, rest = [*lines, rest], b""
        kept: list[bytes] = []
        for line in lines:
            wanted = _is_wanted(line, host, scope, wanted)
            kept.append(line if wanted else _blank(line))
        yield b"".join(kept)
    if rest:
        yield rest if _is_wanted(rest, host, scope, wanted) else _blank(rest)


def _is_wanted(line: bytes, host: bytes | None, scope: Scope | None, before: bool) -> bool:  # noqa: FBT001 - state
    told = _LINE.match(line)
    if told is None:
        return before
    if host is not None and told["host"] != host:
        return False
    return scope is None or (_scope_of_program(told["program"]) or Scope.KERNEL) is scope


def _scope_of(line: bytes) -> Scope | None:
    told = _LINE.match(line)
    return None if told is None else _scope_of_program(told["program"])


def _scope_of_program(program: bytes) -> Scope | None:
    return next((scope for pattern, scope in _PROGRAMS if pattern.match(program)), None)


def _blank(line: bytes) -> bytes:
    end = b"\n" if line.endswith(b"\n") else b""
    return b" " * (len(line) - len(end)) + end
