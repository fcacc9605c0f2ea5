"""Devices: the number that tells a GPU apart wherever it is, as the driver writes it beside its address (G002)."""

from __future__ import annotations

from collections.abc import Iterable

from relance.attribution.clues import Clue
from relance.domain.verdicts import Suspect

_INVENTORY = "gpu_inventory_line"


def serial_of(node: str, device: str | None, clues: Iterable[Clue]) -> str | None:
    """The unique or serial number of a node's device, if its log tells it."""
    if device is None:
        return None
    for clue in clues:
        seen = clue.hit.captures
        if (
            clue.hit.symptom == _INVENTORY
            and clue.node == node
            and _slot(seen.get("pci") or seen.get("own", "")) == _slot(device)
        ):
            return seen.get("serial") or seen.get("number")
    return None


def is_same(suspect: Suspect, node: str, device: str | None, serial: str | None) -> bool:
    """Whether a suspicion was of this device: by its number where both are known, else by node and address."""
    if serial is not None and suspect.serial is not None:
        return serial == suspect.serial
    return suspect.node == node and suspect.device == device


def _slot(address: str) -> str:
    """A PCI address without its domain's leading zeros and its function."""
    return address.lower().partition(".")[0].lstrip("0").lstrip(":")
