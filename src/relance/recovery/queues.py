"""What the jobs of a cluster that wait or are being recovered mean for each other: whose turn is when. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from relance.domain.advice import Answer
from relance.domain.incidents import Incident, IncidentState
from relance.domain.recoveries import recoveries_under_way

_SHORT = frozenset({"permit_free", "verdict_final", "no_own_requeue"})
"""Guards that hold a restart for no longer than a moment, until its turn comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartQueue:
    """How many recoveries are under way on a cluster, and which restarts wait for their turn, longest first."""

    under_way: int = 0
    waiting: tuple[str, ...] = ()
    """Ids of incidents."""

    def ahead_of(self, incident_id: str) -> int:
        """How many restarts have their turn before that of an incident."""
        if incident_id in self.waiting:
            return self.waiting.index(incident_id)
        return len(self.waiting)


def restart_queue(incidents: Iterable[Incident]) -> RestartQueue:
    """The queue that the open incidents of a cluster make."""
    known = tuple(incidents)
    waiting = sorted((item.opened_at, item.id) for item in known if _waits(item))
    return RestartQueue(under_way=recoveries_under_way(known), waiting=tuple(name for _, name in waiting))


def _waits(incident: Incident) -> bool:
    advice = incident.advice
    if incident.state is not IncidentState.ADVISED or advice is None or advice.park or not advice.action.restarts:
        return False
    return all(guard.answer is Answer.YES or guard.name in _SHORT for guard in advice.guards)
