"""A step pattern of the site's or the job's own: RE2 syntax with named groups, checked when it is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import re2

from relance.progress.dialects import StepText, Told
from relance.progress.marks import MarkText

STEP_GROUPS: Final = ("step", "total", "loss", "grad_norm", "step_time_s", "step_time_ms", "throughput")
"""The groups that tell of a step; `step` is the one that a pattern must have."""
SAVE_GROUPS: Final = {"saving": Told.SAVE_BEGUN, "saved": Told.SAVED}
"""The groups of other lines, of another branch of the pattern: which step is being saved, and which is saved."""
GROUPS: Final = (*STEP_GROUPS, *SAVE_GROUPS)
MOST_LENGTH = 2000
_KNOWN = ", ".join(GROUPS)


class PatternError(ValueError):
    """A step pattern cannot be used; the text says why, `remedy` what to do."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class OwnPattern:
    r"""A step pattern, compiled.

    Args:
        text: The pattern, such as `step (?P<step>\d+)/(?P<total>\d+) loss (?P<loss>\S+)`; within one line. Saves may
            be told by branches of it, such as `|saving step (?P<saving>\d+)|saved step (?P<saved>\d+)`.

    Raises:
        PatternError: It cannot be used.
    """

    __slots__ = ("_groups", "_regexp", "text")

    def __init__(self, text: str) -> None:
        if not text.isascii() or len(text) > MOST_LENGTH:
            raise PatternError(
                f"the step pattern is not ASCII, or longer than {MOST_LENGTH} characters",
                r"Write other characters as bytes of UTF-8, such as \xc3\xa9 for é",
            )
        try:
            self._regexp: Any = re2.compile(f"(?m:{text})".encode("ascii"), _options())
        except re2.error as error:
            raise PatternError(
                f"the step pattern is no RE2 syntax: {_said(error)}",
                "RE2 has no look-around and no back-references; escape ( ) [ ] { } . * + ? |",
            ) from None
        self.text = text
        self._groups = {name.decode("ascii"): at for name, at in self._regexp.groupindex.items()}
        self._check()

    def find(self, text: bytes) -> Iterator[tuple[int, StepText]]:
        """The steps that the text tells of, each with its position; at most one of each line."""
        for match in self._lines(text):
            if match[self._groups["step"]]:
                taken = {name: match[at] for name, at in self._groups.items() if name in STEP_GROUPS}
                yield match.start(), StepText(**taken)

    def find_marks(self, text: bytes) -> Iterator[tuple[int, MarkText]]:
        """The saves that the text tells of, each with its position."""
        told = [(at, SAVE_GROUPS[name]) for name, at in self._groups.items() if name in SAVE_GROUPS]
        for match in self._lines(text) if told else ():
            for at, what in told:
                if match[at]:
                    yield match.start(), MarkText(what, {"step": match[at]})

    def _lines(self, text: bytes) -> Iterator[Any]:
        """The first match of each line."""
        position = 0
        while position < len(text) and (match := self._regexp.search(text, position)):
            yield match
            end = text.find(b"\n", match.start())
            position = len(text) if end < 0 else end + 1

    def _check(self) -> None:
        names = set(self._groups)
        if unknown := sorted(names - set(GROUPS)):
            raise PatternError(f"the step pattern has a group {unknown[0]!r}", f"Known groups are {_KNOWN}")
        if "step" not in names:
            raise PatternError("the step pattern has no group for the step", r"Add one, such as (?P<step>\d+)")
        if {"step_time_s", "step_time_ms"} <= names:
            raise PatternError("the step pattern has the step's time twice", "Keep step_time_s or step_time_ms")
        if self._regexp.search(b"") is not None:
            raise PatternError("the step pattern matches an empty line", r"Ask for a digit: (?P<step>\d+)")


def _options() -> re2.Options:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_nl = True
    options.log_errors = False
    return options


def _said(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    return first.decode("latin-1") if isinstance(first, bytes) else str(first)
