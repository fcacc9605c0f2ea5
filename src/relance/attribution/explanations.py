"""Explanations: each a possible answer to "why", with the clues that speak for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from relance.attribution.clues import Clue
from relance.domain.faults import FaultDomain, RestartHint
from relance.domain.verdicts import Suspect


class Trust(IntEnum):
    """How far to trust what kind of evidence, best first (20.1)."""

    INTENT = 0
    """A person or the scheduler decided."""
    HOST = 1
    """A root row of a node's kernel or device manager."""
    NODE = 2
    """The scheduler lost a node, or says that it is broken."""
    ROOT = 3
    """The first root line of the job's own output, or the scheduler's statement about its processes."""
    POINTER = 4
    """A line that points at a rank without saying why."""
    HOST_WEAK = 5
    """A row of a node's kernel that can be cause or consequence."""
    MAYBE = 6
    """A line of the job's output that can be cause or consequence."""
    HANG = 7
    """Confirmed silence."""
    CASCADE = 8
    """Only consequences were seen."""
    EXIT = 9
    """Only the scheduler's word on how it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One possible cause. `clues` are the lines that speak for it, the deciding one first; `hint` as in the pack."""

    trust: Trust
    domain: FaultDomain
    cause: str
    hint: RestartHint
    confidence: float
    because: str
    """Why this is thought, as the rest of a sentence."""
    at: datetime | None = None
    clues: tuple[Clue, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    shared: bool = False
    """Many nodes or many jobs show it at once: a shared service, and no node to blame."""

    confirmable: bool = False
    """That it comes again is thought because of its kind: one try may confirm it."""

    @property
    def first(self) -> Clue | None:
        """The deciding clue, if lines decided."""
        return self.clues[0] if self.clues else None

    @property
    def is_own(self) -> bool:
        """Whether it lies with the job's own code, data or settings."""
        return self.domain in (FaultDomain.APPLICATION, FaultDomain.USER)
