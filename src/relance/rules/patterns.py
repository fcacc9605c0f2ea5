"""Patterns: RE2 syntax over bytes, matched in linear time and never across the end of a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import re2

MOST_LENGTH = 2000
"""Longest pattern, in characters."""
MAX_MEMORY_BYTES = 64 * 1024 * 1024
"""Ceiling for the automaton of one search, taken only as far as it is needed."""
_TOKEN = re.compile(r"\\.|\(\?(?:P?<|:|i[:)])?|[\n\r]", re.DOTALL)
_UNFIT = {"\\A", "\\z", "\\C", "(?", "\n", "\r"}


class PatternError(ValueError):
    """A pattern cannot be used; the text says why, `remedy` what to do."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """The text of a pattern with its one option."""

    text: str
    ignore_case: bool = False

    @property
    def source(self) -> bytes:
        """For a search through many lines: `^` and `$` are the ends of a line."""
        return f"(?m{'i' if self.ignore_case else ''}:{self.text})".encode("ascii")


def options(*, captures: bool) -> re2.Options:
    """How patterns are compiled: bytes, never across a newline, quiet."""
    chosen = re2.Options()
    chosen.encoding = re2.Options.Encoding.LATIN1
    chosen.never_nl = True
    chosen.never_capture = not captures
    chosen.log_errors = False
    chosen.max_mem = MAX_MEMORY_BYTES
    return chosen


class LineMatcher:
    """One compiled pattern, for single lines; `names` are its named groups."""

    __slots__ = ("_names", "_regexp", "names")

    def __init__(self, pattern: Pattern) -> None:
        self._regexp: Any = re2.compile(pattern.source, options(captures=True))
        self._names = tuple((name.decode("ascii"), at) for name, at in self._regexp.groupindex.items())
        self.names = frozenset(name for name, _ in self._names)

    def span(self, line: bytes) -> tuple[int, int] | None:
        """Where the pattern first matches in the line."""
        match = self._regexp.search(line)
        return None if match is None else match.span()

    def captures(self, line: bytes) -> Mapping[str, bytes] | None:
        """The named groups that took part in the first match, empty ones left out; None without a match."""
        match = self._regexp.search(line)
        if match is None:
            return None
        return {name: value for name, at in self._names if (value := match[at])}


_Key = TypeVar("_Key")


class LineMatchers(Generic[_Key]):
    """Compiled patterns by key, each compiled when it is first asked for."""

    __slots__ = ("_compiled", "_patterns")

    def __init__(self, patterns: Mapping[_Key, Pattern]) -> None:
        self._patterns = patterns
        self._compiled: dict[_Key, LineMatcher] = {}

    def __contains__(self, key: _Key) -> bool:
        return key in self._patterns

    def __getitem__(self, key: _Key) -> LineMatcher:
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = LineMatcher(self._patterns[key])
        return found


def checked(text: str, *, ignore_case: bool = False) -> Pattern:
    """The pattern, if it can be used.

    Raises:
        PatternError: It is no RE2 syntax, matches everything, or reaches beyond a line.
    """
    if not text.isascii():
        raise PatternError("it has characters outside ASCII", r"Write them as bytes of UTF-8, such as \xc3\xa9 for é")
    if len(text) > MOST_LENGTH:
        raise PatternError(f"it is {len(text)} characters long", f"Keep it under {MOST_LENGTH}, or make two rules")
    pattern = Pattern(text=text, ignore_case=ignore_case)
    try:
        matcher = LineMatcher(pattern)
    except re2.error as error:
        said = error.args[0].decode("latin-1") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise PatternError(
            f"it is no RE2 syntax: {said}",
            "RE2 has no look-around and no back-references; escape ( ) [ ] { } . * + ? |",
        ) from None
    if unfit := next((token for token in _TOKEN.findall(text) if token in _UNFIT), None):
        raise PatternError(
            f"{unfit!r} reaches beyond one line, or sets another flag than (?i)",
            "Match within one line; ^ and $ are its ends",
        )
    if matcher.span(b"") is not None:
        raise PatternError(
            "it matches an empty line, so every line", "Ask for at least one character that must be there"
        )
    return pattern
