"""LogsQL's filters: which rows are meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import re2

from relance.testing.victorialogs_double.tokens import QueryError, Token, query_error

Row = Mapping[str, str]
Filter = Callable[[Row], bool]
_LETTERS = re.compile(r"\w")
_STREAM_ENDS = "'or', 'and', '}' or ','"
_SIGNS = {"=", "!=", "=~", "!~"}


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:  # noqa: ANN401 - google-re2 ships no types
    """A pattern as Go takes it. Raises QueryError."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise QueryError(f"cannot parse query: invalid regexp {pattern!r}: {error}\n") from error


class Parser:
    """Reads filters from tokens.

    Args:
        query: The text, for errors.
        tokens: Its tokens.
        labels: The labels of a row's stream.
    """

    def __init__(self, query: str, tokens: Sequence[Token], labels: Callable[[Row], Row]) -> None:
        self.query = query
        self.tokens = tokens
        self.at = 0
        self._labels = labels

    @property
    def now(self) -> Token:
        """The token that comes next."""
        return self.tokens[self.at]

    def take(self) -> Token:
        """The next token, taken."""
        token = self.tokens[self.at]
        self.at += 1
        return token

    def is_next(self, text: str) -> bool:
        """Whether the next token is this sign or word."""
        return self.now.kind in ("sign", "word") and self.now.text == text

    def expect(self, text: str) -> None:
        """Take this sign. Raises QueryError."""
        if not self.is_next(text):
            raise self.error(f'unexpected token "{self.now.text}"; want "{text}"')
        self.take()

    def error(self, what: str) -> QueryError:
        """What is wrong where the reader stands."""
        return query_error(self.query, what, self.now.end)

    def any_of(self) -> Filter:
        """Filters with `or` between them. Raises QueryError."""
        found = [self._all_of()]
        while self.is_next("or"):
            self.take()
            found.append(self._all_of())
        return found[0] if len(found) == 1 else lambda row: any(each(row) for each in found)

    def _all_of(self) -> Filter:
        found: list[Filter] = []
        while not (self.now.kind == "end" or self.is_next("|") or self.is_next(")") or self.is_next("or")):
            if self.is_next("and"):
                self.take()
                continue
            found.append(self._one())
        if not found:
            raise self.error("missing query")
        return lambda row: all(each(row) for each in found)

    def _one(self) -> Filter:
        for sign in ("-", "!", "not"):
            if self.is_next(sign):
                self.take()
                negated = self._one()
                return lambda row: not negated(row)
        if self.is_next("("):
            self.take()
            inner = self.any_of()
            self.expect(")")
            return inner
        if self.is_next("{"):
            return self._streams()
        following = self.tokens[self.at + 1] if self.now.kind != "end" else self.now
        if self.now.kind in ("word", "string") and following.kind == "sign" and following.text in (":", ":~"):
            name = self.take().text
            if name == "_time":
                raise self.error("the double takes times by the arguments `start` and `end` alone")
            if self.take().text == ":~":
                return self._pattern(name)
            return self._condition(name)
        return self._condition("_msg")

    def _condition(self, name: str) -> Filter:
        token = self.take()
        if token.kind == "sign":
            if token.text == "*":
                return (lambda row: bool(row.get(name))) if name != "_msg" else (lambda _: True)
            if token.text == "~":
                return self._pattern(name)
            if token.text == "=":
                wanted = self.take().text
                return lambda row: row.get(name, "") == wanted
        if token.kind == "word" and self.is_next("("):
            return self._function(name, token.text)
        if token.kind in ("word", "string"):
            return _phrase(name, token.text)
        self.at -= 1
        raise self.error(f'unexpected token "{token.text}"')

    def _pattern(self, name: str) -> Filter:
        search = compiled(self.take().text).search
        return lambda row: search(row.get(name, "")) is not None

    def _function(self, name: str, function: str) -> Filter:
        values = self._values()
        if function == "i" and len(values) == 1:
            lower = _phrase(name, values[0].lower())
            return lambda row: lower({name: row.get(name, "").lower()})
        if function == "re" and len(values) == 1:
            search = compiled(values[0]).search
            return lambda row: search(row.get(name, "")) is not None
        if function == "in":
            wanted = set(values)
            return lambda row: row.get(name, "") in wanted
        raise self.error(f"unexpected function {function!r}")

    def _values(self) -> list[str]:
        self.expect("(")
        found: list[str] = []
        while not self.is_next(")"):
            if self.now.kind not in ("word", "string"):
                raise self.error(f'unexpected token "{self.now.text}"')
            found.append(self.take().text)
            if self.is_next(","):
                self.take()
        self.take()
        return found

    def _streams(self) -> Filter:
        """A filter of streams in braces: `or` between conditions that are all to hold."""
        self.expect("{")
        rows: list[list[Filter]] = [[]]
        while not self.is_next("}"):
            rows[-1].append(self._stream_condition())
            if self.is_next(",") or self.is_next("and"):
                self.take()
            elif self.is_next("or"):
                self.take()
                rows.append([])
            elif not self.is_next("}"):
                raise self.error(f'unexpected token "{self.now.text}" in _stream filter; want {_STREAM_ENDS}')
        self.take()
        return lambda row: any(all(each(row) for each in conditions) for conditions in rows)

    def _stream_condition(self) -> Filter:
        if self.now.kind not in ("word", "string"):
            raise self.error(f'unexpected token "{self.now.text}" in _stream filter')
        name, labels = self.take().text, self._labels
        if self.is_next("in"):
            self.take()
            wanted = set(self._values())
            return lambda row: labels(row).get(name, "") in wanted
        if self.now.text not in _SIGNS:
            raise self.error(f'unsupported operation "{self.now.text}" in _stream filter')
        sign = self.take().text
        if self.now.kind not in ("word", "string"):
            raise self.error(f'unexpected token "{self.now.text}" in _stream filter')
        value = self.take().text
        if sign in ("=", "!="):
            return lambda row: (labels(row).get(name, "") == value) == (sign == "=")
        match = compiled(f"^(?:{value})$").search
        return lambda row: (match(labels(row).get(name, "")) is not None) == (sign == "=~")


def _phrase(name: str, phrase: str) -> Filter:
    """Whether a field has these words, whole ones; nothing asked for means a field that is empty."""
    if not phrase:
        return lambda row: not row.get(name)
    before = r"(?<!\w)" if _LETTERS.match(phrase[0]) else ""
    after = r"(?!\w)" if _LETTERS.match(phrase[-1]) else ""
    search = re.compile(before + re.escape(phrase) + after).search
    return lambda row: search(row.get(name, "")) is not None
