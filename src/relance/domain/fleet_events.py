"""Events of nodes and of whole clusters; part of the closed union in `events`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from relance.domain.advice import Exclusion
from relance.domain.keys import AttemptKey
from relance.domain.stages import HealthCap, StageSetting
from relance.domain.verdicts import Suspect
from relance.domain.views import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChanged:
    """The scheduler shows a node in another state."""

    cluster: str
    node: str
    state: NodeState
    reason: str
    set_by: str | None
    at: datetime
    ours: str = ""
    """Which act of ours brought it there, in words; empty: none did, as far as is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSuspected:
    """A verdict named this node."""

    cluster: str
    node: str
    suspect: Suspect
    incident_id: str
    attempt: AttemptKey
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExcluded:
    """A node is kept out."""

    exclusion: Exclusion


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionEnded:
    """An exclusion was lifted or ran out. `reason` says how it came to an end, where that is not plain from `by`."""

    cluster: str
    node: str
    job: str | None
    by: str
    at: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSet:
    """A named person set a stage for a cluster or a partition."""

    cluster: str
    setting: StageSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCapped:
    """Something that an act depends on was lost; stages are capped while it lasts."""

    cluster: str
    cap: HealthCap


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRestored:
    """The reason for a cap is gone."""

    cluster: str
    name: str
    partition: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StormOpened:
    """Many jobs failed at once: restarts wait until the shared cause clears or a person opens the bucket.

    It concerns one partition, one file system, or (neither) the whole cluster.
    """

    cluster: str
    storm_id: str
    reason: str
    incidents: tuple[str, ...]
    at: datetime
    partition: str | None = None
    file_system: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StormCleared:
    """The storm is over; restarts come back at the storm's slow rate after one canary."""

    cluster: str
    storm_id: str
    by: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLost:
    """A source stopped delivering: what it would show is unknown."""

    cluster: str
    source: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBack:
    """A lost source delivers again."""

    cluster: str
    source: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStarted:
    """A controller introduced itself."""

    cluster: str
    holder: str
    release: str
    at: datetime
    facts: Mapping[str, str] = field(default_factory=dict)
