"""How fast the controller goes. Every figure has its reason; times in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from relance.controlling.evidence_commands import EvidencePlan
from relance.domain.limits import Limits
from relance.domain.requests import RequestKind

COMMAND_LIMIT_S = 10.0
"""The longest that a command may take (design 10): a successor waits for a lease and this long."""
SETTLE_S = 30.0
"""So long after the time limit of a command that was not answered it may still arrive. Only if the job is as it was
then is it asked for again: a requeue that arrives when the new attempt runs kills a healthy job; nothing is worse."""
SHORT_WINDOW_S = 30.0
"""Where a requeued job starts by itself sooner than this, a restart that has to write something first holds it."""
READ_AGE_S = 1.0
"""A command goes out less than this long after the read that allowed it began (design 10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The intervals of the loops and of a transaction. The defaults suit Slurm (operators.md 3)."""

    look_s: float = 10.0
    """Between two whole looks when nothing wakes us."""
    look_at_least_s: float = 0.2
    """Between two whole looks whatever wakes us."""
    orders_s: float = 2.0
    """The longest wait for news from the server; the lease is renewed as often."""
    suspicion_s: float = 0.5
    """Between two reads of single jobs that may be about to end: at most two a second in all."""
    poll_s: float = 0.2
    """Between two reads of a job in a transaction."""
    slow_poll_s: float = 1.0
    """The same while a job waits in the queue, or after an answer that did not come."""
    rest_s: float = 1.0
    """One full second after PENDING was read: an attempt started sooner may die at launch, 31 of 100 on Slurm 22.05 to
    24.11; after a second none did (slurm.md 2)."""
    rest_look_s: float = 0.7
    """So far into that second the look for copies begins, so that it is there when the second is over."""
    transactions: int = 16
    """At most so many at once."""
    unreported: int = 1000
    """With so many steps that the server does not have yet, nothing new begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """A controller's name, limits and intervals.

    `holder` names this controller in leases and in the history; it is the same after a restart.
    """

    holder: str
    limits: Limits = field(default_factory=Limits)
    pace: Pace = field(default_factory=Pace)
    evidence: EvidencePlan = field(default_factory=EvidencePlan)
    """The site's command for evidence of a suspected hang."""
    requests: frozenset[RequestKind] = frozenset()
    """What the site lets people ask for."""
