"""What came of a chaos run: judged by the ranks' books, Slurm's accounting and queue, and then by the history."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.chaos_books import doubled, lost, read_book
from bench.chaos_runs import Record
from bench.punishers import Deed, Hit
from bench.slurm_sites import SlurmSite
from bench.stories import story_gaps

_CHECKSUM = re.compile(r"weights after iteration (\d+): checksum ([0-9a-f]+)")
_SLACK_S = 2.0
"""Accounting has whole seconds."""
_LAUNCH_S = 15.0
"""An attempt that began so shortly before a slurmd was killed may not have reached its node yet."""


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What was wrong, in sentences, by kind."""

    lost: list[str] = field(default_factory=list)
    """Jobs that did not finish, and steps."""
    doubled: list[str] = field(default_factory=list)
    """Two writers, attempts that nobody's deed ended, two begun restarts of one attempt."""
    held: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)
    """What the history lacks, or has twice."""
    figures: dict[str, Any] = field(default_factory=dict)


def judge(site: SlurmSite, record: Record) -> Verdict:
    """Look at every job. Raises the client's errors when the server does not answer."""
    site.reconnect()
    found = Verdict()
    attempts, ours, ends = 0, 0, Counter[str]()
    sums: set[str] = set()
    for job, book in record.jobs.items():
        _judge_books(job, book, record, found)
        rows = site.trainings.attempts(job)
        attempts += len(rows)
        found.doubled += [f"job {job}: {each}" for each in without_cause(job, rows, record.hits)]
        sums |= {f"{step} {value}" for step, value in _CHECKSUM.findall(site.trainings.output(job))}
        begun, untold = _judge_history(site, job, rows)
        ours += begun
        found.untold += untold
        ends.update(item.end.value if item.end else "open" for item in site.incidents(job))
    if len(sums) != 1:
        found.lost.append(f"the trainings did not come to the same weights: {sorted(sums)}")
    found.held += _held(record)
    found.untold += [f"job {job}: its incidents have no end" for job in record.open_incidents]
    found.figures = {
        "jobs": len(record.jobs),
        "deeds": dict(Counter(hit.deed.value for hit in record.hits)),
        "attempts": attempts,
        "restarts by Relance": ours,
        "ends of incidents": dict(ends),
        "jobs hit": len({hit.job for hit in record.hits if hit.job}),
        "duration_s": round(record.duration_s, 1),
    }
    return found


def without_cause(job: int, rows: Sequence[Mapping[str, Any]], hits: Sequence[Hit]) -> list[str]:
    """The attempts that ended although nobody had done anything to them: a healthy job was restarted."""
    wrong = []
    for row in rows[:-1]:
        number, begun, ended = row["restart_count"], row["start_time"], row["end_time"]
        if begun is None or ended is None or any(_caused(hit, job, row) for hit in hits):
            continue
        wrong.append(f"attempt {number} ended as {row['state']} ({row['exit_code']}), and nobody had touched it")
    return wrong


def _caused(hit: Hit, job: int, row: Mapping[str, Any]) -> bool:
    begun, ended = row["start_time"] - _SLACK_S, row["end_time"] + _SLACK_S
    if hit.deed is Deed.RANK:
        return hit.job == job and hit.restart_count == row["restart_count"] and begun <= hit.at <= ended
    if hit.node not in row["nodes"]:
        return False
    back = hit.until if hit.until is not None else float("inf")
    if hit.deed is Deed.NODE:
        return bool(hit.at <= ended and back + _LAUNCH_S >= begun)
    # Its ranks lived on: it may only have kept an attempt from being launched.
    return bool(hit.at - _LAUNCH_S <= begun + _SLACK_S and begun <= back + _LAUNCH_S)


def _judge_books(job: int, book: Any, record: Record, found: Verdict) -> None:  # noqa: ANN401 -- a path
    size = record.size
    if job in record.unfinished:
        rows = record.watch.rows[job]
        last = f"{rows[-1].state} ({rows[-1].reason})" if rows else "never seen"
        found.lost.append(f"job {job} did not finish: {last}")
    for rank in range(size.nodes_each):
        attempts = read_book(book / f"rank-{rank}.log")
        found.doubled += [f"job {job} rank {rank}: {each}" for each in doubled(attempts)]
        if job not in record.unfinished:
            found.lost += [
                f"job {job} rank {rank}: {each}" for each in lost(attempts, size.steps, size.checkpoint_every)
            ]


def _judge_history(site: SlurmSite, job: int, rows: Sequence[Mapping[str, Any]]) -> tuple[int, list[str]]:
    """How many restarts of this job were ours, and what the history lacks."""
    story = site.story(job)
    if story is None:
        return 0, [f"job {job}: the history does not know it"]
    untold = []
    known = [each.attempt.restart_count for each in story.attempts]
    if known != [row["restart_count"] for row in rows]:
        untold.append(f"job {job}: the history has the attempts {known}, accounting has {len(rows)}")
    told = {item.attempt.restart_count for item in story.incidents}
    missing = [row["restart_count"] for row in rows[:-1] if row["restart_count"] not in told]
    untold += [f"job {job}: no incident for the end of attempt {number}" for number in missing]
    events = site.client.job_history(str(job))
    begun = [row for row in events if row.event == "ActionStarted"]
    for item in story.incidents:
        if site.client.incident_story(item.id).action is not None:
            untold += [f"job {job}, incident {item.id}: {gap}" for gap in story_gaps(site, item, asked_again=True)]
    counts = Counter(row.incident_id for row in begun)
    untold += [
        f"job {job}: {number} restarts begun in incident {each}" for each, number in counts.items() if number > 1
    ]
    return len(begun), untold


def _held(record: Record) -> list[str]:
    """Jobs that are held at the end."""
    wrong = []
    for job, rows in record.watch.rows.items():
        if rows and rows[-1].is_held:
            wrong.append(f"job {job} is left held: {rows[-1].reason}")
    return wrong
