"""Learning which lines of an unknown format tell steps: lines of one shape with a number that grows by equal gaps.

A shape is a line with its numbers left out. The table of shapes is bounded, and so is what is looked at of one block.
A number counts as a step's by what stands beside it: a word such as `step`, or else only after many repetitions, and
where the line bears a fraction too, such as a loss. Bytes, times, percentages, ports, ranks and attempts are no steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import crc32

from relance.domain.log_texts import line_end, line_start
from relance.progress.dialects import StepText

GAPS_NAMED: Final = 5
"""Equal gaps in a row that a number beside a word such as `step` needs."""
GAPS_UNNAMED: Final = 12
"""Equal gaps in a row that another one needs."""
READS: Final = 3
"""At so many readings at least its line came: what is counted while a program starts comes all at once."""
GAPS_AT_ONCE: Final = 24
"""So many equal gaps do in fewer readings: a log that is over is read in one go."""
MOST_ENTRIES: Final = 96
MOST_LINES: Final = 400
"""Lines looked at of one block, the last ones."""
PATIENCE_LINES: Final = 50_000
"""After so many lines that taught nothing only one block of several is looked at."""
_RARELY: Final = 8
_MOST_LINE_BYTES: Final = 400
_MOST_FIELDS: Final = 4
_MOST_GAP: Final = 100_000
_BESIDE_BYTES: Final = 48
_EXAMPLE_CHARACTERS: Final = 80

_NUMBER = re.compile(rb"(?<![\w./+%@-])(?<!\d:)(\d{1,8})(?![\w%+]|[.:-]\d)")
_ANY_NUMBER = re.compile(rb" *[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_ANY_NUMBER_PATTERN: Final = rb" *[+-]?(?:\d[\d.]*(?:[eE][+-]?\d+)?|nan|inf|NAN|INF)"
_TOTAL = re.compile(rb"^ ?(?:/|of) ?\d+")
_STEP: Final = rb" *(?P<step>\d{1,8})\b(?: ?(?:/|of) ?(?P<total>\d{1,12}))?"
_WORD_BEFORE = re.compile(rb"([A-Za-z_]+)[^A-Za-z0-9\n]{0,4}$")
_WORD_AFTER = re.compile(rb" ?(?:(%)|/? ?\d* ?([A-Za-z_]+))")
_STEPS = frozenset(
    b"step steps iter iters iteration iterations it update updates num_updates global_step train_step batch batches "
    b"minibatch batch_idx training_step global_steps n_iter n_steps".split()
)
_OTHERS = frozenset(
    b"byte bytes b kb mb gb tb kib mib gib ms s sec secs second seconds min minutes h hours time elapsed uptime eta "
    b"timestamp date pid port rank local_rank world_size worker workers node nodes gpu gpus device devices cpu cpus "
    b"core thread process layer layers block head heads shard shards file files part chunk line lines row rows "
    b"attempt attempts retry retries try restart version seed seq seqnum sequence id index opcount request requests "
    b"connection channel peer bucket page size offset memory mem tokens token samples sample examples temperature "
    b"temp power util utilization heartbeat ping poll tick errors warnings len length".split()
)
"""Words beside numbers that count something else."""
_NO_TRAINING = re.compile(
    rb"(?i)heart ?beat|watchdog|monitor|keep-?alive|\bping|\bpoll|waiting|retry|attempt|download|upload|\bload|reading|"
    rb"building|compil|warm-?up|benchmark|autotun|profil|\beval|\bval|\btest|\bcheckpoint|\bsav|tokeniz|preprocess|"
    rb"connect|listen|\bNCCL\b"
)
"""Words before a number on lines that are not of training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedShape:
    """Lines that were found to tell steps. `pattern` (of `re`, for bytes) has the group `step`; `example` shows one."""

    pattern: str
    example: str
    is_named: bool
    """Whether a word says that it is a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """The numbers that may be steps, as `_Entry` has them, oldest first, and what was found.

    `reads` counts readings, the last of which was at `read_at`, `blocks` all blocks, `lines` those looked at.
    """

    entries: tuple[tuple[int, ...], ...] = ()
    read_at: datetime | None = None
    reads: int = 0
    blocks: int = 0
    lines: int = 0
    shape: LearnedShape | None = None

    def seen(self) -> Learning:
        """After a line of the learned shape: others begin anew to prove better."""
        return replace(self, entries=()) if self.entries else self


NOTHING_LEARNED: Final = Learning()
"""Before the first line."""


class _Entry(NamedTuple):
    """One number of one shape: its last value and the one before, the gap, how often that came, and at which reads."""

    last: int
    before: int
    gap: int
    run: int
    first_read: int
    named: int
    """1: a word says that it is a step; 0: nothing does; -1: a word says that it is something else; 2: not asked."""


_Key = tuple[int, int]
_NOT_ASKED: Final = 2


def learn(state: Learning, text: bytes, read_at: datetime) -> Learning:
    """What is known after more text. A new `shape` in it is that of lines that tell steps."""
    reads = state.reads + (read_at != state.read_at)
    state = replace(state, read_at=read_at, reads=reads, blocks=state.blocks + 1)
    if state.lines >= PATIENCE_LINES and state.blocks % _RARELY:
        return state
    lines = text[-MOST_LINES * _MOST_LINE_BYTES :].split(b"\n")[-MOST_LINES:]
    entries = {(entry[0], entry[1]): _Entry(*entry[2:]) for entry in state.entries}
    best: tuple[_Entry, LearnedShape] | None = None
    for whole in lines:
        line = whole[:_MOST_LINE_BYTES]
        for key, match, entry in _taken(line, entries, reads):
            entries[key] = entry
            if _is_enough(entry, reads, line) and (best is None or _rank(entry) > _rank(best[0])):
                best = (entry, _shape_of(line, match, is_named=entry.named > 0))
    kept = tuple((*key, *entry) for key, entry in entries.items())[-MOST_ENTRIES:]
    if best is None:
        return replace(state, entries=kept, lines=state.lines + len(lines))
    return Learning(read_at=read_at, reads=reads, shape=best[1])


def learned_steps(shape: LearnedShape, text: bytes) -> Iterator[tuple[int, StepText]]:
    """The steps of a text on lines of a learned shape, one of each line at most."""
    end = -1
    for match in _compiled(shape.pattern).finditer(text):
        begin = line_start(text, match.start("step"))
        if match.start("step") > end and not _NO_TRAINING.search(text, begin, match.start("step")):
            yield match.start(), StepText(match["step"], match["total"])
            end = line_end(text, match.end())


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode("latin-1"), re.MULTILINE)


def _taken(line: bytes, entries: dict[_Key, _Entry], reads: int) -> Iterator[tuple[_Key, re.Match[bytes], _Entry]]:
    """The numbers of a line that grow, or may."""
    shape: int | None = None
    for field, match in enumerate(_NUMBER.finditer(line)):
        if field >= _MOST_FIELDS:
            return
        if shape is None:
            shape = crc32(_ANY_NUMBER.sub(b"0", line))
        key, value = (shape, field), int(match[1])
        known = entries.pop(key, None)
        if known is None:
            if len(entries) >= 2 * MOST_ENTRIES:
                del entries[next(iter(entries))]
            entries[key] = _Entry(value, value, 0, 0, reads, _NOT_ASKED)
        elif known.named < 0 or value == known.last or value == known.before:  # noqa: PLR1714 - quicker
            entries[key] = known
        else:
            grown = _grown(known, value, reads)
            if grown.run > 1 and grown.named == _NOT_ASKED:
                grown = grown._replace(named=_named(line, match))
            yield key, match, grown


def _grown(known: _Entry, value: int, reads: int) -> _Entry:
    gap = value - known.last
    if gap <= 0 or gap > _MOST_GAP:
        return known._replace(last=value, before=value, gap=0, run=0, first_read=reads)
    if gap == known.gap:
        return known._replace(last=value, before=known.last, run=known.run + 1)
    if known.gap and gap % known.gap == 0:  # lines between were not looked at
        return known._replace(last=value, before=known.last)
    return known._replace(last=value, before=known.last, gap=gap, run=1, first_read=reads)


def _is_enough(entry: _Entry, reads: int, line: bytes) -> bool:
    if entry.named < 0 or entry.run < (GAPS_NAMED if entry.named else GAPS_UNNAMED):
        return False
    if reads - entry.first_read + 1 < READS and entry.run < GAPS_AT_ONCE:
        return False
    return entry.named > 0 or re.search(rb"\d\.\d", line) is not None


def _rank(entry: _Entry) -> tuple[int, int]:
    return entry.named, entry.run


def _named(line: bytes, match: re.Match[bytes]) -> int:
    """What the words beside a number say of it."""
    if _NO_TRAINING.search(line, 0, match.start()):
        return -1
    before = _WORD_BEFORE.search(line, max(0, match.start() - 24), match.start())
    after = _WORD_AFTER.match(line, match.end())
    words = {
        before[1].lower() if before else b"",
        after[2].lower() if after and after[2] else b"",
    }
    if words & _OTHERS or (after and after[1]):
        return -1
    return int(bool(words & _STEPS))


def _shape_of(line: bytes, match: re.Match[bytes], *, is_named: bool) -> LearnedShape:
    """The shape of lines like this one around the number: as little of it as makes it one of its own."""
    begin, end = match.start(1), match.end(1)
    start = max(0, begin - _BESIDE_BYTES)
    before, after = line[start:begin], line[end : end + _BESIDE_BYTES]
    after = _TOTAL.sub(b"", after, count=1)
    words = re.split(rb"\d", before)[-1]
    if is_named and _STEPS & {word.lower() for word in re.findall(rb"[A-Za-z_]+", words)}:
        pattern = re.escape(words.rstrip()) + _STEP
    elif is_named:
        pattern = _STEP + re.escape(re.split(rb"\d", after)[0])
    else:
        pattern = (rb"^" if start == 0 else b"") + _masked(before.rstrip()) + _STEP + _masked(after)
    example = _ANY_NUMBER.sub(_as_letter, line[start : end + _BESIDE_BYTES]).decode("utf-8", "replace").strip()
    return LearnedShape(pattern=pattern.decode("latin-1"), example=example[:_EXAMPLE_CHARACTERS], is_named=is_named)


def _as_letter(number: re.Match[bytes]) -> bytes:
    return b" N" if number[0].startswith(b" ") else b"N"


def _masked(text: bytes) -> bytes:
    """A pattern for the same text with any numbers in it."""
    pieces, position = [], 0
    for number in _ANY_NUMBER.finditer(text):
        pieces += [re.escape(text[position : number.start()]), _ANY_NUMBER_PATTERN]
        position = number.end()
    return b"".join((*pieces, re.escape(text[position:])))
