"""Covers: a few texts to look for, so that of each need at least one text has one of them in it."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence

from relance.rules.needs import Need, Text

_WORD = re.compile(r"[^\W_]+|[^\w\s]+|_+", re.ASCII)
_LEAST = 4
"""Shorter pieces of a text are in too many lines; a text that is shorter itself is taken whole."""
_RARE = 5
"""So many bytes are rare enough, unless they are in what healthy logs are full of."""
_LETTERS = re.compile(r"[A-Za-z]+")
_STEM = 5
"""Letters of a piece out of a word: several words have it."""
_ABROAD = re.compile(r"[^\x00-\x7f]+")
_STEM_ABROAD = 3
_MOST_WORDS = 4
_LONGEST = 40
_OF_HEALTHY_LOGS = (
    "lm loss: loss scale: number of skipped iterations: number of nan iterations: 'loss': \"loss\": grad norm: "
    "'grad_norm': global batch size: speed: overflow skipping "
    "info warning root rank step steps train training loss lm_loss grad_norm tokens samples skipped scale batch size "
    "iteration iterations number elapsed time per learning rate consumed global norm memory tflops mfu epoch "
    "learning_rate device devices seconds completed logging log_dist total weights data checkpoint checkpoints ckpt "
    "saving saved loading loaded successfully line file model module models config evaluation eval validation "
    "optimizer parameters params layers using version torch cuda nccl init channel channels via p2p net plugin "
    "network process group groups worker workers node nodes cluster world initialized initializing started starting "
    "start done from with this that will when which after before because have been used none null true false "
    "default value values directory path cache build python site-packages dataset dataloader dataloaders "
    "token tokenizer tokenizers shard shards throughput reserved allocated allocated_memory update state states "
    "json yaml http https wandb run runs job jobs slurm server client port host hosts address addresses connected "
    "connection ready nccl info step 1 file line gpu gpus "
    "driver kernel usb pci systemd service session user users kworker cpu cpus"
)
"""Words that lines of healthy jobs and kernels are full of: what is in them is looked for only if all else fails."""
_COMMON = 60.0
_PER_BYTE = 0.06


def cover(needs: Iterable[Need], known: Sequence[Text] = ()) -> tuple[Text, ...]:
    """Texts, few and rare ones rather than others, of which each need has one in one of its texts.

    `known` are texts that are looked for anyway. Case does not count in what comes of needs in which it does not.
    """
    chosen: list[Text] = []
    for folded in (True, False):
        left = [
            need
            for need in needs
            if any(text.folded is folded for text in need.texts) and not _is_covered(need, [*known, *chosen])
        ]
        chosen += _greedy(left, folded=folded)
    return tuple(chosen)


def is_common(need: Need) -> bool:
    """Whether there is nothing in a need but what healthy logs are full of."""
    return all(_is_common(piece) for text in need.texts for piece in _pieces(text.text))


def _is_covered(need: Need, chosen: Sequence[Text]) -> bool:
    return any(
        each.text in (text.text.lower() if each.folded else text.text)
        for text in need.texts
        for each in chosen
        if each.folded or not text.folded
    )


def _greedy(needs: Sequence[Need], *, folded: bool) -> Iterator[Text]:
    """What covers most for its cost comes first, until all is covered."""
    covered_by: dict[str, set[int]] = {}
    for at, need in enumerate(needs):
        for text in need.texts:
            if text.folded is folded:
                for piece in _pieces(text.text):
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
        yield Text(piece, folded)


def _pieces(text: str) -> set[str]:
    """The whole text and what of it can be looked for: words, words without their first letter, words in a row."""
    found = {text}
    spans = [match.span() for match in _WORD.finditer(text)]
    for first, (begin, end) in enumerate(spans):
        found.add(text[begin + 1 : end])
        found |= {text[begin:last] for _, last in spans[first : first + _MOST_WORDS] if last - begin <= _LONGEST}
    for letters, length in ((_LETTERS, _STEM), (_ABROAD, _STEM_ABROAD)):
        for match in letters.finditer(text):
            found |= {match[0][at : at + length] for at in range(len(match[0]) - length + 1)}
    return {piece for piece in found if len(piece.encode()) >= _LEAST} | ({text} if len(text) <= _LONGEST else set())


def _cost(piece: str) -> float:
    return 1.0 + (_COMMON if _is_common(piece) else 0.0) + _PER_BYTE * len(piece)


def _is_common(piece: str) -> bool:
    return len(piece.encode()) < _RARE or piece.lower().strip() in _OF_HEALTHY_LOGS
