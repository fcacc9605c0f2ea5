"""Covers: a few texts to look for, so that of each need at least one text has one of them in it.

A store's engine (Go's regexp, in Loki as in VictoriaLogs) pays, at each character of a line, for each way in which a
match could begin there, and hardly for how many go on in the same way. So case does not count in any text, pieces that
begin with one of five letters are preferred to others, and texts beyond ASCII are looked for by single characters.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from relance.rules.needs import Need

_RARE = 4
"""So many bytes are rare enough, unless they are in what healthy logs are full of."""
_LENGTH = 5
"""Of the pieces of a text that are tried; a text that is shorter itself is taken whole."""
_LONGEST = 40
_BEGINNINGS = frozenset("aeiou")
_AWKWARD = 3.0
_PER_BYTE = 0.06
_COMMON = 60.0
_OF_PROGRESS = (
    "lm loss: loss scale: number of skipped iterations: number of nan iterations: 'loss': \"loss\": grad norm: "
    "'grad_norm': global batch size: learning rate: elapsed time per iteration consumed samples step steps epoch "
    "iteration iterations batch size update memory: tflops mfu throughput tokens per second per device: "
)
"""What lines of progress say: they travel anyway."""
_OF_CHATTER = (
    "connected all rings trees info debug warning warnings root rank ranks time line file nccl info init channel "
    "channels via p2p ipc read net plugin torch cuda python site-packages gpu gpus device devices node nodes host "
    "hosts worker workers train data dataloader with this that from none null true false value values default using "
    "http https get post request requests json module model config path version driver kernel usb pci systemd "
    "service session user users kworker cpu cpus tokens seen by "
)
"""Words that other lines of healthy jobs and kernels are full of: looked for only if all else fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """What to look for: `texts` in lower case, in which case does not count, or one of the characters of `letters`."""

    texts: tuple[str, ...]
    letters: str


def cover(needs: Iterable[Need]) -> Cover:
    """Texts, few and rare ones rather than others, of which each need has one in one of its texts."""
    wanted = list(needs)
    abroad = [need for need in wanted if not any(text.isascii() for text in need.texts)]
    letters = "".join(sorted(_greedy(abroad, _letters)))
    texts = tuple(sorted(_greedy([need for need in wanted if need not in abroad], _pieces)))
    return Cover(texts=texts, letters=letters)


def is_common(need: Need) -> bool:
    """Whether there is nothing in a need but what healthy logs are full of beside lines of progress."""
    return all(_is_common(piece) for text in need.texts for piece in (*_pieces(text), *_letters(text)))


def _greedy(needs: Sequence[Need], pieces_of: Callable[[str], set[str]]) -> Iterator[str]:
    """What covers most for its cost comes first, until all is covered."""
    covered_by: dict[str, set[int]] = {}
    for at, need in enumerate(needs):
        for text in need.texts:
            for piece in pieces_of(text):
                covered_by.setdefault(piece, set()).add(at)
    heap = [(-len(covers) / _cost(piece), piece) for piece, covers in covered_by.items()]
    heapq.heapify(heap)
    left = set(range(len(needs)))
    while left:
        _, piece = heapq.heappop(heap)
        covers = covered_by[piece] & left
        if not covers:
            continue
        gain = -len(covers) / _cost(piece)
        if heap and gain > heap[0][0]:
            heapq.heappush(heap, (gain, piece))
            continue
        left -= covers
        yield piece


def _letters(text: str) -> set[str]:
    """The characters of a text that are not ASCII."""
    return {letter for letter in text if not letter.isascii()}


def _pieces(text: str) -> set[str]:
    """What of a text can be looked for, and the whole of it if it is not long."""
    if not text.isascii():
        return set()
    lower = text.lower()
    found = {lower} if len(lower) <= _LONGEST else set()
    found |= {lower[at : at + _LENGTH] for at in range(len(lower) - _LENGTH + 1)}
    return {piece for piece in found if piece.strip()}


def _cost(piece: str) -> float:
    awkward = 0.0 if piece[0] in _BEGINNINGS else _AWKWARD
    return 1.0 + awkward + (_COMMON if _is_common(piece) else 0.0) + _PER_BYTE * len(piece)


def _is_common(piece: str) -> bool:
    if not piece.isascii():
        return False
    if piece.strip() in _OF_PROGRESS and len(piece.strip()) >= _RARE:
        return False
    return len(piece) < _RARE or piece.strip() in _OF_CHATTER
