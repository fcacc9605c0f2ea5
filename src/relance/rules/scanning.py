"""Scanning: blocks of a log in, hits of rules out, each line once, whatever the bounds of the blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from threading import Lock

from relance.domain.faults import Role, Scope
from relance.domain.findings import RuleHit
from relance.domain.log_texts import LogText, line_end, line_start
from relance.domain.observations import LogBlock
from relance.rules.engines import Engine, EngineMaker
from relance.rules.formats import Pack, Rule
from relance.rules.hits import FoundLine, HitMaker
from relance.rules.hyperscans import best_engine
from relance.rules.patterns import LineMatchers, Pattern
from relance.rules.tables import unfinished_rows
from relance.rules.tracebacks import MENTIONS, EndedTraceback, OpenTraceback, follow

MOST_HITS_OF_A_RULE = 256
"""Different hits of one rule that one block gives; the rest of a storm is in the counts."""
_CAN_NAME_A_CAUSE = frozenset({Role.ROOT, Role.MAYBE})
_IN_PYTHON = frozenset({Scope.APPLICATION})
"""Where Python's tracebacks are."""
_CUT = b"\x00"
"""Stands before the rest of a long line, so that `^` does not take the cut for a beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """What one file carries from block to block.

    `seen` is the byte up to which it was scanned; a block that does not follow on begins anew. `line_rules` are the
    rules that matched the line that is not over yet, `line_rank` is its rank.
    """

    file: str
    seen: int
    tracebacks: tuple[OpenTraceback, ...] = ()
    table_rows: tuple[str, ...] = ()
    line_rules: tuple[str, ...] = ()
    line_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanState:
    """What scanning carries from block to block, for one file or many; only files in the middle of something."""

    version: int = 1
    files: tuple[FileState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """What one block gave.

    `hits` are in the order of the lines: of each rule the first for each rank, node, device and peer, at most
    `MOST_HITS_OF_A_RULE` of these. Of rules that can name a cause the last one is there too: the first may have been
    caught, and the last have ended the rank. `counts` has the number of lines of every rule that matched, those left
    out of `hits` too.
    """

    hits: tuple[RuleHit, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def left_out(self) -> Mapping[str, int]:
        """For each rule the lines that are counted and not among the hits, where there are any."""
        given = Counter(hit.rule for hit in self.hits)
        return {rule: count - given[rule] for rule, count in self.counts.items() if count > given[rule]}


@dataclass(frozen=True, slots=True)
class _Part:
    """The rules of one scope: those that the engine looks for, and those for the ends of tracebacks.

    Where there are Python's, the engine finds the lines that begin tracebacks too, under the indexes after the rules'.
    """

    engine: Engine
    rules: tuple[Rule, ...]
    at_ends: tuple[Rule, ...]


@dataclass(slots=True)
class _Sighted:
    """What the engine saw in a block: rules by the start of their line, where these end, and what begins tracebacks."""

    rules: dict[int, list[Rule]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    mentions: list[int] = field(default_factory=list)


class Scanner:
    """Scans blocks by a pack. Holds no state of any log; any number of threads may scan with it at the same time.

    Args:
        pack: The rules.
        engine: Makes what finds the lines; None: the best there is here.
        zone: The zone of times that bear none.
    """

    def __init__(self, pack: Pack, *, engine: EngineMaker | None = None, zone: tzinfo = UTC) -> None:
        self._pack = pack
        self._engine = engine or best_engine()
        self._zone = zone
        self._parts: dict[Scope, _Part] = {}
        self._compiling = Lock()
        self._others: dict[tuple[str, ...], Engine] = {}
        self._matchers = LineMatchers({rule.id: _pattern(rule) for rule in pack.rules})

    @property
    def engine(self) -> str:
        """Name and version of the engine that finds the lines of jobs' own logs."""
        return self._part(Scope.APPLICATION).engine.name

    def finder_of(self, patterns: Sequence[str]) -> Engine:
        """An engine of the same kind for other patterns."""
        wanted = tuple(patterns)
        if wanted not in self._others:
            self._others[wanted] = self._engine([Pattern(text=pattern) for pattern in wanted])
        return self._others[wanted]

    def prepare(self) -> None:
        """Compile the rules for the logs of jobs and kernels now, and not when the first one is scanned."""
        for scope in (Scope.APPLICATION, Scope.KERNEL):
            self._part(scope)

    def scan(self, block: LogBlock, state: ScanState, log: LogText | None = None) -> tuple[ScanState, ScanResult]:
        """Scan a block, the next one of its file after those that gave `state`; `log` is its text, cleaned already."""
        before = _before(state, block)
        log = log or LogText(block.data)
        part = self._part(block.scope)
        sighted = _sighted(part, log.text, cut=block.overlap > 0)
        ended, still_open = _tracebacks(block, log.text, before, sighted.mentions)
        maker = HitMaker(block, log, self._matchers, zone=self._zone, table_rows=before.table_rows)
        collector = _Collector(maker)
        unfinished = _Unfinished.of(log.text, before, continues=block.overlap > 0)
        for line, rules in self._lines(block, log.text, (part, sighted, ended), before):
            for rule in rules:
                collector.add(rule, line)
            unfinished.take(line, rules)
        after = FileState(
            file=block.file,
            seen=block.offset + len(block.data),
            tracebacks=still_open,
            table_rows=unfinished_rows(log.text) if block.scope in _IN_PYTHON else (),
            line_rules=tuple(sorted(unfinished.rules)),
            line_rank=unfinished.rank,
        )
        return _with_file(state, after), collector.result()

    def _lines(
        self,
        block: LogBlock,
        text: bytes,
        seen: tuple[_Part, _Sighted, Mapping[int, EndedTraceback]],
        before: FileState,
    ) -> Iterator[tuple[FoundLine, list[Rule]]]:
        """The lines on which rules count, in order, with these rules in the order of the pack."""
        part, sighted, ended = seen
        starts = sorted({*sighted.rules, *ended}) if ended else sighted.rules
        for start in starts:
            end = sighted.ends.get(start)
            line = FoundLine(start, text[start : line_end(text, start) if end is None else end])
            known: tuple[str, ...] = ()
            if ended:
                line.traceback = ended.get(start)
            if start == 0 and block.overlap > 0:
                line.continued, line.rank, known = True, before.line_rank, before.line_rules
            rules = self._counting(part, sighted.rules.get(start, []), line, known)
            if line.continued:
                old = len(LogText(block.data[: block.overlap]).text)
                rules = [rule for rule in rules if rule.id not in known and self._ends_after(old, rule, line)]
            if rules:
                yield line, rules

    def _counting(self, part: _Part, matched: list[Rule], line: FoundLine, known: Sequence[str]) -> list[Rule]:
        """Of the rules that match a line those that count; `known` matched an earlier piece of it."""
        rules = list(matched)
        if line.traceback is not None:
            rules += [rule for rule in part.at_ends if self._matchers[rule.id].span(line.part_for(rule)) is not None]
        specific = [rule for rule in rules if not rule.fallback]
        if specific or not rules:
            return specific
        if any(not self._pack.by_id[each].fallback for each in known if each in self._pack.by_id):
            return []
        return [max(rules, key=lambda rule: rule.weight)]

    def _ends_after(self, position: int, rule: Rule, line: FoundLine) -> bool:
        span = self._matchers[rule.id].span(line.text)
        return span is None or span[1] > position

    def _part(self, scope: Scope) -> _Part:
        known = self._parts.get(scope)
        if known is not None:
            return known
        with self._compiling:
            if scope not in self._parts:
                self._parts[scope] = self._compiled(scope)
            return self._parts[scope]

    def _compiled(self, scope: Scope) -> _Part:
        rules = [rule for rule in self._pack.rules if scope in rule.scopes]
        looked_for = tuple(rule for rule in rules if not rule.traceback)
        mentions = MENTIONS if scope in _IN_PYTHON else ()
        return _Part(
            engine=self._engine([*map(_pattern, looked_for), *mentions]),
            rules=looked_for,
            at_ends=tuple(rule for rule in rules if rule.traceback),
        )


class _Collector:
    """Keeps the first hit of each kind, and the last where it can name a cause; counts the rest."""

    def __init__(self, maker: HitMaker) -> None:
        self._maker = maker
        self._first: dict[str, dict[tuple[object, ...], FoundLine]] = {}
        self._last: dict[tuple[str, tuple[object, ...]], tuple[Rule, FoundLine]] = {}
        self._counts: Counter[str] = Counter()
        self._hits: list[tuple[int, RuleHit]] = []

    def add(self, rule: Rule, line: FoundLine) -> None:
        self._counts[rule.id] += 1
        first = self._first.setdefault(rule.id, {})
        if len(first) >= MOST_HITS_OF_A_RULE:
            return
        identity = self._maker.identity(rule, line)
        if identity not in first:
            first[identity] = line
            self._hits.append((line.start, self._maker.hit(rule, line)))
        elif rule.role in _CAN_NAME_A_CAUSE:
            self._last[rule.id, identity] = (rule, line)

    def result(self) -> ScanResult:
        lasts = sorted(self._last.values(), key=lambda pair: pair[1].start)
        self._hits += [(line.start, self._maker.hit(rule, line)) for rule, line in lasts]
        in_order = sorted(self._hits, key=lambda pair: pair[0])
        return ScanResult(hits=tuple(hit for _, hit in in_order), counts=dict(self._counts))


@dataclass(slots=True)
class _Unfinished:
    """What is to be remembered of a line that goes on in the next block."""

    start: int | None
    rules: set[str]
    rank: int | None

    @classmethod
    def of(cls, text: bytes, before: FileState, *, continues: bool) -> _Unfinished:
        start = line_start(text, len(text)) if text and not text.endswith(b"\n") else None
        if start == 0 and continues:
            return cls(start, set(before.line_rules), before.line_rank)
        rank = None if start is None else FoundLine(start, text[start:]).label.best_rank
        return cls(start, set(), rank)

    def take(self, line: FoundLine, rules: Sequence[Rule]) -> None:
        if line.start == self.start:
            self.rules |= {rule.id for rule in rules}


def _pattern(rule: Rule) -> Pattern:
    return Pattern(text=rule.pattern, ignore_case=rule.ignore_case)


def _sighted(part: _Part, text: bytes, *, cut: bool) -> _Sighted:
    """What the engine finds; `cut` says that the first line began before the text."""
    sighted = _Sighted()
    shift = len(_CUT) if cut else 0
    for found_start, found_end, index in part.engine.find(_CUT + text if cut else text):
        start = max(found_start - shift, 0)
        if index >= len(part.rules):
            if sighted.mentions[-1:] != [start]:
                sighted.mentions.append(start)
            continue
        sighted.rules.setdefault(start, []).append(part.rules[index])
        sighted.ends[start] = found_end - shift
    return sighted


def _tracebacks(
    block: LogBlock, text: bytes, before: FileState, mentions: Sequence[int]
) -> tuple[Mapping[int, EndedTraceback], tuple[OpenTraceback, ...]]:
    if block.scope not in _IN_PYTHON:
        return {}, ()
    start = line_end(text, 0) + 1 if block.overlap > 0 else 0
    return follow(text, start, before.tracebacks, mentions)


def _before(state: ScanState, block: LogBlock) -> FileState:
    """What the file carries, if the block follows on."""
    seen = block.offset + block.overlap
    found = next((each for each in state.files if each.file == block.file and each.seen == seen), None)
    return found or FileState(file=block.file, seen=seen)


def _with_file(state: ScanState, after: FileState) -> ScanState:
    others = tuple(each for each in state.files if each.file != after.file)
    in_the_middle = after.tracebacks or after.table_rows or after.line_rules or after.line_rank is not None
    return ScanState(files=(*others, after) if in_the_middle else others)
