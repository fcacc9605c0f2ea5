"""The queue as the watchdog needs it: who ended and how, who is held and why, and who may be a copy of whom.

A table and not JSON: it is the same in all releases, and costs a tenth (see `glances`). Exclusions are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from relance.slurm.errors import UnreadableError
from relance.slurm.parsing import values
from relance.slurm.parsing.jobs import held_by
from relance.slurm.parsing.rows import rows_of
from relance.slurm.records import ExitCode, HeldBy, SlurmJob

WATCH_COLUMNS = (
    "jobid", "arrayjobid", "arraytaskid", "state", "restartcnt", "submittime", "starttime", "endtime", "reason",
    "preempttime", "requeue", "partition", "username", "userid", "prioritylong", "dependency", "exit_code", "workdir",
    "command", "name",
)  # fmt: skip
"""Columns of `squeue -O` that every release has."""
_HELD_STATE = "REQUEUE_HOLD"
_REQUEUED_HELD = "job requeued in held state"
"""The reason of a job that `requeuehold` put back (seen on 22.05); later releases write it with underscores."""


def parse_watched(output: bytes, *, mark: str) -> Iterator[SlurmJob]:
    """All records of one answer, one by one, so that whoever keeps a few of them does not hold them all.

    Raises:
        UnreadableError: Cut off, mangled, or another table.
    """
    titles, rows = rows_of(output, mark=mark, first_title="JOBID")
    if len(titles) != len(WATCH_COLUMNS):
        raise values.unreadable("the table of jobs", titles)
    return (_job(dict(zip(WATCH_COLUMNS, row, strict=True))) for row in rows)


def _job(shown: dict[str, str]) -> SlurmJob:
    job_id, uid = values.shown_number(shown["jobid"], "a job's id"), values.shown_number(shown["userid"], "a uid")
    restarts = values.shown_number(shown["restartcnt"], "a restart count")
    if job_id is None or uid is None or restarts is None:
        raise values.unreadable("a job's id, owner and restart count", (shown["jobid"], shown["userid"]))
    states, reason = values.state_words(shown["state"]), values.shown_text(shown["reason"])
    priority = values.shown_number(shown["prioritylong"], "a priority")
    tasks = shown["arraytaskid"]
    is_task = tasks != "N/A"
    return SlurmJob(
        job_id=job_id,
        array_job_id=values.shown_number(shown["arrayjobid"], "an array's id") if is_task else None,
        array_task_id=int(tasks) if is_task and tasks.isascii() and tasks.isdigit() else None,
        array_tasks=tasks if is_task else None,
        name=shown["name"],
        user=shown["username"],
        uid=uid,
        partition=values.shown_text(shown["partition"]),
        states=states,
        reason=reason,
        held_by=_held_by(states, reason, priority),
        submitted_at=values.shown_moment(shown["submittime"], "a submit time"),
        started_at=values.shown_moment(shown["starttime"], "a start time"),
        ends_at=values.shown_moment(shown["endtime"], "an end time"),
        preempted_at=values.shown_moment(shown["preempttime"], "a time of preemption"),
        exit=_exit(shown["exit_code"]),
        restart_count=restarts,
        requeue={"0": False, "1": True}.get(shown["requeue"]),
        priority=priority,
        dependency=values.shown_text(shown["dependency"]),
        work_dir=values.shown_text(shown["workdir"]),
        command=values.shown_text(shown["command"]),
    )


def _held_by(states: tuple[str, ...], reason: str | None, priority: int | None) -> HeldBy | None:
    if _HELD_STATE in states or (priority == 0 and (reason or "").replace("_", " ") == _REQUEUED_HELD):
        return HeldBy.USER
    return held_by(states, reason, priority)


def _exit(shown: str) -> ExitCode | None:
    """How it ended: a wait status as a number, or "code:signal"; None: not shown, or in a form that is not known."""
    if shown.isascii() and shown.isdigit():
        status = int(shown)
        return ExitCode(code=(status >> 8) & 0xFF, signal=status & 0x7F)
    try:
        return values.shown_exit(shown, "an exit code")
    except UnreadableError:
        return None
