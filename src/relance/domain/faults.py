"""Names for what went wrong and for what would help."""

from __future__ import annotations

from enum import Enum


class FaultDomain(Enum):
    """Where a fault lies. The catalogue of signatures uses the same words."""

    HARDWARE = "hardware"
    """GPU, CPU, memory, board, power."""
    INTERCONNECT = "interconnect"
    """NVLink, NVSwitch, InfiniBand, RoCE, Ethernet."""
    STORAGE = "storage"
    """File systems, disks, object stores."""
    SYSTEM = "system"
    """Driver, kernel, container, firmware, node software."""
    APPLICATION = "application"
    """The job's own code or data."""
    USER = "user"
    """A person's wish."""
    SCHEDULER = "scheduler"
    """The scheduler decided."""
    UNKNOWN = "unknown"
    """It cannot be told."""
    NONE = "none"
    """Nothing is wrong."""


NOBODYS_FAULT = frozenset({FaultDomain.NONE, FaultDomain.USER, FaultDomain.SCHEDULER})
"""Somebody decided, such as a preemption or a cancelled sweep, or nothing is wrong: no other job can have it too."""


class Remedy(Enum):
    """What would help, from evidence alone."""

    RESTART = "restart"
    """Start again; the nodes are fine."""
    RESTART_EXCLUDING = "restart_excluding"
    """Start again without the suspects."""
    STOP = "stop"
    """Another try is no use: somebody must change something."""
    WAIT = "wait"
    """Start again when an outside condition clears, or more is known."""
    NONE = "none"
    """Nothing to do, or not ours to do."""

    @property
    def restarts(self) -> bool:
        """Whether this remedy starts the job again."""
        return self in (Remedy.RESTART, Remedy.RESTART_EXCLUDING)


class Role(Enum):
    """What a hit of a rule may say about the cause."""

    ROOT = "root"
    """Can name the cause."""
    MAYBE = "maybe"
    """Can be cause or consequence."""
    CASCADE = "cascade"
    """Consequence of something else."""
    TEARDOWN = "teardown"
    """Shut-down noise."""
    DIAGNOSTIC = "diagnostic"
    """Advice or a counter, never a verdict."""
    CONTEXT = "context"
    """Context or state."""
    RECOVERY = "recovery"
    """Recovery or health."""


class SuspectKind(Enum):
    """Which node a hit points at."""

    SELF = "self"
    """The node that logged it."""
    PEER = "peer"
    """The node named in the line."""
    BOTH = "both"
    """Either end."""
    RANK = "rank"
    """The node of the named rank."""
    ALL = "all"
    """A shared service."""
    NONE = "none"
    """No node."""


class RestartHint(Enum):
    """What a rule says about another try (design 7: rule column to remedy)."""

    OK = "ok"
    """Restart; the same nodes are fine."""
    EXCLUDE = "excl"
    """Restart without the suspect."""
    ONCE = "once"
    """One try to confirm, then stop."""
    NO = "no"
    """Stop."""
    WAIT = "wait"
    """Restart when an outside condition clears."""
    SCHEDULER = "sched"
    """The scheduler or a person has decided."""
    NOTHING = "-"
    """No say alone."""


class Scope(Enum):
    """The kind of log a rule counts in: an Xid printed by an application is not an Xid."""

    APPLICATION = "application"
    """Output of the job's own processes, and of the launcher between them."""
    KERNEL = "kernel"
    """A node's kernel log."""
    DEVICE = "device"
    """A device manager's log, such as the fabric manager."""
    SCHEDULER = "scheduler"
    """The scheduler's own lines: srun, slurmstepd, slurmctld."""
    METRICS = "metrics"
    """Samples of metrics: a condition over them was met."""
    TRACES = "traces"
    """What collective tracing left: flight-recorder dumps, NCCL RAS, stacks."""
    NOTES = "notes"
    """Outputs of commands, and notes, that somebody put beside the logs."""
