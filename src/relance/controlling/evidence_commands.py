"""The command that a site has for evidence, made into the one that is run for a job. Pure.

Only what the scheduler itself told goes into it, each value checked: a command is an argument list, and still some of
its words may be a script.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from relance.domain.advice import Command, Effect
from relance.domain.collecting import LIMIT_S
from relance.domain.keys import stable_id
from relance.domain.views import JobState, JobView

PLACEHOLDERS = ("job_id", "nodes", "node_count", "user")
"""What a site's command may name: `{job_id}`, `{nodes}` (with commas between), `{node_count}`, `{user}`."""
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z_]+)\}")
"""`${name}` is a shell's own, and stays as it is."""
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}\Z", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,252}\Z", re.ASCII)
_KILL_S = 2.0
"""Between the request to end and the end by force: an `srun` that is asked first takes its step with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidencePlan:
    """The site's command for evidence, whether it may be run (else it is only shown), and how long, in seconds."""

    command: tuple[str, ...] = ()
    collect: bool = False
    limit_s: float = LIMIT_S


class MarksEvidence(Protocol):
    """What is needed of a scheduler here."""

    def evidence(self, argv: tuple[str, ...]) -> Command:
        """The command as it is run on this cluster, what it starts in the job marked as ours."""
        ...


class CannotCollectError(Exception):
    """The command cannot be made for this job. Says why, in words."""


def unknown_placeholders(command: Collection[str]) -> tuple[str, ...]:
    """The names in braces that are none of ours."""
    found = {name for word in command for name in _PLACEHOLDER.findall(word)}
    return tuple(sorted(found - set(PLACEHOLDERS)))


def evidence_effect(plan: EvidencePlan, job: JobView, known_nodes: Collection[str], scheduler: MarksEvidence) -> Effect:
    """The exact command for a job, to be shown and run. Raises CannotCollectError.

    `known_nodes` are those that the scheduler has: no other name enters a command.
    """
    values = _values(job, known_nodes)
    argv = tuple(_PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in plan.command)
    marked = scheduler.evidence(argv)
    # `timeout` holds the limit also when the controller dies meanwhile.
    limited = ("timeout", f"--kill-after={_KILL_S:g}", f"{ends_s(plan):g}", *marked.argv)
    command = Command(argv=limited)
    summary = f"job {job.raw_id}: the site's command for evidence, {min(plan.limit_s, LIMIT_S):.0f} s at most"
    digest = stable_id("evidence", json.dumps(limited), job.raw_id, job.restart_count)
    return Effect(summary=summary, commands=(command,), digest=digest)


def ends_s(plan: EvidencePlan) -> float:
    """After how many seconds the command is asked to end; soon after that it is made to."""
    return max(1.0, min(plan.limit_s, LIMIT_S) - _KILL_S)


def why_not_now(job: JobView, expected_count: int) -> str:
    """Why nothing is collected of the job as it was read just now; empty when nothing speaks against it."""
    if job.state is not JobState.RUNNING or job.restart_count != expected_count:
        return f"the attempt does not run any more: the job is {job.state.value}"
    if job.somebody_at_work:
        return f"somebody is at work in the job: {job.somebody_at_work}"
    return ""


def _values(job: JobView, known_nodes: Collection[str]) -> dict[str, str]:
    unknown = [node for node in job.nodes if node not in known_nodes or not _NAME.match(node)]
    if unknown or not job.nodes:
        which = ", ".join(unknown[:3]) or "none is shown"
        raise CannotCollectError(f"the scheduler does not know all nodes of job {job.raw_id} ({which})")
    if not _JOB.match(job.raw_id) or not _NAME.match(job.user):
        raise CannotCollectError(f"id or user of job {job.raw_id!r} is not fit for a command")
    return {
        "job_id": job.raw_id,
        "nodes": ",".join(job.nodes),
        "node_count": str(len(job.nodes)),
        "user": job.user,
    }
