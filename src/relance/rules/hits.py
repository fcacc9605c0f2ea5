"""Hits: a rule and the line that it matched, made into a value that stands by itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from functools import cached_property

from relance.domain.faults import Scope
from relance.domain.findings import RuleHit
from relance.domain.log_labels import NO_LABEL, Label, read_label
from relance.domain.log_texts import LogText
from relance.domain.log_times import dated, read_time
from relance.domain.observations import LogBlock
from relance.rules.formats import Rule
from relance.rules.masking import mask, mask_bytes
from relance.rules.patterns import LineMatchers
from relance.rules.tables import values_above
from relance.rules.tracebacks import EndedTraceback

MOST_EXCERPT_BYTES = 2048
"""What an excerpt shows of one line; the frames of a traceback come before it."""
MOST_CAPTURE_CHARS = 300
_BEFORE_MATCH_BYTES = 512
_POD = re.compile(rb"\bpod/(?:[\w-]+/)?([\w.-]+)")
_WRITER = re.compile(
    rb"(?:[A-Z][a-z]{2} {1,2}\d{1,2} [\d:]{8} |\d{4}-\d\d-\d\dT\S{8,24} )?\[?([A-Za-z][\w.-]*\d[\w.-]*)"
)
"""The host at the start of a line, where the logs of many nodes were put into one."""
_OF_MANY_HOSTS = (Scope.KERNEL, Scope.DEVICE, Scope.NOTES)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_WHAT_TELLS_APART = ("pod", "rank", "task", "node", "peer", "host", "pci", "gpu", "device", "local_rank")
_NAMES_THAT_TELL_APART = frozenset(_WHAT_TELLS_APART)


class FoundLine:
    """A line on which rules match.

    `start` is its place in the cleaned text. `continued` says that it began in an earlier block, as a line of `rank`.
    """

    def __init__(self, start: int, text: bytes, *, traceback: EndedTraceback | None = None) -> None:
        self.start = start
        self.text = text
        self.traceback = traceback
        self.continued = False
        self.rank: int | None = None

    @cached_property
    def label(self) -> Label:
        """What stands before the line."""
        return NO_LABEL if self.continued else read_label(self.text)

    def part_for(self, rule: Rule) -> bytes:
        """What the rule is matched against: all of the line, or the exception without its labels."""
        return self.text[self.traceback.body :] if rule.traceback and self.traceback else self.text


class HitMaker:
    """Makes the hits of one block.

    Args:
        block: The block.
        log: Its cleaned text.
        matchers: For each rule by id, what takes its captures.
        zone: The zone of times that bear none.
        table_rows: The rows of a failure table at the end of the block before.
    """

    def __init__(
        self,
        block: LogBlock,
        log: LogText,
        matchers: LineMatchers[str],
        *,
        zone: tzinfo = UTC,
        table_rows: Sequence[str] = (),
    ) -> None:
        self._block = block
        self._log = log
        self._matchers = matchers
        self._zone = zone
        self._table_rows = table_rows
        self._line_at = (0, 0)

    def identity(self, rule: Rule, line: FoundLine) -> tuple[object, ...]:
        """What tells two hits of one rule apart: rank, node, device, peer, and the host whose line it is."""
        if rule.table or self._matchers[rule.id].names & _NAMES_THAT_TELL_APART:
            captures = self._captures(rule, line, line.part_for(rule))
        else:
            captures = dict(_told_by(line))
        pod = _POD.search(line.text) if self._block.scope is Scope.SCHEDULER else None
        writer = _WRITER.match(line.text) if self._block.scope in _OF_MANY_HOSTS else None
        told = (captures.get(name) for name in _WHAT_TELLS_APART)
        return (self._rank(line, captures), pod[1] if pod else None, writer[1] if writer else None, *told)

    def hit(self, rule: Rule, line: FoundLine) -> RuleHit:
        """The hit."""
        part = line.part_for(rule)
        masked = mask_bytes(part)
        captures = self._captures(rule, line, part, masked)
        raw_start = self._log.raw_start(line.start)
        return RuleHit(
            rule=rule.id,
            symptom=rule.symptom,
            domain=rule.domain,
            role=rule.role,
            suspect=rule.suspect,
            restart=rule.restart,
            weight=rule.weight,
            scope=self._block.scope,
            seen_at=self._block.read_at,
            at=self._time(line, captures),
            rank=self._rank(line, captures),
            node=self._block.node,
            device=_device(captures),
            file=self._block.file,
            offset=self._block.offset + raw_start,
            line=self._number(raw_start),
            excerpt=self._excerpt(rule, line, part, masked),
            captures=captures,
            beside=rule.beside,
        )

    def _captures(self, rule: Rule, line: FoundLine, part: bytes, masked: bytes | None = None) -> dict[str, str]:
        """What the rule took, then what stands around the line; masked where `masked` says how the line is shown."""
        matcher = self._matchers[rule.id]
        if masked is None or masked is part:
            taken = matcher.captures(part) or {}
        else:
            taken = matcher.captures(masked) or {
                name: mask_bytes(value) for name, value in (matcher.captures(part) or {}).items()
            }
        found = {name: value.decode("utf-8", "replace")[:MOST_CAPTURE_CHARS] for name, value in taken.items()}
        if rule.table:
            for name, value in values_above(self._log.text, line.start, self._table_rows).items():
                found.setdefault(name, mask(value))
        for name, told in _told_by(line):
            found.setdefault(name, told)
        return found

    def _rank(self, line: FoundLine, captures: Mapping[str, str]) -> int | None:
        """From the path, else the rank's own label, else the rank that the line is about, else srun's task."""
        for told in (self._block.rank, line.label.rank, _number(captures.get("rank")), line.label.task, line.rank):
            if told is not None:
                return told
        return _number(captures.get("task"))

    def _time(self, line: FoundLine, captures: Mapping[str, str]) -> datetime | None:
        if line.continued:
            return None
        found = read_time(line.text, read_at=self._block.read_at, zone=self._zone)
        if found is None and "time" in captures:
            return dated(captures["time"].encode(), zone=self._zone)
        return found

    def _number(self, raw_start: int) -> int | None:
        """The number of the line; cheapest when asked in rising order."""
        if self._block.line is None:
            return None
        at, number = self._line_at if raw_start >= self._line_at[0] else (0, 0)
        self._line_at = (raw_start, number + self._block.data.count(b"\n", at, raw_start))
        return self._block.line + self._line_at[1]

    def _excerpt(self, rule: Rule, line: FoundLine, part: bytes, masked: bytes) -> str:
        whole = masked if part is line.text else mask_bytes(line.text)
        begin = 0
        if len(whole) > MOST_EXCERPT_BYTES:
            span = self._matchers[rule.id].span(whole)
            if span is not None and span[1] > MOST_EXCERPT_BYTES:
                begin = max(0, span[0] - _BEFORE_MATCH_BYTES)
        shown = whole[begin : begin + MOST_EXCERPT_BYTES].decode("utf-8", "replace").rstrip()
        lines = (*line.traceback.tail, shown) if line.traceback else (shown,)
        return _CONTROLS.sub("", "\n".join(lines))


def _told_by(line: FoundLine) -> list[tuple[str, str]]:
    """What label and traceback of a line say, by the names of captures."""
    label, traceback = line.label, line.traceback
    told = [
        ("task", None if label.task is None else str(label.task)),
        ("local_rank", None if label.local_rank is None else str(label.local_rank)),
        ("host", label.host),
        ("pid", label.pid),
        ("gpu", label.gpu),
    ]
    if traceback is not None:
        told += [
            ("exception", traceback.exception),
            ("frame", traceback.frame),
            ("chained", "yes" if traceback.chained else None),
        ]
    return [(name, value) for name, value in told if value is not None]


def _device(captures: Mapping[str, str]) -> str | None:
    if "gpu" in captures:
        return captures.get("pci") or f"gpu{captures['gpu']}"
    return captures.get("pci") or captures.get("device")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 10 else None  # noqa: PLR2004 - fits any rank
