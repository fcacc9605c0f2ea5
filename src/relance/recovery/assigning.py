"""Which attempts a watcher should follow, and how. Pure."""

from __future__ import annotations

from datetime import datetime

from relance.domain.keys import AttemptKey, JobKey
from relance.domain.progress import Progress
from relance.domain.records import JobRecord
from relance.domain.stages import Stage
from relance.domain.views import Assignment, ClusterReport, JobState, JobView
from relance.recovery.sites import ClusterRules

_FOLLOWED = (JobState.RUNNING, JobState.COMPLETING, JobState.SUSPENDED)


def assignment(
    record: JobRecord, view: JobView, rules: ClusterRules, progress: dict[AttemptKey, Progress]
) -> Assignment:
    """How to follow a job's current attempt."""
    key = AttemptKey(job=record.job, restart_count=view.restart_count)
    earlier = [
        item for other, item in progress.items() if other.job == key.job and other.restart_count < view.restart_count
    ]
    steps = [item.highest_step for item in earlier if item.highest_step is not None]
    saves = [item.checkpoint_durable for item in earlier if item.checkpoint_durable is not None]
    open_incident = record.open_incident
    return Assignment(
        attempt=key,
        owner_uid=view.owner_uid,
        nodes=view.nodes,
        log_paths=view.log_paths,
        kernel_logs=rules.kernel_logs_of(view.nodes),
        ranks_per_node=view.ranks_per_node,
        progress_pattern=view.wish.progress or rules.progress_pattern(view.partition),
        started_at=view.started_at,
        ended_at=(view.ended_at or view.started_at) if view.state.is_over else None,
        hang_after_s=view.wish.hang_after_s or rules.hang_after_s,
        step_before=max(steps, default=None),
        durable_before=max(saves, default=None),
        # A failed attempt's incident is a moment away, and its restart may empty the log.
        keep_tail=view.state.is_failure or (open_incident is not None and open_incident.attempt == key),
        is_paused=view.state is JobState.SUSPENDED or bool(view.somebody_at_work),
    )


def followed(view: JobView, stage: Stage, rules: ClusterRules, now: datetime) -> bool:
    """Whether a job's current attempt is to be followed: it runs, or ended a short while ago; never at stage off."""
    return stage is not Stage.OFF and runs_or_ended_lately(view, rules, now)


def runs_or_ended_lately(view: JobView, rules: ClusterRules, now: datetime) -> bool:
    """Whether a job's current attempt has logs that may still grow; of a long queue most have none."""
    if view.started_at is None:
        return False
    if view.state in _FOLLOWED:
        return True
    if not view.state.is_over or view.ended_at is None:
        return False
    return (now - view.ended_at).total_seconds() <= rules.follow_after_end_s


def rank_to_node(view: JobView) -> dict[int, str]:
    """Which node each rank runs on, by block distribution over the allocation; empty where that is not known."""
    per_node = view.ranks_per_node
    if not per_node:
        return {}
    return {index * per_node + local: node for index, node in enumerate(view.nodes) for local in range(per_node)}


def view_of(report: ClusterReport | None, job: JobKey) -> JobView | None:
    """A job in a report; another job that was given the same raw id later is not it."""
    if report is None:
        return None
    return next(
        (view for view in report.jobs if view.raw_id == job.raw_id and view.job_key(report.cluster) == job), None
    )
