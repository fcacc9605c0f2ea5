"""The context of an attempt: what is known of it beside its logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

MOST_RANKS = 1_000_000
"""More ranks than any job has: a longer list is a mistake."""
_RANKS = re.compile(r"(\d{1,7})(?:\s*-\s*(\d{1,7}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is known of the attempt beside its logs; empty where it is not known.

    `job_id` tells which of several jobs in a scheduler's answer is meant.
    """

    nodes: tuple[str, ...] = ()
    rank_to_node: Mapping[int, str] = field(default_factory=dict)
    progress_pattern: str | None = None
    scheduler: str | None = None
    job_id: str | None = None


class ContextError(ValueError):
    """A context cannot be used. Says what is wrong."""


def context_of(data: object) -> Context:
    """The context that a `context.yaml` gives.

    `nodes` is a list of names; `rank_to_node` a list of entries with `ranks`, such as 0-7, and `node`, or a mapping of
    the one to the other; `scheduler` and `job_id` are words. Entries whose ranks are no numbers, such as those of
    several runs, place nothing; other keys are for people. Raises ContextError.
    """
    if data is None:
        return Context()
    if not isinstance(data, Mapping):
        message = "it has to be a mapping with nodes and rank_to_node"
        raise ContextError(message)
    return Context(
        nodes=_nodes(data.get("nodes")),
        rank_to_node=_places(data.get("rank_to_node")),
        scheduler=_word(data, "scheduler"),
        job_id=_word(data, "job_id"),
    )


def _nodes(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(node, str) and node for node in value):
        message = "nodes: a list of names is wanted"
        raise ContextError(message)
    return tuple(dict.fromkeys(value))


def _places(value: object) -> dict[int, str]:
    places: dict[int, str] = {}
    for ranks, node in _entries(value):
        span = _RANKS.fullmatch(str(ranks).strip()) if isinstance(ranks, str | int) else None
        if span is None or isinstance(ranks, bool):
            continue
        if not isinstance(node, str) or not node:
            message = f"rank_to_node: the name of a node is wanted for the ranks {ranks}"
            raise ContextError(message)
        numbers = range(int(span[1]), int(span[2] or span[1]) + 1)
        if len(places) + len(numbers) > MOST_RANKS:
            message = f"rank_to_node: more than {MOST_RANKS} ranks"
            raise ContextError(message)
        places |= dict.fromkeys(numbers, node)
    return places


def _entries(value: object) -> Iterator[tuple[object, object]]:
    if value is None:
        return
    if isinstance(value, Mapping):
        yield from value.items()
        return
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        message = "rank_to_node: a list is wanted, each entry with ranks, such as 0-7, and node"
        raise ContextError(message)
    for entry in value:
        yield entry.get("ranks"), entry.get("node")


def _word(data: Mapping[object, object], key: str) -> str | None:
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        message = f"{key}: a word is wanted"
        raise ContextError(message)
    return str(value)
