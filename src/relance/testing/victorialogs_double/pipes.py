"""LogsQL's pipes, and whole queries: filters first, then what is done with the rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from relance.testing.victorialogs_double.filters import Filter, Parser
from relance.testing.victorialogs_double.shelves import Kept
from relance.testing.victorialogs_double.tokens import tokens_of

Rows = list[dict[str, str]]
Pipe = Callable[[Rows], Rows]


@dataclass(frozen=True, slots=True)
class Query:
    """A query: which rows, and the pipes; `stats` are the names of results and the fields they are grouped by."""

    where: Filter
    pipes: tuple[Pipe, ...]
    is_sorted: bool
    by: tuple[str, ...] = ()
    stats: tuple[str, ...] = ()

    def rows(self, kept: Iterable[Kept]) -> Rows:
        """What comes of rows, in the order of their streams: nobody may count on one that was not asked for."""
        found = [dict(row.fields) for row in kept if self.where(row.fields)]
        found.sort(key=itemgetter("_stream"), reverse=True)
        for pipe in self.pipes:
            found = pipe(found)
        return found


def parsed(query: str, labels: Mapping[str, Mapping[str, str]]) -> Query:
    """A query; `labels` are those of each stream by its text. Raises QueryError."""
    reader = Parser(query, tokens_of(query), lambda row: labels.get(row["_stream"], {}))
    where = reader.any_of()
    pipes: list[Pipe] = []
    is_sorted = False
    by: tuple[str, ...] = ()
    stats: tuple[str, ...] = ()
    while reader.is_next("|"):
        reader.take()
        name = reader.now.text
        if name in _PIPES and reader.now.kind == "word":
            reader.take()
            pipes.append(_PIPES[name](reader))
            is_sorted = is_sorted or name == "sort"
        elif name == "stats":
            reader.take()
            by, stats, pipe = _stats(reader)
            pipes.append(pipe)
        else:
            pipes.append(_where(reader.any_of()))  # what is no pipe is one more filter
    if reader.now.kind != "end":
        raise reader.error(f'unexpected token "{reader.now.text}"')
    return Query(where, tuple(pipes), is_sorted, by, stats)


def _where(wanted: Filter) -> Pipe:
    return lambda rows: [row for row in rows if wanted(row)]


def _sort(reader: Parser) -> Pipe:
    if reader.is_next("by"):
        reader.take()
    reader.expect("(")
    name = reader.take().text
    reader.expect(")")
    is_falling = reader.is_next("desc")
    if is_falling:
        reader.take()
    return lambda rows: sorted(rows, key=lambda row: _comparable(row.get(name, "")), reverse=is_falling)


def _comparable(text: str) -> str:
    """Times with zeros left out in the order of time."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z", text)
    return text if found is None else f"{found[1]}.{(found[2] or '').ljust(9, '0')}"


def _limit(reader: Parser) -> Pipe:
    count = int(reader.take().text)
    return lambda rows: rows[:count]


def _fields(reader: Parser) -> Pipe:
    names = [reader.take().text]
    while reader.is_next(","):
        reader.take()
        names.append(reader.take().text)
    return lambda rows: [{name: row[name] for name in names if row.get(name)} for row in rows]


def _extract(reader: Parser) -> Pipe:
    parts = re.split(r"<(\w+)>", reader.take().text)
    pattern = "".join(re.escape(part) if at % 2 == 0 else f"(?P<{part}>.*?)" for at, part in enumerate(parts))
    search = re.compile(pattern).search

    def pipe(rows: Rows) -> Rows:
        return [{**row, **(found.groupdict() if (found := search(row.get("_msg", ""))) else {})} for row in rows]

    return pipe


_PIPES: dict[str, Callable[[Parser], Pipe]] = {
    "sort": _sort,
    "limit": _limit,
    "head": _limit,
    "fields": _fields,
    "extract": _extract,
}


def _stats(reader: Parser) -> tuple[tuple[str, ...], tuple[str, ...], Pipe]:
    by: list[str] = []
    if reader.is_next("by"):
        reader.take()
        reader.expect("(")
        while not reader.is_next(")"):
            by.append(reader.take().text)
            if reader.is_next(","):
                reader.take()
        reader.take()
    results: list[tuple[str, str, str]] = []
    while reader.now.kind == "word":
        function = reader.take().text
        reader.expect("(")
        of = "" if reader.is_next(")") else reader.take().text
        reader.expect(")")
        name = reader.take().text if reader.now.kind == "word" else f"{function}({of or '*'})"
        results.append((function, of, name))
        if reader.is_next(","):
            reader.take()
    return tuple(by), tuple(name for *_, name in results), lambda rows: _grouped(rows, by, results)


def _grouped(rows: Rows, by: Sequence[str], results: Sequence[tuple[str, str, str]]) -> Rows:
    groups: dict[tuple[str, ...], Rows] = {} if by else {(): []}
    for row in rows:
        groups.setdefault(tuple(row.get(name, "") for name in by), []).append(row)
    found = []
    for key, members in groups.items():
        values = {name: _value(function, of, members) for function, of, name in results}
        found.append({**dict(zip(by, key, strict=True)), **values})
    return found


def _value(function: str, of: str, rows: Rows) -> str:
    if function == "count":
        return str(len(rows))
    values = sorted((row.get(of, "") for row in rows), key=_comparable)
    return (values[-1] if function == "max" else values[0]) if values else ""
