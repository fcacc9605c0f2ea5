"""Attempts and their steps from `sacct --duplicates --parsable`, with a mark for a separator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from relance.slurm.hostlists import expand
from relance.slurm.parsing import values
from relance.slurm.parsing.rows import read_rows
from relance.slurm.records import AccountedJob, AccountedStep

ACCOUNTING_COLUMNS = (
    "JobID", "JobIDRaw", "State", "ExitCode", "DerivedExitCode", "Submit", "Eligible", "Start", "End", "ElapsedRaw",
    "TimelimitRaw", "NNodes", "NodeList", "UID", "User", "Account", "Partition", "Reason", "AllocTRES", "WorkDir",
    "Comment", "AdminComment", "JobName",
)  # fmt: skip
"""Columns that every release has. A later release's `Restarts` is read where it was asked for."""

_REQUIRED = frozenset({"JobIDRaw", "State", "Submit", "Start", "End", "ExitCode", "NodeList", "JobName"})
_ID = re.compile(r"(\d+)(?:\.([A-Za-z0-9_+-]+))?\Z", re.ASCII)
_STATE = re.compile(r"([A-Z][A-Z_]*)(?: by (\d+))?\+?\Z", re.ASCII)


def knows_restarts(output: bytes) -> bool:
    """Whether a list of accounting's fields has the number of each attempt."""
    return b"Restarts" in output.split()


def parse_accounting(output: bytes, *, mark: str) -> tuple[AccountedJob, ...]:
    """One record for each attempt, its steps within; an empty tuple only for a whole table that has no row.

    Raises:
        UnreadableError: Cut off, mangled, another table, or a step that does not follow its job.
    """
    titles, rows = read_rows(output, mark=mark, first_title="JobID")
    if missing := _REQUIRED - set(titles):
        raise values.unreadable(f"accounting without {', '.join(sorted(missing))}", titles)
    jobs: list[AccountedJob] = []
    steps: list[list[AccountedStep]] = []
    for row in rows:
        shown = dict(zip(titles, row, strict=True))
        match = _ID.match(shown["JobIDRaw"])
        if match is None:
            raise values.unreadable("an id in accounting", shown["JobIDRaw"])
        job_id, step_id = int(match[1]), match[2]
        if step_id is None:
            jobs.append(_job(job_id, shown))
            steps.append([])
        elif jobs and jobs[-1].job_id == job_id:
            steps[-1].append(_step(job_id, step_id, shown))
        else:
            raise values.unreadable("a step that does not follow its job", shown["JobIDRaw"])
    return tuple(replace(job, steps=tuple(own)) for job, own in zip(jobs, steps, strict=True))


def _job(job_id: int, shown: Mapping[str, str]) -> AccountedJob:
    state, cancelled_by = _state(shown["State"])
    minutes = values.shown_number(shown.get("TimelimitRaw", ""), "a time limit")
    return AccountedJob(
        job_id=job_id,
        shown_id=shown["JobID"],
        name=shown["JobName"],
        user=shown.get("User") or None,
        uid=values.shown_number(shown.get("UID", ""), "a uid"),
        account=values.shown_text(shown.get("Account", "")),
        partition=values.shown_text(shown.get("Partition", "")),
        state=state,
        cancelled_by=cancelled_by,
        reason=values.shown_text(shown.get("Reason", "")),
        exit=values.shown_exit(shown["ExitCode"], "an exit code"),
        derived_exit=values.shown_exit(shown.get("DerivedExitCode", ""), "a derived exit code"),
        submitted_at=values.shown_moment(shown["Submit"], "a submit time"),
        eligible_at=values.shown_moment(shown.get("Eligible", ""), "an eligible time"),
        started_at=values.shown_moment(shown["Start"], "a start time"),
        ended_at=values.shown_moment(shown["End"], "an end time"),
        elapsed_s=values.shown_number(shown.get("ElapsedRaw", ""), "an elapsed time"),
        time_limit_s=None if minutes is None else minutes * 60,
        restart_count=values.shown_number(shown.get("Restarts", ""), "a restart count"),
        nodes=expand(shown["NodeList"]),
        node_count=values.shown_number(shown.get("NNodes", ""), "a number of nodes"),
        tres_allocated=shown.get("AllocTRES") or None,
        comment=shown.get("Comment") or None,
        admin_comment=shown.get("AdminComment") or None,
        work_dir=shown.get("WorkDir") or None,
    )


def _step(job_id: int, step_id: str, shown: Mapping[str, str]) -> AccountedStep:
    state, cancelled_by = _state(shown["State"])
    return AccountedStep(
        job_id=job_id,
        step_id=step_id,
        name=shown["JobName"],
        state=state,
        cancelled_by=cancelled_by,
        exit=values.shown_exit(shown["ExitCode"], "an exit code"),
        submitted_at=values.shown_moment(shown["Submit"], "a submit time"),
        started_at=values.shown_moment(shown["Start"], "a start time"),
        ended_at=values.shown_moment(shown["End"], "an end time"),
        nodes=expand(shown["NodeList"]),
        node_count=values.shown_number(shown.get("NNodes", ""), "a number of nodes"),
        elapsed_s=values.shown_number(shown.get("ElapsedRaw", ""), "an elapsed time"),
    )


def _state(shown: str) -> tuple[str, int | None]:
    match = _STATE.match(shown)
    if match is None:
        raise values.unreadable("a state in accounting", shown)
    return match[1], None if match[2] is None else int(match[2])
