"""Packs that were read before: kept as data, so that a command need not read and check nine thousand lines again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Final

from relance.domain.encoding import decode, encode
from relance.ports.caches import Cache
from relance.rules import formats
from relance.rules.formats import Pack

_FORMAT: Final = 1
"""Counts the ways in which packs were kept."""


def kept_pack(
    texts: Mapping[str, str],
    cache: Cache,
    load: Callable[[], Pack],
    *,
    settings: tuple[Mapping[str, float], Sequence[str]] = ({}, ()),
    version: str = "",
) -> Pack:
    """The pack of these rule files: from the cache if it was read before, else as `load` gives it.

    Args:
        texts: The text of each file, by its name.
        cache: Where packs are kept.
        load: Reads and checks the files; what it raises passes through.
        settings: What else decides about the pack: weights, and ids of rules left out.
        version: That of the code; another code reads for itself.
    """
    key = _key(texts, settings, version)
    known = cache.get(key)
    if known is not None and (pack := _decoded(known)) is not None:
        return pack
    pack = load()
    cache.put(key, json.dumps(encode(pack), ensure_ascii=False).encode("utf-8"))
    return pack


def _key(texts: Mapping[str, str], settings: tuple[Mapping[str, float], Sequence[str]], version: str) -> str:
    shapes = {
        name: [each.name for each in fields(kind)]
        for name, kind in vars(formats).items()
        if isinstance(kind, type) and is_dataclass(kind)
    }
    weights, off = settings
    told = json.dumps([_FORMAT, version, shapes, list(texts.items()), list(weights.items()), list(off)])
    return f"pack-{hashlib.sha256(told.encode('ascii')).hexdigest()}"


def _decoded(kept: bytes) -> Pack | None:
    """The pack as it was kept; None where the data is of another kind."""
    try:
        pack: Pack = decode(Pack, json.loads(kept))
    except (ValueError, RecursionError):
        return None
    return pack
