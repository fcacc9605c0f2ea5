"""The plain text that a pattern asks for: what an engine can look for before anything else."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"(?P<escape>\\x[0-9a-fA-F]{2}|\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\((?:\?(?:P?<\w+>|[ims-]*:))?)"
    r"|(?P<repeat>[*+?]\??|\{\d+(?:,\d*)?\}\??)|(?P<other>.)",
    re.DOTALL,
)
_CLASSES = frozenset("dDwWsSbBAzpP")


def least_literal(pattern: str) -> int:
    """How long a text is in every line that matches: of each alternative its longest, of these the least."""
    tokens = [(match.lastgroup or "", match.group()) for match in _TOKEN.finditer(pattern)]
    return _Reader(tokens).alternatives()


class _Reader:
    """Reads tokens of a pattern from left to right."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def alternatives(self) -> int:
        """The least over alternatives, up to the end of the group."""
        least = self._sequence()
        while self._taken("|"):
            least = min(least, self._sequence())
        return least

    def _sequence(self) -> int:
        """The longest text of one alternative."""
        best = run = 0
        while self._at < len(self._tokens) and self._tokens[self._at][1] not in ("|", ")"):
            kind, text = self._tokens[self._at]
            self._at += 1
            inner = self._group() if kind == "open" else None
            optional, repeated = self._repeat()
            if inner is not None:
                best, run = max(best, run, 0 if optional else inner), 0
            elif _is_plain(kind, text) and not optional:
                run += 1
                best = max(best, run)
                run = 1 if repeated else run
            else:
                run = 0
        return max(best, run)

    def _group(self) -> int:
        inner = self.alternatives()
        self._taken(")")
        return inner

    def _repeat(self) -> tuple[bool, bool]:
        """Whether what stands before may be left out, and whether it may come again."""
        if self._at >= len(self._tokens) or self._tokens[self._at][0] != "repeat":
            return False, False
        text = self._tokens[self._at][1]
        self._at += 1
        return text.startswith(("*", "?", "{0")), True

    def _taken(self, text: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at][1] == text
        self._at += found
        return found


def _is_plain(kind: str, text: str) -> bool:
    if kind == "escape":
        return text[1] not in _CLASSES
    return kind == "other" and text not in (".", "^", "$")
