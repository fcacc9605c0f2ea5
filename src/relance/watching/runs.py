"""Runs: where one output begins another run of its program, as banners of scripts and launchers say.

An operator often has the outputs of several tries in one file; what failed in the first must not be taken for what
failed in the last, and what fails each time is no accident.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from relance.domain.log_texts import LogText
from relance.domain.observations import LogBlock
from relance.rules.engines import Engine, Re2Engine
from relance.rules.patterns import LineMatcher, Pattern

MOST_RUNS = 50
"""Runs of one output that are told apart; what comes after belongs to the last."""
_WORD = "(?i:run|attempt|try|retry|restart|trial|launch|cycle)"
_BANNER = rf"^[ \t]{{0,8}}(?:[=#*>+~-]{{1,80}}|\[)[ \t]{{0,4}}{_WORD}[ #=:_-]{{1,3}}(?P<run>\d{{1,5}})\b"
_LAUNCHES = (
    r"Rendezvous'ing worker group \(attempt (?P<run>\d{1,5})\)",
    r"Rendezvous complete for workers\. Result: restart_count=(?P<run>\d{1,5})\b",
    r"SLURM_RESTART_COUNT[=: ]{1,3}(?P<run>\d{1,5})\b",
    r"Decision: RETRY.{0,160}? errors allowed: (?P<run>\d{1,3})/\d",
    r"(?i:retry|restart|relaunch)[a-z]*[^\n]{0,60}\((?i:attempt|try|retry) (?P<run>\d{1,3})/\d{1,3}\)",
    rf"(?i:starting|launching) (?i:training )?{_WORD} #?(?P<run>\d{{1,5}})\b",
)
_UNNUMBERED = (
    r"^[ \t]{0,8}={2,80}[^=\n]{0,80}\b(?i:start|restart|relaunch|resubmit|rerun|resume)(?:ed|s)?\b"
    r"[^=\n]{0,80}={2,80}[ \t]*$"
)
_AGAIN = (
    r"^[ \t]{0,8}[=-]{2,80}[ \t]{0,4}(?i:(?:second|third|fourth|next|another|new) (?:try|run|attempt|start)"
    r"|retr(?:y|ied)|resubmi\w{1,8}|rerun|relaunch(?:ed)?|run again|tried again|started again)\b"
    r"[^=\n]{0,80}[=-]{2,80}[ \t]*$"
)
PATTERNS = (_BANNER, *_LAUNCHES, _UNNUMBERED, _AGAIN)
"""What tells that a run may begin."""
_PATTERNS = tuple(Pattern(text=text) for text in PATTERNS)
_LAST = len(PATTERNS) - 1
_ON_NODE = re.compile(rb"\bon (?:node )?([A-Za-z][\w.-]*\d)(?=[\s)\]=-]|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a run begins: the byte of its banner's line in the output, its number, and the node that it names.

    `by_hand` says that somebody, or a script of theirs, began it, not a restarter inside the job.
    """

    offset: int
    number: int
    node: str | None = None
    by_hand: bool = True


def starts_of(blocks: Iterable[LogBlock], engine: Engine | None = None) -> tuple[Start, ...]:
    """Where further runs begin in one output, in order; empty where there is only one.

    Banners count first; what launchers print only where there are none, since a run may restart its workers in itself.
    A line that says that it is tried again begins a further run each time, as the first begins without one.
    `engine` finds lines by `PATTERNS`; None: RE2.
    """
    engine, matchers = engine or Re2Engine(_PATTERNS), [LineMatcher(pattern) for pattern in _PATTERNS]
    banners: list[Start] = []
    launches: list[Start] = []
    unnumbered: list[Start] = []
    again: list[Start] = []
    for block in blocks:
        log = LogText(block.data)
        for begin, end, index in engine.find(log.text):
            line = log.text[begin:end]
            captures = matchers[index].captures(line) or {}
            node = _ON_NODE.search(line)
            by_hand = index == 0 or "run" not in captures
            found = banners if index == 0 else launches if not by_hand else again if index == _LAST else unnumbered
            start = Start(
                offset=block.offset + log.raw_start(begin),
                number=int(captures.get("run", len(found) + 1)),
                node=node[1].decode("ascii", "replace") if node else None,
                by_hand=by_hand,
            )
            # Several nodes tell the same restart, and old banners may be quoted: a run has a number above all before.
            if len(found) <= MOST_RUNS and (not found or start.number > found[-1].number):
                found.append(start)
    several = next((each for each in (banners, unnumbered) if len(each) > 1), None)
    if several is None and again:
        return tuple(again[:MOST_RUNS])
    return tuple((several or launches)[1:])
