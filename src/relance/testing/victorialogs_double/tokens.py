"""LogsQL in tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`|'(?:[^'\\\n]|\\.)*')
  | (?P<word>[\w$][\w.$/-]*)
  | (?P<sign>!~|!=|=~|:~|>=|<=|[{}()\[\],|=><:~!*-])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([abfnrtv\\\"']))")
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class QueryError(ValueError):
    """A query that the real one refuses; the text is the answer's."""


class Token(NamedTuple):
    """One token: its kind, its text (of a string what it stands for), and where it ends."""

    kind: str
    text: str
    end: int


def tokens_of(query: str) -> list[Token]:
    """The tokens of a query, with one for its end. Raises QueryError."""
    found: list[Token] = []
    at = 0
    while at < len(query):
        match = _TOKEN.match(query, at)
        if match is None:
            raise query_error(query, f"unexpected token {query[at]!r}", at)
        at = match.end()
        kind, text = str(match.lastgroup), match[0]
        if kind == "string":
            text = text[1:-1] if text[0] == "`" else _ESCAPE.sub(_character, text[1:-1])
        if kind != "space":
            found.append(Token(kind, text, at))
    found.append(Token("end", "", len(query)))
    return found


def query_error(query: str, what: str, at: int) -> QueryError:
    """The error for a place in a query."""
    return QueryError(f"cannot parse query [{query}]: {what}; context: [{query[:at]}]\n")


def _character(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    return chr(int(code, 16)) if code else _CONTROLS.get(found[4], found[4])
