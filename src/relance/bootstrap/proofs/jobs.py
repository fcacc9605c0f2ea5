"""Which jobs a check looks at, and how the watcher would follow each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from relance.bootstrap.proofs.facts import WantedJob
from relance.domain.views import Assignment, ClusterReport, JobState, JobView
from relance.recovery.sites import ClusterRules

MOST_JOBS = 3
"""Where none is named, so many running jobs are looked at."""
SETTLED_S = 300.0
"""A job that runs for longer has lines and steps, if it ever will."""


def chosen(report: ClusterReport, wanted: str | None, now: datetime) -> tuple[JobView, ...]:
    """The job of that id (of a task `17_4` too), or a few that run: of the settled ones those on most nodes."""
    if wanted is not None:
        return tuple(view for view in report.jobs if wanted in (view.raw_id, _task_id(view)))[:1]
    running = [view for view in report.jobs if view.state is JobState.RUNNING and view.started_at is not None]
    running.sort(key=lambda view: (_age_s(view, now) < SETTLED_S, -view.node_count, view.raw_id))
    return tuple(running[:MOST_JOBS])


def wanted_job(view: JobView, rules: ClusterRules) -> WantedJob:
    """A job of the scheduler as it is looked for."""
    return WantedJob(
        raw_id=view.raw_id,
        nodes=view.nodes,
        started_at=view.started_at,
        is_running=view.state in (JobState.RUNNING, JobState.COMPLETING),
        progress_pattern=view.wish.progress or rules.progress_pattern(view.partition),
    )


def assignment_of(view: JobView, cluster: str, rules: ClusterRules) -> Assignment:
    """How the watcher follows it, without what only the server's history tells."""
    return Assignment(
        attempt=view.attempt_key(cluster),
        owner_uid=view.owner_uid,
        nodes=view.nodes,
        log_paths=view.log_paths,
        kernel_logs=rules.kernel_logs_of(view.nodes),
        ranks_per_node=view.ranks_per_node,
        started_at=view.started_at,
        ended_at=view.ended_at,
    )


def nodes_at_work(report: ClusterReport, views: Sequence[JobView]) -> frozenset[str]:
    """Nodes of which there should be metrics: those that take work, and those of the jobs."""
    at_work = {node.name for node in report.nodes if node.state.takes_work}
    return frozenset(at_work | {node for view in views for node in view.nodes})


def _task_id(view: JobView) -> str:
    return f"{view.array}_{view.array_task}" if view.array is not None and view.array_task is not None else ""


def _age_s(view: JobView, now: datetime) -> float:
    return 0.0 if view.started_at is None else (now - view.started_at).total_seconds()
