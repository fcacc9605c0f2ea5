"""Why a job waits in the queue, in plain words, and until when. Pure.

Waiting is no failure of anybody, and no clock runs on it: it is said, and that is all.
"""

from __future__ import annotations

from datetime import datetime

from relance.domain.views import Hold, JobView
from relance.recovery.wordings import moment

_REASONS: tuple[tuple[str, str], ...] = (
    ("QOS", "a limit of its QOS"),
    ("Assoc", "a limit of its account"),
    ("MaxSubmit", "a limit of its account"),
    ("License", "a licence that is not free"),
    ("Resources", "nodes that are busy"),
    ("Priority", "jobs that come before it"),
    ("BeginTime", "its start time"),
    ("Dependency", "another job"),
    ("BadConstraints", "nodes that meet what it asks for: there are too few"),
    ("ReqNodeNotAvail", "nodes that are down, drained or reserved"),
    ("Reservation", "its reservation"),
    ("Partition", "its partition: a limit, or it is down"),
    ("NodeDown", "a node that is down"),
    ("JobHeld", "whoever holds it"),
    ("launch_failed", "somebody to release it: the scheduler could not start it, and holds it"),
    ("JobLaunchFailure", "somebody to release it: the scheduler could not start it, and holds it"),
    ("JobHoldMaxRequeue", "somebody to release it: the scheduler put it back too often, and holds it"),
    ("JobArrayTaskLimit", "other tasks of its array"),
    ("Prolog", "the preparation of its nodes"),
)
"""By the beginning of the scheduler's word, the longer ones of a kind included (`QOSMaxJobsPerUserLimit`)."""


def queued(view: JobView, now: datetime) -> str:
    """What a job in the queue waits for, with the scheduler's own word, and when it is to start as far as is said."""
    words = next((words for start, words in _REASONS if view.reason.startswith(start)), "")
    why = f"waits for {words} ({view.reason})" if words else f"waits in the queue ({view.reason or 'no reason given'})"
    if view.reason.startswith("BeginTime") and view.eligible_at is not None:
        return f"{why}, {moment(view.eligible_at, now)}"
    if view.hold is Hold.NONE and view.expected_at is not None and view.expected_at > now:
        return f"{why}; the scheduler plans to start it at {moment(view.expected_at, now)}"
    return why


def held_by_scheduler(view: JobView) -> str:
    """What is to be done about a job that the scheduler gave up starting; empty for any other."""
    if view.hold is not Hold.SCHEDULER:
        return ""
    return (
        "nothing by us: a prolog failed, or a node could not start it; the node's reason and slurmd's log say more. "
        f"`relance job release {view.raw_id}` (or `scontrol release {view.raw_id}`) has it try again, once that is "
        f"mended; `scancel {view.raw_id}` gives it up"
    )
