"""What the outputs of a site's command for evidence show: each is read as the trace that it is, if it is one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime

from relance.domain.findings import MAX_HITS, RuleHit
from relance.domain.observations import Attachment
from relance.rules.masking import mask
from relance.traces import TraceFile, hits_of, looks_like, read
from relance.traces.hits import TraceRule

TraceRules = Callable[[], Sequence[TraceRule]]
"""What gives the rules that signs of traces are hits of; asked in a thread, when there is something to read."""
_NAMES = ("", "/stacks.txt", "/ncclras.txt")
"""What is put behind an output's name so that it may be a trace: its text says what it is, or its name has to."""
_NOTES, _NOTE_CHARS = 8, 400
_FILE = re.compile(rb"^==> ([^\n]{1,300}) <==\r?\n", re.MULTILINE)
_MOST_PARTS = 4096


def read_outputs(
    pieces: Sequence[Attachment], rules: TraceRules, now: datetime
) -> tuple[tuple[RuleHit, ...], tuple[str, ...]]:
    """What the outputs of a command show, as hits, and what was read of them, in words."""
    parts = [part for piece in pieces for part in _parts_of(piece)]
    files = [TraceFile(name=name, data=part.data) for part in parts if (name := _name_of(part))]
    if not files:
        return (), ("neither output is of a kind that is read by itself: stacks, NCCL RAS, flight recorder",) * bool(
            pieces
        )
    report = read(files)
    hits = hits_of(report.signs, rules(), now, mask=mask)
    notes = [sign.because for sign in report.signs]
    notes += [f"{item.file} cannot be used: {item.why}" for item in report.unreadable]
    return hits[:MAX_HITS], tuple(mask(note)[:_NOTE_CHARS] for note in notes[:_NOTES])


def _parts_of(piece: Attachment) -> list[Attachment]:
    """The files in one output, where each begins with `==> NAME <==` on a line, as `tail` writes it of several."""
    marks = list(_FILE.finditer(piece.data))[:_MOST_PARTS]
    if not marks:
        return [piece]
    ends = [mark.start() for mark in marks[1:]] + [len(piece.data)]
    found = [
        (mark[1].decode("utf-8", "replace"), piece.data[mark.end() : end])
        for mark, end in zip(marks, ends, strict=True)
    ]
    return [
        Attachment(file=f"{piece.file}/{name.rpartition('/')[2]}", start_offset=mark.end(), data=data)
        for mark, (name, data) in zip(marks, found, strict=True)
    ]


def _name_of(piece: Attachment) -> str:
    """The name under which an output is a trace; empty for one that is none."""
    names = (f"{piece.file}{more}" for more in _NAMES)
    return next((name for name in names if looks_like(name, piece.data) is not None), "")
