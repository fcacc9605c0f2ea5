"""Which rank a file is about, by its name."""

from __future__ import annotations

import re

_WITH_WORD = re.compile(r"rank[-_.=]?(\d{1,6})(?!\d)", re.IGNORECASE)
_AFTER_WORD = re.compile(r"(?:dump|trace|worker|fr|stack|pyspy|spy|py-spy)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_TRAILING = re.compile(r"(?:^|[^\d])(\d{1,6})(?:\.[a-z]{1,8}){0,2}$", re.IGNORECASE)


def rank_of_name(name: str) -> int | None:
    """The rank that a file's name tells: `nccl_trace_rank_3`, `fr_12.json`, `x-rank3.pkl`, or its last number."""
    base = name.rpartition("/")[2]
    for pattern in (_WITH_WORD, _AFTER_WORD, _TRAILING):
        found = pattern.findall(base)
        if found:
            return int(found[-1])
    return None


def rank_in_name(name: str) -> int | None:
    """The rank where the name says so by the word, as against any number in it."""
    found = _WITH_WORD.findall(name.rpartition("/")[2])
    return int(found[-1]) if found else None
