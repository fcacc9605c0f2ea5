"""One job as a table shows it, put over the record that was read before: for 22.05, whose JSON always shows all jobs.

Among 3,500 jobs one takes 0.8 to 1.2 s to read that way, and 0.014 s by tables (22.05.8 on two cores, measured); a
command may follow a read by less than a second. The tables show all that changes while a job waits, starts, runs and
is cleared away.
"""

from __future__ import annotations

from dataclasses import replace

from relance.slurm.errors import UnreadableError
from relance.slurm.hostlists import expand
from relance.slurm.parsing import values
from relance.slurm.parsing.jobs import held_by
from relance.slurm.parsing.rows import read_rows
from relance.slurm.records import SlurmJob

BRIEF_COLUMNS = (
    "jobid", "state", "restartcnt", "submittime", "starttime", "reason", "eligibletime", "preempttime", "requeue",
    "nodelist", "partition", "prioritylong", "comment",
)  # fmt: skip
"""Columns of `squeue -O`."""
EXCLUSION_COLUMNS = ("%A", "%x")
"""Columns of `squeue -o`, which alone shows exclusions: the raw id and the excluded nodes."""
_LIVE = frozenset({"PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED"})


def parse_brief(output: bytes, *, mark: str, former: SlurmJob) -> SlurmJob | None:
    """The job as it is now, its exclusions as before; None: only the full record tells.

    That is so of a job that has ended since, whose exit the table does not show, and of one that the table shows not
    once, or in a form that is not known.

    Raises:
        UnreadableError: Cut off, mangled, or another table.
    """
    titles, rows = read_rows(output, mark=mark, first_title="JOBID")
    if len(titles) != len(BRIEF_COLUMNS):
        raise values.unreadable("the table of one job", titles)
    own = [dict(zip(BRIEF_COLUMNS, row, strict=True)) for row in rows if row[0] == str(former.job_id)]
    if len(own) != 1:
        return None
    try:
        return _over(own[0], former)
    except UnreadableError:
        return None


def parse_exclusions(output: bytes, *, mark: str, job_id: int) -> tuple[str, ...] | None:
    """The nodes that the job excludes; None: the table does not show the job once.

    Raises:
        UnreadableError: Cut off, mangled, or another table.
    """
    titles, rows = read_rows(output, mark=mark, first_title="JOBID")
    if len(titles) != len(EXCLUSION_COLUMNS):
        raise values.unreadable("the table of one job's exclusions", titles)
    own = [row[1] for row in rows if row[0] == str(job_id)]
    return expand(own[0]) if len(own) == 1 else None


def _over(shown: dict[str, str], former: SlurmJob) -> SlurmJob | None:
    states = (shown["state"],)
    restart_count = values.shown_number(shown["restartcnt"], "a restart count")
    submitted_at = values.shown_moment(shown["submittime"], "a submit time")
    is_same_end = (states, restart_count, submitted_at) == (former.states, former.restart_count, former.submitted_at)
    if restart_count is None or submitted_at is None or (shown["state"] not in _LIVE and not is_same_end):
        return None
    reason = values.shown_text(shown["reason"])
    priority = values.shown_number(shown["prioritylong"], "a priority")
    return replace(
        former,
        states=states,
        restart_count=restart_count,
        submitted_at=submitted_at,
        started_at=values.shown_moment(shown["starttime"], "a start time"),
        reason=reason,
        eligible_at=values.shown_moment(shown["eligibletime"], "an eligible time"),
        preempted_at=values.shown_moment(shown["preempttime"], "a time of preemption"),
        requeue=_flag(shown["requeue"]),
        nodes=expand(shown["nodelist"]),
        partition=values.shown_text(shown["partition"]),
        priority=priority,
        held_by=held_by(states, reason, priority),
        comment=values.shown_text(shown["comment"]),
    )


def _flag(shown: str) -> bool:
    if shown not in ("0", "1"):
        raise values.unreadable("whether a job may be requeued", shown)
    return shown == "1"
