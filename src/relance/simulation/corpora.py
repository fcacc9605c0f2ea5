"""What the trainer learns: the next letter of a short text, cut into one shard per rank."""

from __future__ import annotations

import random
from collections.abc import Sequence

CONTEXT = 2
"""How many letters the model sees before the one it is to guess."""

TEXT = (
    "a node that fails takes its rank with it and the ranks that wait for it wait in vain "
    "the step is lost and the steps since the last save are lost with it "
    "a save that is whole is worth more than a step that is fast "
    "when the run starts again it reads the last save and goes on from there "
    "the loss that fell before falls again and the run is as if it had never stopped "
    "one rank that is late makes all the ranks late and one node that is broken breaks the run each time "
    "so leave that node out and let the rest go on "
)
ALPHABET = "abcdefghijklmnopqrstuvwxyz "
_INDEX = {letter: number for number, letter in enumerate(ALPHABET)}
_DAMAGED = "~"
"""What a damaged record holds where a letter should be."""

_SHORTEST = 16
"""Letters in the shortest shard: beyond some ranks, shards overlap."""

Sample = tuple[tuple[int, ...], int]
"""The letters before, and the letter to guess, as numbers."""


class Shard:
    """The part of the text that one rank learns from.

    The samples of a step depend on seed, rank and step alone: a resumed run sees what an uninterrupted one sees.

    Args:
        rank: Whose shard.
        ranks: Over how many ranks the text is cut.
        seed: Which order.
    """

    def __init__(self, *, rank: int, ranks: int, seed: int) -> None:
        length = max(len(TEXT) // ranks, _SHORTEST)
        start = rank * (len(TEXT) - length) // max(ranks - 1, 1)
        self._text = TEXT[start : start + length]
        self._key = f"{seed}/{rank}"

    def samples(self, step: int, count: int, *, damaged: bool = False) -> list[Sample]:
        """The samples of one step, with one damaged record among them if so asked.

        Raises:
            KeyError: A record is damaged.
        """
        order = random.Random(f"{self._key}/{step}")
        starts = [order.randrange(len(self._text) - CONTEXT) for _ in range(count)]
        records = [self._text[start : start + CONTEXT + 1] for start in starts]
        if damaged:
            records[0] = records[0][:CONTEXT] + _DAMAGED
        return [(tuple(encoded(record[:CONTEXT])), encoded(record[CONTEXT])[0]) for record in records]


def held_out(count: int) -> list[Sample]:
    """The samples of an evaluation."""
    starts = [(7 * number) % (len(TEXT) - CONTEXT) for number in range(count)]
    return [(tuple(encoded(TEXT[at : at + CONTEXT])), encoded(TEXT[at + CONTEXT])[0]) for at in starts]


def encoded(letters: Sequence[str]) -> list[int]:
    """The letters as numbers.

    Raises:
        KeyError: One is not in the alphabet.
    """
    return [_INDEX[letter] for letter in letters]
