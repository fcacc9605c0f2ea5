"""The context of an attempt: what is known of it beside its logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

MOST_RANKS = 1_000_000
"""More ranks than any job has: a longer list is a mistake."""
_RANKS = re.compile(r"(?:run ?(?P<run>\d{1,5})[ :]+)?(?P<first>\d{1,7})(?:\s*-\s*(?P<last>\d{1,7}))?")


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
    places_of_run: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    """Where the ranks were in each run of several, by the run's number from 1."""


class ContextError(ValueError):
    """A context cannot be used. Says what is wrong."""


def context_of(data: object) -> Context:
    """The context that a `context.yaml` gives.

    `nodes` is a list of names; `rank_to_node` a list of entries with `ranks`, such as 0-7, and `node`, or a mapping of
    the one to the other; `scheduler` and `job_id` are words. Ranks of one run of several are written `run2 0-7`. What
    else stands for ranks places nothing; other keys are for people. Raises ContextError.
    """
    if data is None:
        return Context()
    if not isinstance(data, Mapping):
        message = "it has to be a mapping with nodes and rank_to_node"
        raise ContextError(message)
    places = _places(data.get("rank_to_node"))
    return Context(
        nodes=_nodes(data.get("nodes")),
        rank_to_node=places.pop(0, {}),
        places_of_run=places,
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


def _places(value: object) -> dict[int, dict[int, str]]:
    """Where ranks are, by the number of the run; 0 for what is said of no run."""
    places: dict[int, dict[int, str]] = {}
    count = 0
    for ranks, node in _entries(value):
        span = _RANKS.fullmatch(str(ranks).strip()) if isinstance(ranks, str | int) else None
        if span is None or isinstance(ranks, bool):
            continue
        if not isinstance(node, str) or not node:
            message = f"rank_to_node: the name of a node is wanted for the ranks {ranks}"
            raise ContextError(message)
        numbers = range(int(span["first"]), int(span["last"] or span["first"]) + 1)
        count += len(numbers)
        if count > MOST_RANKS:
            message = f"rank_to_node: more than {MOST_RANKS} ranks"
            raise ContextError(message)
        places.setdefault(int(span["run"] or 0), {}).update(dict.fromkeys(numbers, node))
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
