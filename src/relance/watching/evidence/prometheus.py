"""Prometheus' text format, of one scrape or many, and the JSON of its query API, to samples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from relance.domain.log_times import dated
from relance.rules.metric_rules import Point
from relance.watching.evidence import values
from relance.watching.evidence.samples import Labels, Samples, node_label

MOST_LINE_BYTES = 64 * 1024
_SAMPLE = re.compile(
    rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})?[ \t]+([^ \t]+)(?:[ \t]+(-?\d{1,17}(?:\.\d{1,9})?))?[ \t]*(?:#.*)?$"
)
_NAME = re.compile(rb"[a-zA-Z_:][\w:]*\Z")
_LABEL = re.compile(r'([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\\n]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_COMMENT_EPOCH = re.compile(rb"\b(1[4-9]\d{8}|[2-3]\d{9})(?:\.\d{1,9})?\b")
_MILLISECONDS = 100_000_000_000.0


def read_text(name: str, chunks: Iterable[bytes], samples: Samples, nodes: tuple[str, ...], node: str | None) -> int:
    """Add the samples of a file; gives how many lines were none.

    A time stands behind the value, in a comment before the scrape, or in the file's name; without any of these a series
    that comes again is of a later scrape. `node` is whose file it is, where labels name none.
    """
    at = _time_of_name(name)
    scrape, bad = 0, 0
    wanted = frozenset(each.encode() for each in samples.wanted)
    seen: set[tuple[bytes, bytes | None]] = set()
    for number, line in enumerate(_lines(chunks), 1):
        if line.startswith(b"#"):
            told = _time_of_comment(line)
            if told is not None:
                at, scrape = told, scrape + 1
                seen.clear()
            continue
        called = line.partition(b"{")[0].split(None, 1)[:1]
        if called and called[0] not in wanted and _NAME.match(called[0]):
            continue
        match = _SAMPLE.match(line)
        if match is None:
            bad += bool(called)
            continue
        series = match[1].decode()
        value = _number(match[3])
        if value is None:
            bad += 1
            continue
        if (match[1], match[2]) in seen and match[4] is None:
            at, scrape = None, scrape + 1
            seen.clear()
        seen.add((match[1], match[2]))
        own = at if match[4] is None else _seconds(float(match[4]))
        labels, told_node = _labels((match[2] or b"").decode("utf-8", "replace"))
        place = samples.place(told_node, nodes, node)
        samples.add(series, labels, place, (own, scrape), Point(own or 0.0, value, name, number))
    return bad


def read_answer(name: str, document: object, samples: Samples, nodes: tuple[str, ...], node: str | None) -> bool:
    """Add the samples of the JSON that a query of Prometheus answers with; False if it is none."""
    results = values.dug(document, "data", "result")
    if not isinstance(results, list):
        return False
    for result in values.mappings(results):
        metric = {key: values.text(value, 300) for key, value in values.mapping(result.get("metric")).items()}
        series = metric.pop("__name__", "")
        if series not in samples.wanted:
            continue
        told_node = node_label(metric)
        place = samples.place(told_node, nodes, node)
        labels = tuple(sorted(metric.items()))
        pairs = values.items(result.get("values")) or [result.get("value")]
        for pair in pairs:
            if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], int | float):  # noqa: PLR2004 - time, value
                value = _number(values.text(pair[1], 40).encode())
                if value is not None and abs(pair[0]) < _MILLISECONDS:
                    samples.add(series, labels, place, (float(pair[0]), 0), Point(float(pair[0]), value, name, 1))
    return True


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines; of one that is too long only its beginning, which is no sample."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.rstrip(b"\r")[:MOST_LINE_BYTES] for line in lines)
        if len(rest) > 2 * MOST_LINE_BYTES:
            rest = rest[: MOST_LINE_BYTES + 1]
    if rest:
        yield rest.rstrip(b"\r")[:MOST_LINE_BYTES]


@lru_cache(maxsize=4096)
def _labels(text: str) -> tuple[Labels, str | None]:
    """The labels of a series, with the node that they name."""
    found = {name: _ESCAPE.sub(_unescaped, value)[:300] for name, value in _LABEL.findall(text[:4096])}
    return tuple(sorted(found.items())), node_label(found)


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _number(text: bytes) -> float | None:
    try:
        return float(text) if b"_" not in text else None
    except ValueError:
        return None


def _seconds(value: float) -> float:
    """A time that stands behind a value: milliseconds since 1970, of some exporters seconds."""
    return value / 1000.0 if abs(value) >= _MILLISECONDS else value


def _time_of_comment(line: bytes) -> float | None:
    if line.startswith((b"# HELP", b"# TYPE", b"# UNIT", b"# EOF")):
        return None
    found = dated(line)
    if found is not None:
        return found.timestamp()
    epoch = _COMMENT_EPOCH.search(line[:200])
    return float(epoch[0]) if epoch else None


def _time_of_name(name: str) -> float | None:
    """The time that a file's name bears, such as `gpu003-20260302T020011.prom`."""
    base = name.rpartition("/")[2]
    compact = re.search(r"(20\d\d)-?(\d\d)-?(\d\d)[T_-]?(\d\d)[:-]?(\d\d)[:-]?(\d\d)", base)
    if compact is None:
        return None
    year, month, day, hour, minute, second = compact.groups()
    found = dated(f"{year}-{month}-{day}T{hour}:{minute}:{second}Z".encode())
    return found.timestamp() if found else None
