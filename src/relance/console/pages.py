"""What each page shows, as typed values made from the read side. Templates add words and markup, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from relance.domain.clocks import (
    time_to_action_s,
    time_to_detect_s,
    time_to_progress_s,
    time_to_step_s,
)
from relance.domain.views import JobState, NodeState
from relance.recovery import wordings
from relance.recovery.queries import Queries
from relance.recovery.rows import AdviceRow, IncidentItem, JobRow, NodeRow, StageRow
from relance.recovery.stories import IncidentStory
from relance.serving.identities import Identity, Right

_RECENT = 12
_JOBS = 40
_STALE_S = 30.0
"""A report older than this is said to be old; the default after which the controller counts as lost."""
_LIVING = frozenset({
    JobState.RUNNING, JobState.PENDING, JobState.CONFIGURING, JobState.COMPLETING, JobState.SUSPENDED,
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What stands around every page: who looks, what that person may do, the mark of the forms, the time."""

    name: str
    role: str
    may_decide: bool
    form_mark: str
    now: datetime
    position: int
    """The history's head when the page was made: live updates begin here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBanner:
    """A cluster's stage in one line, and everything that is not as it should be."""

    row: StageRow
    stage: str
    set_by: str
    trouble: tuple[str, ...]
    may_lower: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """The seconds that people compare, None where not known."""

    detect_s: float | None
    act_s: float | None
    step_s: float | None
    progress_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastIncident:
    """A closed incident with its durations."""

    item: IncidentItem
    durations: Durations


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The first page."""

    banners: tuple[ClusterBanner, ...]
    asked: tuple[AdviceRow, ...]
    """Advice that a person can approve now."""
    open: tuple[IncidentItem, ...]
    past: tuple[PastIncident, ...]
    jobs: tuple[JobRow, ...]
    more_jobs: int
    nodes: tuple[NodeRow, ...]
    """Nodes that somebody should know about."""
    calm_nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentPage:
    """One incident. `version` changes when there is something else to decide."""

    story: IncidentStory
    durations: Durations
    wording: str
    """What is advised, as a phrase; empty without advice."""
    may_approve: bool
    may_deny: bool
    version: str


def frame(who: Identity, form_mark: str, now: datetime, position: int) -> Frame:
    """The frame of a page."""
    return Frame(
        name=who.name,
        role=who.role.value,
        may_decide=who.may(Right.DECIDE),
        form_mark=form_mark,
        now=now,
        position=position,
    )


async def overview(ask: Queries, now: datetime, *, may_decide: bool) -> Overview:
    """Gather the first page."""
    nodes = await ask.nodes()
    jobs = await ask.jobs(limit=1000)
    living = tuple(row for row in jobs if row.state in _LIVING or row.incident_id is not None)
    recent = await ask.incidents(since=now - timedelta(days=7), limit=200)
    closed = tuple(item for item in recent if item.ended_at is not None)
    noteworthy = tuple(row for row in nodes if _is_noteworthy(row))
    return Overview(
        banners=tuple(banner(row, may_decide=may_decide) for row in await ask.stages()),
        asked=tuple(row for row in await ask.advice() if row.needs_approval),
        open=await ask.incidents(open_only=True, limit=100),
        past=tuple(PastIncident(item=item, durations=durations(item)) for item in closed[:_RECENT]),
        jobs=living[:_JOBS],
        more_jobs=len(living) - len(living[:_JOBS]),
        nodes=noteworthy,
        calm_nodes=len(nodes) - len(noteworthy),
    )


def banner(row: StageRow, *, may_decide: bool) -> ClusterBanner:
    """A cluster's line in the banner."""
    trouble = [f"{cap.name}: {cap.reason} ({cap.effect} while it lasts)" for cap in row.caps]
    trouble += [f"source {name} is lost: {reason}" for name, reason in row.lost_sources]
    trouble += list(row.problems)
    if row.report_age_s is None:
        trouble.append("no controller has reported yet")
    elif row.report_age_s > _STALE_S and not row.caps:
        trouble.append("the scheduler has not been read for a while; what is shown may be old")
    setting = row.setting
    stages = [item.stage for item in (*row.partitions, *([setting] if setting else []))]
    return ClusterBanner(
        row=row,
        stage=setting.stage.value if setting else "observe",
        set_by=f"set by {setting.set_by}" if setting else "as installed; nobody has set a stage",
        trouble=tuple(trouble),
        may_lower=may_decide and any(stage.value in ("approve", "act") for stage in stages),
    )


def incident_page(story: IncidentStory, *, may_decide: bool) -> IncidentPage:
    """The page of one incident."""
    advised = story.advice is not None and story.incident.state.value == "advised"
    digest = story.effect.digest if story.effect else ""
    generation = story.advice.generation if story.advice else 0
    return IncidentPage(
        story=story,
        durations=durations(story.incident),
        wording=_advised(story),
        may_approve=may_decide and not story.not_approvable and story.approval is None,
        may_deny=may_decide and advised and (story.approval is None or story.approval.yes),
        version=f"{generation}/{digest}/{story.incident.state.value}/{story.not_approvable}",
    )


def durations(item: IncidentItem) -> Durations:
    """The durations of one incident."""
    return Durations(
        detect_s=time_to_detect_s(item.times),
        act_s=time_to_action_s(item.times),
        step_s=time_to_step_s(item.times),
        progress_s=time_to_progress_s(item.times),
    )


def _advised(story: IncidentStory) -> str:
    if story.advice is None:
        return ""
    hold = "hold, then " if story.advice.hold else ""
    return hold + wordings.action(story.advice)


def _is_noteworthy(row: NodeRow) -> bool:
    calm = row.state in (NodeState.IDLE, NodeState.ALLOCATED)
    return not calm or bool(row.exclusions) or bool(row.suspicions)
