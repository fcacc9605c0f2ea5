"""Stages of autonomy: what Relance may do, and how the effective stage of a job comes about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from relance.domain.keys import JobKey


class Stage(Enum):
    """What Relance may do, from least to most."""

    OFF = "off"
    """Begin nothing and read nothing new."""
    OBSERVE = "observe"
    """Detect, attribute, advise and record the action it would have taken."""
    APPROVE = "approve"
    """Also carry out an advice that a named person approved in time."""
    ACT = "act"
    """Also carry out advice itself, on attempts that the scheduler says have ended."""

    @property
    def rank(self) -> int:
        """Place in the order off < observe < approve < act."""
        return list(Stage).index(self)


class EndRunning(Enum):
    """Kinds of fault for which a site may consent to ending a RUNNING attempt; never for slowness."""

    DEAD_RANK = "dead_rank"
    """A process of the job is proven dead and the rest did not end."""
    NODE_LOST = "node_lost"
    """A node of the job is gone and the rest did not end."""
    HANG = "hang"
    """A confirmed hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSetting:
    """A stage that a named person set, for a cluster or one of its partitions (None: whole cluster)."""

    stage: Stage
    end_running: frozenset[EndRunning] = frozenset()
    set_by: str
    set_at: datetime
    partition: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCap:
    """A ceiling that lasts as long as its reason: a lost source, an old token, a missing right."""

    name: str
    stage: Stage
    reason: str
    since: datetime
    partition: str | None = None
    spares_running: bool = False
    """Whether it takes back the consent to end attempts that run, too, whatever the stage."""

    @property
    def effect(self) -> str:
        """What it means while it lasts, in words."""
        if self.spares_running and self.stage is Stage.ACT:
            return "nothing that runs is ended"
        if self.stage is Stage.ACT:
            return "nothing is lowered yet"
        return f"at most {self.stage.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStages:
    """Everything that limits stages on one cluster. A cluster without a setting is in `observe`."""

    cluster: StageSetting | None = None
    partitions: Mapping[str, StageSetting] = field(default_factory=dict)
    jobs: Mapping[str, Stage] = field(default_factory=dict)
    """Ceilings set for one job by its owner or an operator, by job key."""
    caps: tuple[HealthCap, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveStage:
    """The stage that counts, the consents that go with it, and a sentence for each thing that lowered it."""

    stage: Stage
    end_running: frozenset[EndRunning]
    why: tuple[str, ...]
    spared: tuple[str, ...] = ()
    """Why nothing that runs may be ended for now, whatever was consented to; empty: nothing speaks against it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a job brings to the question of its stage."""

    job: JobKey
    partition: str
    """As the scheduler writes it: a job that waits may name several, with commas between."""
    wish: Stage | None = None
    """The job's own wish; None when it has none."""
    opted_in: bool = False
    """Whether the site's opt-in rule, by partition and account, covers a job without a wish."""
    in_array: bool = False
    """Whether it is a task of an array: failing tasks are often meant, so only the job's own wish lifts it above
    `observe`."""
    only_watched: str = ""
    """Why a job of this kind is watched and never acted upon; empty: nothing speaks against it."""
    barred: str = ""
    """Why the site lets nothing be acted on where it runs; empty: it does."""

    @property
    def partitions(self) -> tuple[str, ...]:
        """Every partition in which the job may run."""
        return tuple(part for part in self.partition.split(",") if part)


IN_ARRAY = "it is a task of an array, where failures are often meant: only the job's own wish opts it in"
"""Why the opt-in rule of a partition does not cover it."""


def effective_stage(stages: ClusterStages, standing: Standing) -> EffectiveStage:
    """The least of cluster, partition, the job's wish, the job's switch and the health caps (design 1).

    Where a job may run in several partitions, each of them limits it, and consent is what all of them consent to.
    """
    cluster = stages.cluster.stage if stages.cluster else Stage.OBSERVE
    limits = [(cluster, f"cluster is set to {cluster.value}")]
    settings = {name: stages.partitions[name] for name in standing.partitions if name in stages.partitions}
    limits += [(item.stage, f"partition {name} is set to {item.stage.value}") for name, item in settings.items()]
    if standing.wish is not None:
        limits.append((standing.wish, f"the job asked for {standing.wish.value}"))
    elif standing.in_array:
        limits.append((Stage.OBSERVE, IN_ARRAY))
    elif not standing.opted_in:
        limits.append((Stage.OBSERVE, "the job did not opt in and no opt-in rule covers it"))
    if standing.only_watched:
        limits.append((Stage.OBSERVE, f"jobs of this kind are only watched: {standing.only_watched}"))
    if standing.barred:
        limits.append((Stage.OBSERVE, standing.barred))
    switch = stages.jobs.get(str(standing.job))
    if switch is not None:
        limits.append((switch, f"the job was switched to {switch.value}"))
    caps = [cap for cap in stages.caps if cap.partition in (None, *standing.partitions)]
    limits += [(cap.stage, f"{cap.name}: {cap.reason}") for cap in caps]
    least = min((stage for stage, _ in limits), key=lambda stage: stage.rank)
    why = tuple(reason for stage, reason in limits if stage is least)
    of_cluster = stages.cluster.end_running if stages.cluster else frozenset()
    consents = [settings[name].end_running if name in settings else of_cluster for name in standing.partitions]
    consent = frozenset.intersection(*consents) if consents else of_cluster
    spared = tuple(f"{cap.name}: {cap.reason}" for cap in caps if cap.spares_running)
    counts = least is Stage.ACT and not spared
    return EffectiveStage(stage=least, end_running=consent if counts else frozenset(), why=why, spared=spared)
