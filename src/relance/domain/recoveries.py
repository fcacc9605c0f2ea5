"""Recoveries that are under way at the same time: how many there may be on a cluster, and what counts as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from relance.domain.advice import ActionKind
from relance.domain.incidents import Incident, IncidentState

_UNDER_WAY = frozenset({IncidentState.ACTING, IncidentState.UNSETTLED})
_KINDS = frozenset({ActionKind.RESTART, ActionKind.CONSTRAIN})


@dataclass(frozen=True, slots=True, kw_only=True)
class MostRecoveries:
    """A limit that an action must fit under: at most `most` recoveries under way on `cluster`, itself among them."""

    cluster: str
    most: int


def is_recovering(incident: Incident) -> bool:
    """Whether a recovery is under way: begun, and not known to have come to its end. Parking is none."""
    action = incident.action
    return (
        action is not None and action.kind in _KINDS and not action.parks and incident.state in _UNDER_WAY
    )  # fmt: skip


def recoveries_under_way(incidents: Iterable[Incident]) -> int:
    """How many of these incidents are being recovered."""
    return sum(1 for incident in incidents if is_recovering(incident))
