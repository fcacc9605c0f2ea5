"""The six faults of the demonstration: what is done to a training, and what has to come of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from relance.domain.events import IncidentEnd
from relance.domain.faults import FaultDomain, Remedy

SLOWER = 3.0
"""How many times as long a step of the slow node takes."""


class FaultName(Enum):
    """What is done."""

    KILL = "kill"
    """A rank is killed."""
    HANG = "hang"
    """A rank stands still, and all others wait for it."""
    NODE = "node"
    """A node's GPU falls off the bus in every attempt that runs there."""
    BUG = "bug"
    """The training script fails at the same step in every attempt."""
    SCARE = "scare"
    """A rank prints a frightening traceback, catches it and trains on."""
    SLOW = "slow"
    """A node makes all others wait for it at each step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What has to come of a fault."""

    attempts: tuple[int, int]
    """The fewest and the most attempts that the job may have."""
    final_state: str
    """The scheduler's word for how the job ends."""
    domains: frozenset[FaultDomain] = frozenset()
    """Where the fault may be said to lie; empty: there is no incident that anybody acted on."""
    remedies: tuple[Remedy, ...] = ()
    """What is advised at last, one of these."""
    end: IncidentEnd | None = None
    """How the last incident ends."""
    excludes: bool = False
    """Whether the broken node is kept out."""

    @property
    def is_left_alone(self) -> bool:
        """Whether nothing may be done at all."""
        return not self.domains


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault."""

    name: FaultName
    job: str
    """The name of the training that it befalls."""
    title: str
    done: str
    """What the demonstration does, in one sentence."""
    expectation: Expectation
    hang_after_s: float | None = None
    """How long the owner of this job lets it be silent."""
    rank: int = 0
    """Which rank it befalls."""
    after_steps: int = 0
    """It comes after so many steps at least."""
    found_within_steps: int | None = None
    """In how many steps of the training it has to be found."""
    because: str = ""
    """What has to be given as the reason for the advice."""
    steps: int | None = None
    """How many steps the training has; None: as many as all others."""
    is_beside: bool = False
    """It is played beside the others from the beginning: it takes long, and calls for nothing meanwhile."""


def faults(hang_after_s: float) -> tuple[Fault, ...]:
    """All faults, in the order in which they are shown."""
    return (_KILL, _hang(hang_after_s), _NODE, _BUG, _SCARE, _SLOW)


def _hang(hang_after_s: float) -> Fault:
    return Fault(
        name=FaultName.HANG,
        job="llama-hang",
        title="a rank hangs",
        done=f"SIGSTOP to rank 5; its peers wait for it; the job's own limit for silence is {hang_after_s:g} s",
        rank=5,
        hang_after_s=hang_after_s,
        expectation=Expectation(
            attempts=(2, 2),
            final_state="COMPLETED",
            domains=frozenset(set(FaultDomain) - {FaultDomain.USER, FaultDomain.SCHEDULER, FaultDomain.NONE}),
            remedies=(Remedy.RESTART, Remedy.RESTART_EXCLUDING),
            end=IncidentEnd.RECOVERED,
        ),
    )


_KILL = Fault(
    name=FaultName.KILL,
    job="llama-kill",
    title="a rank is killed",
    done="SIGKILL to rank 3",
    rank=3,
    expectation=Expectation(
        attempts=(2, 2),
        final_state="COMPLETED",
        domains=frozenset({FaultDomain.UNKNOWN, FaultDomain.SYSTEM}),
        remedies=(Remedy.RESTART,),
        end=IncidentEnd.RECOVERED,
    ),
)
_NODE = Fault(
    name=FaultName.NODE,
    job="llama-node",
    title="a GPU falls off the bus",
    done="its GPU drops off the bus (Xid 79) in every attempt on this node",
    rank=2,
    expectation=Expectation(
        attempts=(2, 3),
        final_state="COMPLETED",
        domains=frozenset({FaultDomain.HARDWARE}),
        remedies=(Remedy.RESTART_EXCLUDING,),
        end=IncidentEnd.RECOVERED,
        excludes=True,
    ),
)
_BUG = Fault(
    name=FaultName.BUG,
    job="llama-bug",
    title="a bug in the training script",
    done="a KeyError at the same step in every attempt",
    expectation=Expectation(
        attempts=(1, 3),
        final_state="FAILED",
        domains=frozenset({FaultDomain.APPLICATION}),
        remedies=(Remedy.STOP,),
        end=IncidentEnd.STOPPED,
    ),
)
_SCARE = Fault(
    name=FaultName.SCARE,
    job="llama-scare",
    title="a fright",
    done="rank 0 prints an out-of-memory traceback, catches it and trains on",
    expectation=Expectation(attempts=(1, 1), final_state="COMPLETED"),
)
_SLOW = Fault(
    name=FaultName.SLOW,
    job="llama-slow",
    title="a node turns slow",
    done=f"each step on one of its nodes takes {SLOWER:g} times as long, so that all others wait for it",
    rank=4,
    after_steps=45,  # it has to know its own pace first
    found_within_steps=60,
    because="no node evidence",
    steps=110,
    is_beside=True,
    expectation=Expectation(
        attempts=(1, 1),
        final_state="COMPLETED",
        domains=frozenset({FaultDomain.UNKNOWN}),
        remedies=(Remedy.NONE,),
        end=IncidentEnd.JOB_ENDED,
    ),
)
