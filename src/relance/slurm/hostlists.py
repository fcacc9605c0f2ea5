"""Slurm's short form of node names: `gpu[001-003,7],x1` to names and back, bounded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby, product

from relance.slurm.errors import BadArgumentError, UnreadableError

MAX_NAMES = 65_536
"""More names than the largest clusters have nodes; Slurm's own limit for one list is as large (MAX_SLURM_NODES)."""

_NAME = re.compile(r"(?!(?i:all)\Z)[A-Za-z0-9](?:[A-Za-z0-9._-]{0,254})\Z", re.ASCII)
_PIECE = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?\Z", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(\d{1,9})\Z", re.ASCII)
_NOTHING = frozenset({"", "(null)", "None assigned", "N/A", "n/a"})


@lru_cache(maxsize=8192)
def expand(text: str) -> tuple[str, ...]:
    """The names of a list in Slurm's order, repetitions kept; none for the words that Slurm prints for "no nodes".

    Raises:
        UnreadableError: Not such a list, or one of more than `MAX_NAMES` names.
    """
    if text in _NOTHING:
        return ()
    names: list[str] = []
    for part in _parts(text):
        names.extend(_expand_part(part, text, MAX_NAMES - len(names)))
    return tuple(names)


def compress(names: Iterable[str]) -> str:
    """The shortest common form: sorted, without repetitions, numbers of one width and prefix as ranges.

    Raises:
        BadArgumentError: A name that is not a node's name.
    """
    numbered: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        match = _NUMBERED.match(checked_name(name))
        if match is None or not match[1]:
            plain.append(name)
        else:
            numbered.setdefault((match[1], len(match[2])), []).append(int(match[2]))
    lists = [_compress_group(prefix, width, sorted(numbers)) for (prefix, width), numbers in sorted(numbered.items())]
    return ",".join([*plain, *lists])


def checked_name(name: str) -> str:
    """The name itself if it may enter a command.

    Raises:
        BadArgumentError: Anything but letters, digits, points, hyphens and underscores, or a first sign that is not
            a letter or a digit.
    """
    if _NAME.match(name) is None:
        raise BadArgumentError(f"Not the name of a node: {name[:80]!r}. Nothing was run.", text=name[:200])
    return name


def _parts(text: str) -> list[str]:
    """The list cut at the commas outside brackets."""
    parts: list[str] = []
    start, depth = 0, 0
    for index, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if depth not in (0, 1):
            raise _unreadable(text)
        if sign == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    if depth:
        raise _unreadable(text)
    return [*parts, text[start:]]


def _expand_part(part: str, text: str, room: int) -> list[str]:
    """One name with any number of bracket groups; the last group varies fastest, as Slurm prints it."""
    choices: list[list[str]] = []
    count = 1
    rest = part
    while rest:
        if rest[0] == "[":
            inside, closed, rest = rest[1:].partition("]")
            if not closed:
                raise _unreadable(text)
            choices.append(_expand_group(inside, text, room))
        else:
            match = _PIECE.match(rest)
            if match is None:
                raise _unreadable(text)
            choices.append([match[0]])
            rest = rest[match.end() :]
        count *= len(choices[-1])
        if count > room:
            raise _too_many(text)
    if not choices:
        raise _unreadable(text)
    return ["".join(each) for each in product(*choices)]


def _expand_group(inside: str, text: str, room: int) -> list[str]:
    numbers: list[str] = []
    for piece in inside.split(","):
        match = _RANGE.match(piece)
        if match is None:
            raise _unreadable(text)
        first, width = int(match[1]), len(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            raise _unreadable(text)
        if len(numbers) + last - first + 1 > room:
            raise _too_many(text)
        numbers.extend(f"{number:0{width}d}" for number in range(first, last + 1))
    return numbers


def _compress_group(prefix: str, width: int, numbers: list[int]) -> str:
    runs: list[str] = []
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        first, last = f"{run[0]:0{width}d}", f"{run[-1]:0{width}d}"
        runs.append(first if len(run) == 1 else f"{first}-{last}")
    if len(numbers) == 1:
        return prefix + runs[0]
    return f"{prefix}[{','.join(runs)}]"


def _unreadable(text: str) -> UnreadableError:
    return UnreadableError(f"Not a list of nodes: {text[:80]!r}.", text=text[:200])


def _too_many(text: str) -> UnreadableError:
    return UnreadableError(f"A list of more than {MAX_NAMES} nodes: {text[:80]!r}.", text=text[:200])
