"""Nodes and reservations from `scontrol show`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from relance.slurm.errors import UnreadableError
from relance.slurm.hostlists import expand
from relance.slurm.parsing import values
from relance.slurm.parsing.blocks import read_blocks
from relance.slurm.site_records import Reservation, SlurmNode

_STATE = re.compile(r"[A-Z][A-Z0-9_]*\Z", re.ASCII)
_REASON = re.compile(r"(.*?)\s*\[([^\s\[\]@]+)@([^\s\[\]@]+)\]\Z", re.DOTALL)
_SIGNS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
"""What the signs behind a state mean, where a release still prints signs (manual of sinfo, "node state codes")."""


def parse_nodes(output: bytes) -> tuple[SlurmNode, ...]:
    """All nodes of `scontrol show node`.

    Raises:
        UnreadableError: Cut off, mangled, or no node at all.
    """
    return tuple(_node(block) for block in read_blocks(output, first_key="NodeName"))


def parse_reservations(output: bytes) -> tuple[Reservation, ...]:
    """All reservations of `scontrol show reservation`.

    Raises:
        UnreadableError: Cut off, mangled, or neither reservations nor Slurm's word that there are none.
    """
    nothing = "No reservations in the system"
    return tuple(_reservation(block) for block in read_blocks(output, first_key="ReservationName", nothing=nothing))


def _node(block: Mapping[str, str]) -> SlurmNode:
    reason, reason_by, reason_at = _reason(block.get("Reason"))
    return SlurmNode(
        name=block["NodeName"],
        states=_states(_demanded(block, "State")),
        reason=reason,
        reason_by=reason_by,
        reason_at=reason_at,
        partitions=_words(block.get("Partitions")),
        features=_words(block.get("AvailableFeatures")),
        active_features=_words(block.get("ActiveFeatures")),
        gres=values.shown_text(block.get("Gres", "")),
    )


def _states(shown: str) -> tuple[str, ...]:
    base, *flags = shown.split("+")
    signs: list[str] = []
    while base and base[-1] in _SIGNS:
        signs.append(_SIGNS[base[-1]])
        base = base[:-1]
    states = (base, *flags, *signs)
    if not all(_STATE.match(word) for word in states):
        raise values.unreadable("a node's state", shown)
    return states


def _reason(shown: str | None) -> tuple[str | None, str | None, int | None]:
    """A reason and, where it ends in them, who gave it and when."""
    if shown is None or values.shown_text(shown) is None:
        return None, None, None
    match = _REASON.match(shown)
    if match is None:
        return shown, None, None
    try:
        return match[1], match[2], values.shown_moment(match[3], "the time of a node's reason")
    except UnreadableError:
        return shown, None, None  # a person's own words that look alike


def _reservation(block: Mapping[str, str]) -> Reservation:
    return Reservation(
        name=block["ReservationName"],
        starts_at=values.shown_moment(_demanded(block, "StartTime"), "a reservation's start"),
        ends_at=values.shown_moment(_demanded(block, "EndTime"), "a reservation's end"),
        nodes=expand(_demanded(block, "Nodes")),
        flags=_words(block.get("Flags")),
        users=_words(block.get("Users")),
        accounts=_words(block.get("Accounts")),
        groups=_words(block.get("Groups")),
        partition=values.shown_text(block.get("PartitionName", "")),
        state=values.shown_text(block.get("State", "")),
        node_count=values.shown_number(block.get("NodeCnt", ""), "a reservation's number of nodes"),
    )


def _demanded(block: Mapping[str, str], key: str) -> str:
    if key not in block:
        raise values.unreadable(f"a block without {key}", dict(block))
    return block[key]


def _words(shown: str | None) -> tuple[str, ...]:
    """A list with commas; none for "all" and "nothing"."""
    if shown is None or shown == "ALL" or values.shown_text(shown) is None:
        return ()
    return tuple(word.strip() for word in shown.split(",") if word.strip())
