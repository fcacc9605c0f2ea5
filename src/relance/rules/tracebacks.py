"""Python tracebacks in interleaved logs: from the first line to the exception, whoever else writes in between.

Quiet text is only searched for the words that begin a traceback, by the engine that looks for the rules. While one is
open, lines are looked at one by one and told apart by their labels; what is open at the end of a block is handed to the
next.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from relance.domain.log_labels import read_label
from relance.domain.log_texts import line_end
from relance.rules.masking import mask
from relance.rules.patterns import Pattern

MOST_OPEN = 64
"""Tracebacks of one file that are kept from block to block; those that went longest without a line are dropped."""
MOST_IDLE_LINES = 5000
"""Lines of others after which a traceback that does not go on is given up."""
_MOST_ODD_LINES = 8
_TAIL_LINES = 6
_TAIL_LINE_BYTES = 200

_HEAD = b"Traceback (most recent call last)"
_LINKS = (b"During handling of the above exception", b"The above exception was the direct cause")
MENTIONS = (
    Pattern(text=r"Traceback \(most recent call last\)"),
    Pattern(text="During handling of the above exception|The above exception was the direct cause"),
)
"""What a line has that begins a traceback or announces one."""
_FRAME = re.compile(rb'\s+File "([^"\n]{1,400})", line (\d{1,9})(?:, in ([^\n]{1,200}))?')
_LAST = re.compile(rb"((?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*))(?:\[[^\]\n]{0,100}\])?(?::(?: |$)|$)")
_LEVELS = {b"DEBUG", b"INFO", b"NOTICE", b"WARN", b"WARNING", b"ERROR", b"CRITICAL", b"FATAL", b"NOTE", b"TRACE"}
_FOREIGN = re.compile(rb"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python\d|^<frozen |^<string>$")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTraceback:
    """A traceback whose exception has not come yet, or (`waiting`) the sentence that announces one more of a chain.

    `margin` is the width of the drawing that an exception group stands in, `tail` its last lines, masked.
    """

    key: str
    margin: int = 0
    chained: bool = False
    waiting: bool = False
    frame: str | None = None
    own: bool = False
    tail: tuple[str, ...] = ()
    idle_lines: int = 0
    odd_lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTraceback:
    """A traceback with the line that names the exception.

    `body` is where that line's own text begins, after its labels. `frame` is the innermost frame of the job's own code,
    else of any: `file:line in function`. `tail` has the last lines before the exception, masked. `chained` says that
    the exception came of another one before it.
    """

    body: int
    exception: str
    frame: str | None
    tail: tuple[str, ...]
    chained: bool


def follow(
    text: bytes, start: int, carried: Iterable[OpenTraceback], mentions: Sequence[int]
) -> tuple[Mapping[int, EndedTraceback], tuple[OpenTraceback, ...]]:
    """The tracebacks that end in the text, by the start of their last line, and those still open at its end.

    Args:
        text: Lines, cleaned.
        start: Where the first line that is to be looked at starts.
        carried: What was open at the end of the text before.
        mentions: Where lines start that match one of `MENTIONS`, in rising order.
    """
    open_now = {each.key: _Reading.of(each) for each in carried}
    ended: dict[int, EndedTraceback] = {}
    position, lines = start, 0
    while position < len(text):
        if not open_now:
            after = bisect_left(mentions, position)
            if after == len(mentions):
                break
            position = mentions[after]
        end, lines = line_end(text, position), lines + 1
        if found := _take(text[position:end], lines, open_now):
            ended[position] = found
        if lines % 1000 == 0:
            _give_up(open_now, lines)
        position = end + 1
    _give_up(open_now, lines)
    latest = sorted(open_now.values(), key=lambda each: -each.line)[:MOST_OPEN]
    return ended, tuple(each.carried(lines) for each in latest)


@dataclass(slots=True, kw_only=True)
class _Reading:
    """An open traceback while its text is read; `line` is the number of its last line in this text."""

    key: str
    line: int = 0
    margin: int = 0
    chained: bool = False
    waiting: bool = False
    frame: bytes | None = None
    own: bool = False
    tail: list[bytes] = field(default_factory=list)
    odd_lines: int = 0

    @classmethod
    def of(cls, carried: OpenTraceback) -> _Reading:
        return cls(
            key=carried.key,
            line=-carried.idle_lines,
            margin=carried.margin,
            chained=carried.chained,
            waiting=carried.waiting,
            frame=None if carried.frame is None else carried.frame.encode(),
            own=carried.own,
            tail=[line.encode() for line in carried.tail],
            odd_lines=carried.odd_lines,
        )

    def carried(self, lines: int) -> OpenTraceback:
        return OpenTraceback(
            key=self.key,
            margin=self.margin,
            chained=self.chained,
            waiting=self.waiting,
            frame=_shown(self.frame),
            own=self.own,
            tail=self.shown_tail(),
            idle_lines=lines - self.line,
            odd_lines=self.odd_lines,
        )

    def shown_tail(self) -> tuple[str, ...]:
        return tuple(mask(line.decode("utf-8", "replace")) for line in self.tail)

    def take_inner(self, body: bytes) -> None:
        """One of the indented lines: a frame, its code, its marks."""
        self.tail = [*self.tail[1 - _TAIL_LINES :], body[:_TAIL_LINE_BYTES].rstrip()]
        if match := _FRAME.match(body):
            file, number, function = match.groups()
            own = _FOREIGN.search(file) is None
            if own or not self.own:
                self.frame, self.own = b"%s:%s in %s" % (file, number, (function or b"<file>").rstrip()), own


def _take(line: bytes, number: int, open_now: dict[str, _Reading]) -> EndedTraceback | None:
    """Let one line tell on the open tracebacks; the traceback that it ends, if it ends one."""
    label = read_label(line)
    key, body_start = label.key, label.length
    if key not in open_now and "" in open_now and line.startswith(b"  "):
        key, body_start = "", 0  # a line of code that begins like a label
    body = line[body_start:]
    current = open_now.get(key)
    if (head := body.find(_HEAD)) >= 0:
        margin = head - len(body[:head].lstrip(b" |+"))
        chained = current is not None and (current.waiting or (margin > 0 and current.chained))
        open_now[key] = _Reading(key=key, line=number, margin=margin, chained=chained)
    elif body.lstrip(b" |+").startswith(_LINKS):
        open_now[key] = _Reading(key=key, line=number, waiting=True)
    elif current is not None:
        current.line = number
        return _go_on(body, body_start, current, open_now)
    return None


def _go_on(body: bytes, body_start: int, current: _Reading, open_now: dict[str, _Reading]) -> EndedTraceback | None:
    """One more line of the writer of an open traceback."""
    if not body[: current.margin].strip(b" |+"):
        body, body_start = body[current.margin :], body_start + current.margin
    if not body.strip():
        return None
    if body[:1] in b" \t" and not current.waiting:
        current.take_inner(body)
        return None
    match = None if current.waiting else _LAST.match(body)
    if match is None or not _names_an_exception(match[1], match[2]):
        current.odd_lines += 1
        if current.waiting or current.odd_lines > _MOST_ODD_LINES:
            del open_now[current.key]
        return None
    del open_now[current.key]
    return EndedTraceback(
        body=body_start,
        exception=match[1].decode("ascii"),
        frame=_shown(current.frame),
        tail=current.shown_tail(),
        chained=current.chained,
    )


def _names_an_exception(dotted: bytes, last: bytes) -> bool:
    """Classes begin with a capital, but for some in modules, such as `struct.error`."""
    return last not in _LEVELS and (last[:1].isupper() or b"." in dotted)


def _give_up(open_now: dict[str, _Reading], number: int) -> None:
    for key in [each.key for each in open_now.values() if number - each.line >= MOST_IDLE_LINES]:
        del open_now[key]


def _shown(text: bytes | None) -> str | None:
    return None if text is None else mask(text.decode("utf-8", "replace"))
