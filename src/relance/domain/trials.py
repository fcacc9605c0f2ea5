"""Jobs of our own, by which a site tries Relance: they are looked after like others, and prove nothing about nodes."""

from __future__ import annotations

from typing import Final

TRIAL: Final = "relance-canary"
"""What the names of jobs of a canary begin with."""
_OURS: Final = (TRIAL, "relance-marker")


def is_trial(name: str) -> bool:
    """Whether a job of this name fails on purpose: no node is suspected for it, and no storm and no figure counts it.

    Whoever names another job so only keeps it out of these; what is done about the job itself is the same.
    """
    return name.startswith(_OURS)
