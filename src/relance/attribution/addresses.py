"""Addresses: which node is meant where a line names its peer by an address, as hosts told of themselves before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from relance.attribution.clues import Clue
from relance.attribution.places import node_named
from relance.domain.verdicts import CaseFile

_ADDRESS = "nccl_address"
_MAPPED = "::ffff:"


def address_book(case: CaseFile, clues: Iterable[Clue]) -> Mapping[str, str]:
    """The node of each address, from lists of hosts and from what hosts say of themselves."""
    book = {plain(address): node for address, node in case.addresses.items()}
    for clue in clues:
        if clue.node is None:
            continue
        if clue.hit.symptom == _ADDRESS and "address" in clue.hit.captures:
            book.setdefault(plain(clue.hit.captures["address"]), clue.node)
        if "own_address" in clue.hit.captures:
            book.setdefault(plain(clue.hit.captures["own_address"]), clue.node)
    return book


def peer_of(clue: Clue, case: CaseFile, book: Mapping[str, str]) -> str | None:
    """The node at the other end that a line names, by name or address."""
    told = clue.hit.captures.get("peer")
    if not told:
        return None
    return node_named(told, case.nodes) or book.get(plain(told))


def plain(address: str) -> str:
    """An address without its port, its interface, and what maps it into a longer form."""
    text = address.strip().lower().split("<", 1)[0]
    inside = text[1:].partition("]")[0] if text.startswith("[") else text
    bare = inside.removeprefix(_MAPPED)
    if bare.count(":") == 1:
        bare = bare.split(":", 1)[0]
    return bare.split("%", 1)[0]
