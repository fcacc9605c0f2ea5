"""The checkpoint of an attempt: source positions and all states, one text, handed over with the findings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from relance.detectors.watches import WatchState
from relance.domain.encoding import EncodingError, decode, to_json
from relance.watching.pipelines import Memory

VERSION: Final = 1
BYTES_AT_MOST: Final = 512 * 1024
"""The longest checkpoint that a batch may carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Where to go on: each source's own positions, by its name, and what was known then."""

    version: int = VERSION
    positions: Mapping[str, Any]
    memory: Memory


def to_text(checkpoint: Checkpoint) -> str:
    """The text that is stored. Should it come out too long, what the detectors know is left out of it."""
    text = _dump(checkpoint)
    if len(text) <= BYTES_AT_MOST:
        return text
    return _dump(replace(checkpoint, memory=replace(checkpoint.memory, watch=WatchState())))


def from_text(text: str | None) -> Checkpoint | None:
    """What `to_text` wrote; None for none, or one of another version: then logs are read as if new."""
    if text is None:
        return None
    try:
        found = decode(Checkpoint, json.loads(text))
    except (EncodingError, ValueError, RecursionError):
        return None
    return found if isinstance(found, Checkpoint) and found.version == VERSION else None


def _dump(checkpoint: Checkpoint) -> str:
    return to_json(
        {
            "type": Checkpoint.__name__,
            "version": checkpoint.version,
            "positions": checkpoint.positions,
            "memory": checkpoint.memory,
        }
    )
