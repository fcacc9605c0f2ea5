"""The part of LogQL that the double takes: log queries with filters, and the metric queries that were recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import re2

from relance.testing.loki_double.tokens import QueryError, Token, syntax_error, tokens_of

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}
_MATCH_SIGNS = {"=", "!=", "=~", "!~"}
_LINE_SIGNS = {"|=", "!=", "|~", "!~"}
_COMPARE = {">", "<", ">=", "<=", "==", "="}
_INPUT_BYTES = 131072
_EVERYTHING = (
    "parse error : queries require at least one regexp or equality matcher that does not have an empty-compatible "
    'value. For instance, app=~".*" does not meet this requirement, but app=~".+" will'
)


def seconds_of(text: str) -> float:
    """A duration such as `1m30s`."""
    return sum(float(number) * _UNITS_S[unit] for number, unit in re.findall(r"([\d.]+)([a-z]+)", text))


def compiled(pattern: str, *, whole: bool = False) -> Any:  # noqa: ANN401 - google-re2 ships no types
    """A pattern as Go takes it. Raises QueryError."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(f"^(?:{pattern})$" if whole else pattern, options)
    except re2.error as error:
        raise QueryError(f"parse error : error parsing regexp: {error}") from error


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label."""

    name: str
    sign: str
    value: str

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a stream is meant."""
        value = labels.get(self.name, "")
        if self.sign in ("=", "!="):
            return (value == self.value) == (self.sign == "=")
        return (compiled(self.value, whole=True).match(value) is not None) == (self.sign == "=~")


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a pipeline: a filter of lines, a parser, a filter of labels, or what a value is taken from."""

    kind: str
    sign: str = ""
    text: str = ""

    def apply(self, line: str, labels: dict[str, str]) -> bool:
        """Whether a line passes; parsers add labels."""
        if self.kind == "line":
            inside = self.text in line if "=" in self.sign else compiled(self.text).search(line) is not None
            return inside == (self.sign[0] == "|")
        if self.kind == "regexp":
            found = compiled(self.text).search(line)
            labels.update({name: value for name, value in (found.groupdict() if found else {}).items() if value})
            return True
        if self.kind == "compare":
            name, _, limit = self.text.partition(" ")
            try:
                value = float(labels.get(name, ""))
            except ValueError:
                return False
            wanted = float(limit)
            signs = {">": value > wanted, "<": value < wanted, ">=": value >= wanted, "<=": value <= wanted}
            return signs.get(self.sign, value == wanted)
        return True


@dataclass(frozen=True, slots=True)
class LogQuery:
    """A selector and its pipeline."""

    matchers: tuple[Matcher, ...]
    stages: tuple[Stage, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether a stream is meant."""
        return all(matcher.holds(labels) for matcher in self.matchers)

    def run(self, line: str, labels: Mapping[str, str]) -> dict[str, str] | None:
        """The labels of a line that passes; None: it does not."""
        found = dict(labels)
        return found if all(stage.apply(line, found) for stage in self.stages) else None


@dataclass(frozen=True, slots=True)
class MetricQuery:
    """A count or a greatest value over ranges, by labels; `by` None: by all there are."""

    function: str
    log: LogQuery
    range_s: float
    by: tuple[str, ...] | None = None
    is_summed: bool = False


def parse(query: str) -> LogQuery | MetricQuery:
    """Read a query. Raises QueryError."""
    if len(query) > _INPUT_BYTES:
        raise QueryError(f"parse error : input size too long ({len(query)} > {_INPUT_BYTES})")
    found = _Reader(query).read()
    log = found.log if isinstance(found, MetricQuery) else found
    if not any(_selects_little(matcher) for matcher in log.matchers):
        raise QueryError(_EVERYTHING)
    for stage in log.stages:
        if stage.kind == "regexp" or "~" in stage.sign:
            compiled(stage.text)
    return found


def _selects_little(matcher: Matcher) -> bool:
    if matcher.sign == "=":
        return bool(matcher.value)
    return matcher.sign == "=~" and compiled(matcher.value, whole=True).match("") is None


class _Reader:
    """Reads tokens from left to right."""

    def __init__(self, query: str) -> None:
        self._query = query
        self._tokens = tokens_of(query)
        self._at = 0

    def read(self) -> LogQuery | MetricQuery:
        found = self._log() if self._now.text == "{" else self._metric()
        if self._now.kind != "end":
            raise self._unexpected()
        return found

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, text: str, expecting: str = "") -> None:
        if self._now.kind == "string" or self._now.text != text:
            raise self._unexpected(expecting)
        self._at += 1

    def _string(self) -> str:
        if self._now.kind != "string":
            raise self._unexpected("string")
        return self._next().text

    def _word(self) -> str:
        if self._now.kind != "word":
            raise self._unexpected("identifier")
        return self._next().text

    def _unexpected(self, expecting: str = "") -> QueryError:
        kinds = {"string": "STRING", "word": "IDENTIFIER", "number": "NUMBER", "duration": "DURATION"}
        what = f"unexpected {kinds.get(self._now.kind, self._now.text)}"
        return syntax_error(self._query, self._now.at, f"{what}, expecting {expecting}" if expecting else what)

    def _log(self) -> LogQuery:
        self._take("{")
        matchers: list[Matcher] = []
        while self._now.text != "}" or self._now.kind == "string":
            name = self._word()
            if self._now.text not in _MATCH_SIGNS:
                raise self._unexpected("= or != or =~ or !~")
            sign = self._next().text
            matchers.append(Matcher(name, sign, self._string()))
            if "~" in sign:
                compiled(matchers[-1].value, whole=True)
            if self._now.text == ",":
                self._next()
            elif self._now.text != "}":
                raise self._unexpected("} or ,")
        self._take("}")
        stages: list[Stage] = []
        while self._now.kind == "sign" and self._now.text in {*_LINE_SIGNS, "|"}:
            sign = self._next().text
            stages.append(Stage("line", sign, self._string()) if sign != "|" else self._stage())
        return LogQuery(tuple(matchers), tuple(stages))

    def _stage(self) -> Stage:
        word = self._word()
        if word == "regexp":
            return Stage("regexp", text=self._string())
        if word == "unwrap":
            return Stage("unwrap", text=self._word())
        if self._now.text in _COMPARE:
            sign = self._next().text
            if self._now.kind != "number":
                raise self._unexpected("NUMBER")
            return Stage("compare", sign, f"{word} {self._next().text}")
        raise self._unexpected()

    def _metric(self) -> MetricQuery:
        function = self._word()
        if function == "sum":
            by = self._by()
            self._take("(")
            inner = self._metric()
            self._take(")")
            by = by or self._by() or ()
            return MetricQuery(inner.function, inner.log, inner.range_s, by, is_summed=True)
        if function not in ("count_over_time", "max_over_time"):
            raise self._unexpected()
        self._take("(")
        log = self._log()
        self._take("[")
        if self._now.kind != "duration":
            raise self._unexpected("DURATION")
        range_s = seconds_of(self._next().text)
        self._take("]")
        self._take(")")
        return MetricQuery(function, log, range_s, self._by())

    def _by(self) -> tuple[str, ...] | None:
        if self._now.text != "by" or self._now.kind != "word":
            return None
        self._next()
        self._take("(")
        names: list[str] = []
        while self._now.text != ")":
            names.append(self._word())
            if self._now.text == ",":
                self._next()
        self._take(")")
        return tuple(names)


def grouped(labels: Mapping[str, str], by: Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """The labels by which a series is told."""
    return tuple(sorted((name, value) for name, value in labels.items() if by is None or name in by))
