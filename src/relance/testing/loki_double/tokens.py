"""LogQL in tokens, read as strictly as the real one does."""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|`[^`]*`)
  | (?P<duration>(?:\d+(?:\.\d+)?(?:ns|us|ms|s|m|h|d|w|y))+(?![A-Za-z0-9_]))
  | (?P<number>\d+(?:\.\d+)?(?![A-Za-z_]))
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<sign>\|=|\|~|!=|!~|=~|==|>=|<=|[{}()\[\],|=><])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"""\\(?:(?P<simple>[abfnrtv\\"'])|x(?P<byte>[0-9a-fA-F]{2})|u(?P<short>[0-9a-fA-F]{4})"""
    r"""|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[0-7]{3})|(?P<wrong>.?))""",
    re.DOTALL,
)
_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34, "'": 39}


class QueryError(ValueError):
    """A query that the real one refuses; the text is the answer's."""


class Token(NamedTuple):
    """One token: its kind, its text (of a string what it stands for), and where it begins."""

    kind: str
    text: str
    at: int


def tokens_of(query: str) -> list[Token]:
    """The tokens of a query, with one for its end. Raises QueryError."""
    found: list[Token] = []
    at = 0
    while at < len(query):
        match = _TOKEN.match(query, at)
        if match is None:
            raise syntax_error(query, at, f"unexpected {query[at]!r}")
        kind = str(match.lastgroup)
        text = match[0]
        if kind == "string":
            text = text[1:-1] if text[0] == "`" else _unquoted(query, text, at)
        if kind != "space":
            found.append(Token(kind, text, at))
        at = match.end()
    found.append(Token("end", "$end", len(query)))
    return found


def syntax_error(query: str, at: int, what: str) -> QueryError:
    """The error for a place in a query."""
    line = query.count("\n", 0, at) + 1
    column = at - (query.rfind("\n", 0, at) + 1) + 1
    return QueryError(f"parse error at line {line}, col {column}: syntax error: {what}")


def _unquoted(query: str, text: str, at: int) -> str:
    def value(found: re.Match[str]) -> bytes:
        if found["simple"]:
            return bytes([_SIMPLE[found["simple"]]])
        if found["byte"]:
            return bytes([int(found["byte"], 16)])
        if found["octal"] and int(found["octal"], 8) < 256:
            return bytes([int(found["octal"], 8)])
        code = int(found["short"] or found["long"] or "110000", 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF or found["simple"] == "'":
            raise syntax_error(query, at, "invalid syntax")
        return chr(code).encode()

    inner, parts, last = text[1:-1], [], 0
    for found in _ESCAPE.finditer(inner):
        parts += [inner[last : found.start()].encode(), value(found)]
        last = found.end()
    return b"".join([*parts, inner[last:].encode()]).decode("utf-8", "replace")
