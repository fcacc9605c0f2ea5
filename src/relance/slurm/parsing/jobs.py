"""Jobs from the JSON of `squeue` and `scontrol show job`, releases 22.05 to 25.11.

JSON is the one form in which a user's text (names, comments, paths) cannot pretend to be another field or another job,
and the only one of 22.05 that shows exclusions, restart counts and comments in one question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from relance.slurm.errors import RefusedError, UnknownJobError, UnreadableError
from relance.slurm.hostlists import expand
from relance.slurm.parsing import values
from relance.slurm.records import HeldBy, SlurmJob

_REQUIRED = frozenset({
    "array_job_id", "array_task_id", "array_task_string", "command", "current_working_directory", "dependency",
    "eligible_time", "end_time", "excluded_nodes", "exit_code", "het_job_id", "het_job_offset", "job_id", "job_state",
    "name", "nodes", "partition", "preempt_time", "priority", "requeue", "required_nodes", "restart_cnt",
    "standard_output", "start_time", "state_reason", "submit_time", "user_id",
})  # fmt: skip
"""Fields that all releases show and that decisions rest on: without one of them a record is not read at all."""

_HELD = {
    "JobHeldUser": HeldBy.USER,
    # What tables show after a `requeuehold`, whoever gave it (seen: 22.05).
    "job_requeued_in_held_state": HeldBy.USER,
    "JobHeldAdmin": HeldBy.ADMIN,
    "JobHoldMaxRequeue": HeldBy.SLURM,
    "JobLaunchFailure": HeldBy.SLURM,
    "launch_failed_requeued_held": HeldBy.SLURM,
}
_PRIORITY_ZERO_WITHOUT_HOLD = frozenset({"BadConstraints"})
"""Reasons that come with priority 0 and go away without a release (slurm.md 2)."""
_EXPANDS_PATHS_SINCE = (23, 11)
_TASKS = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?\Z", re.ASCII)
_EXTERNAL = "EXTERNAL_JOB"
_UNWANTED = object()
"""Stands for a record that was not asked for: nothing in a document is taken for it."""


def parse_jobs(output: bytes) -> tuple[SlurmJob, ...]:
    """All jobs of one answer; an empty tuple only for a whole document that proves to be a list of no jobs.

    2,000 jobs take about 0.2 s: long enough to belong in a thread.

    Raises:
        UnreadableError: Cut off, mangled, or without a field that decisions rest on.
        UnknownJobError: The document itself says so of the job that was asked for.
        RefusedError: The document carries another error of Slurm.
    """
    return _parsed(output, None)


def parse_some_jobs(output: bytes, ids: Collection[str]) -> tuple[SlurmJob, ...]:
    """The jobs of these raw ids, and the tasks of these arrays; the others, which 22.05 shows too, are not looked at.

    Raises:
        UnreadableError: As `parse_jobs`.
        UnknownJobError: As `parse_jobs`.
        RefusedError: As `parse_jobs`.
    """
    return _parsed(output, ids)


def pick_job(jobs: tuple[SlurmJob, ...], job_id: str) -> SlurmJob:
    """The record of one id (12, 3_1, 10+1 or a raw id), since 22.05 answers with all jobs whatever was asked.

    A task of an array that has not started is found in the record that stands for all of them.

    Raises:
        UnknownJobError: The answer has no such job.
    """
    for job in jobs:
        if job_id in (job.shown_id, str(job.job_id)) and (job.array_tasks is None or job.array_task_id is not None):
            return job
    leader, _, task = job_id.partition("_")
    for job in jobs:
        stands_for_it = job.array_tasks is not None and leader == str(job.array_job_id)
        if stands_for_it and (not task or _has_task(job.array_tasks or "", int(task))):
            return job
    raise UnknownJobError(f"Slurm shows no job {job_id}.", text=job_id)


def _parsed(output: bytes, ids: Collection[str] | None) -> tuple[SlurmJob, ...]:
    """Each record is read as soon as it is decoded: all of a long queue at once take several times the room."""

    def read(found: dict[str, object]) -> object:
        if "job_state" not in found:
            return found
        return _job(found) if ids is None or _is_among(found, ids) else _UNWANTED

    document = _document(output, read)
    records = document.get("jobs")
    if type(records) is not list:
        raise values.unreadable("the list of jobs", records)
    expands = _release(document) >= _EXPANDS_PATHS_SINCE
    # What is no job by now lacks its state, and is refused for it.
    jobs = [record if isinstance(record, SlurmJob) else _job(record) for record in records if record is not _UNWANTED]
    return tuple(replace(job, has_expanded_paths=True) if expands and not job.has_expanded_paths else job
                 for job in jobs)  # fmt: skip


def _is_among(record: Mapping[str, object], ids: Collection[str]) -> bool:
    """Whether a record is wanted; one that does not show it is, and is then refused for it."""
    if type(record.get("job_id")) is not int:
        return True
    return str(record["job_id"]) in ids or str(values.number(record, "array_job_id")) in ids


def _document(output: bytes, read: Callable[[dict[str, object]], object]) -> Mapping[str, object]:
    try:
        document = json.loads(output.decode("utf-8", "replace"), object_hook=read)
    except (ValueError, RecursionError):
        raise values.unreadable("JSON", output[-200:]) from None
    if type(document) is not dict:
        raise values.unreadable("JSON", output[:200])
    errors = document.get("errors")
    if type(errors) is not list or type(document.get("meta")) is not dict:
        raise values.unreadable("the frame of a JSON answer", output[-200:])
    if errors:
        said = json.dumps(errors)[:500]
        if "Invalid job id" in said:
            raise UnknownJobError("Slurm knows no such job.", text=said)
        raise RefusedError(f"Slurm answered with an error: {said}.", text=said)
    return cast("dict[str, object]", document)


def _release(document: Mapping[str, object]) -> tuple[int, int]:
    """Major and minor of the release that wrote the document, (0, 0) if it does not say."""
    meta = cast("dict[str, object]", document["meta"])
    about = meta.get("slurm", meta.get("Slurm"))
    version = about.get("version") if type(about) is dict else None
    if type(version) is not dict:
        return (0, 0)
    try:
        return (int(version["major"]), int(version["minor"]))
    except (KeyError, TypeError, ValueError):
        return (0, 0)


def _job(value: object) -> SlurmJob:
    if type(value) is not dict:
        raise values.unreadable("a job", value)
    record = cast("dict[str, object]", value)
    missing = _REQUIRED - record.keys()
    if missing:
        raise values.unreadable(f"a job without {', '.join(sorted(missing))}", record.get("job_id"))
    fields: dict[str, Any] = {field: read(record, key) for field, read, key in _STRICT}
    fields |= {field: _if_readable(read, record, key) for field, read, key in _OPTIONAL}
    fields |= {field: _nodes(record, key) for field, key in _NODE_LISTS}
    fields |= _identity(record) | _state(record) | _paths(record)
    if fields["restart_count"] and not fields["het_offset"]:
        # Slurm counts in this flag: once the batch host was lost it is 2, and shown as if there were no script (seen:
        # 22.05). Only jobs with a script are ever requeued (peers.md R1); of a heterogeneous one its leader has it.
        fields["is_batch"] = True
    return SlurmJob(**fields)


def _identity(record: Mapping[str, object]) -> dict[str, object]:
    array_job_id = values.number(record, "array_job_id") or None
    het_job_id = values.number(record, "het_job_id") or None
    return {
        "job_id": _demanded(record, "job_id"),
        "name": values.text(record, "name") or "",
        "uid": _demanded(record, "user_id"),
        "restart_count": _demanded(record, "restart_cnt"),
        "array_job_id": array_job_id,
        "array_task_id": None if array_job_id is None else values.number(record, "array_task_id"),
        "het_job_id": het_job_id,
        "het_offset": None if het_job_id is None else values.number(record, "het_job_offset"),
        "het_ids": () if het_job_id is None else _het_ids(record),
        "is_external": _is_external(record),
        "is_expedited": _is_flagged(record, "EXPEDITED_REQUEUE"),
    }


def _het_ids(record: Mapping[str, object]) -> tuple[int, ...]:
    """The raw ids of all components, shown as "10-11"; empty where they are not shown so that they can be read."""
    try:
        shown = values.text(record, "het_job_id_set") or ""
        return tuple(job_id for each in _ranges(shown, "a heterogeneous job's ids") for job_id in each)
    except UnreadableError:
        return ()


def _is_flagged(record: Mapping[str, object], flag: str) -> bool:
    flags = record.get("flags")
    return type(flags) is list and flag in flags


def _is_external(record: Mapping[str, object]) -> bool:
    """Whether Slurm flags the job as one of another system (25.05 and later), or slurm-bridge wrote its pods to it."""
    if _is_flagged(record, _EXTERNAL):
        return True
    try:
        noted = json.loads(values.text(record, "admin_comment") or "null")
    except (UnreadableError, ValueError, RecursionError):
        return False
    return type(noted) is dict and type(noted.get("pods")) is list


def _state(record: Mapping[str, object]) -> dict[str, object]:
    states = values.state_words(record["job_state"])
    reason = values.shown_text(values.text(record, "state_reason") or "")
    # 22.05 to 24.11 show a hold of Slurm's own as one of the user's; what it is stands beside it (seen: 22.05).
    described = _if_readable(values.text, record, "state_description")
    if isinstance(described, str) and _HELD.get(_joined(described)) is HeldBy.SLURM:
        reason = _joined(described)
    priority = values.number(record, "priority")
    minutes = _if_readable(values.number, record, "time_limit")
    return {
        "states": states,
        "reason": reason,
        "priority": priority,
        "held_by": held_by(states, reason, priority),
        "time_limit_s": minutes * 60 if isinstance(minutes, int) else None,
    }


def held_by(states: tuple[str, ...], reason: str | None, priority: int | None) -> HeldBy | None:
    """Whether a pending job is held, and by whom; None of any other."""
    if "PENDING" not in states:
        return None
    if reason is not None and _joined(reason) in _HELD:
        return _HELD[_joined(reason)]
    if priority == 0 and reason not in _PRIORITY_ZERO_WITHOUT_HOLD:
        return HeldBy.UNKNOWN
    return HeldBy.NOBODY


def _joined(reason: str) -> str:
    """A reason in one word: tables of 22.05 write with spaces what records and later releases write without."""
    return reason.replace(" ", "_")


def _paths(record: Mapping[str, object]) -> dict[str, object]:
    """The log paths: 22.05 shows patterns, 23.11 and 24.11 what became of them (no record says so), 25.11 both."""
    shows_both = "stdout_expanded" in record
    form = "std{}_expanded" if shows_both else "standard_{}"
    out, err = ("out", "err") if shows_both else ("output", "error")
    return {
        "stdout": values.text(record, form.format(out)),
        "stderr": _if_readable(values.text, record, form.format(err)),
        "has_expanded_paths": shows_both,
    }


def _if_readable(read: _Reader, record: Mapping[str, object], key: str) -> object:
    """A field that may be missing, or of a shape that is not known."""
    try:
        return read(record, key)
    except UnreadableError:
        return None


def _demanded(record: Mapping[str, object], key: str) -> int:
    value = values.number(record, key)
    if value is None or value < 0:
        raise values.unreadable(key, record[key])
    return value


def _nodes(record: Mapping[str, object], key: str) -> tuple[str, ...]:
    shown = values.text(record, key)
    return () if shown is None else expand(shown)


def _has_task(shown: str, task: int) -> bool:
    """Whether a list such as "0-3,7%2" or "0-9:3" names the task; a list that Slurm cut short ("...") may."""
    tasks, _, _ = shown.partition("%")
    return any(task in each for each in _ranges(tasks.removesuffix("...").rstrip(","), "an array's tasks")) or (
        tasks.endswith("...")
    )


def _ranges(shown: str, what: str) -> Iterator[range]:
    for piece in shown.split(","):
        match = _TASKS.match(piece)
        if match is None:
            raise values.unreadable(what, shown)
        first = int(match[1])
        yield range(first, int(match[2] or first) + 1, int(match[3] or 1) or 1)


_NODE_LISTS = (
    ("nodes", "nodes"),
    ("excluded_nodes", "excluded_nodes"),
    ("required_nodes", "required_nodes"),
)
_Reader = Callable[[Mapping[str, object], str], object]
_STRICT: tuple[tuple[str, _Reader, str], ...] = (
    ("array_tasks", values.text, "array_task_string"),
    ("partition", values.text, "partition"),
    ("exit", values.exit_code, "exit_code"),
    ("requeue", values.flag, "requeue"),
    ("is_batch", values.flag, "batch_flag"),
    ("submitted_at", values.moment, "submit_time"),
    ("eligible_at", values.moment, "eligible_time"),
    ("started_at", values.moment, "start_time"),
    ("ends_at", values.moment, "end_time"),
    ("preempted_at", values.moment, "preempt_time"),
    ("licenses", values.text, "licenses"),
    ("dependency", values.text, "dependency"),
    ("comment", values.text, "comment"),
    ("work_dir", values.text, "current_working_directory"),
    ("command", values.text, "command"),
    ("federation_origin", values.text, "federation_origin"),
    ("federation_siblings", values.text, "federation_siblings_active"),
)
"""Fields that are read as they stand, on which decisions rest: the field, how it is read, and Slurm's name for it."""
_OPTIONAL: tuple[tuple[str, _Reader, str], ...] = (
    ("user", values.text, "user_name"),
    ("account", values.text, "account"),
    ("batch_host", values.text, "batch_host"),
    ("derived_exit", values.exit_code, "derived_exit_code"),
    ("node_count", values.number, "node_count"),
    ("task_count", values.number, "tasks"),
    ("tasks_per_node", values.positive, "tasks_per_node"),
    ("features", values.text, "features"),
    ("tres_per_job", values.text, "tres_per_job"),
    ("tres_per_node", values.text, "tres_per_node"),
    ("tres_per_task", values.text, "tres_per_task"),
    ("tres_requested", values.text, "tres_req_str"),
    ("tres_allocated", values.text, "tres_alloc_str"),
    ("reservation", values.text, "resv_name"),
)
"""Fields without which a job can be told of: what cannot be read is not known, and hides no job."""
