"""What an owner's request is about: one job of the own uid, and an order that is the owner's to give."""

from __future__ import annotations

from dataclasses import replace

from relance.domain.records import JobRecord
from relance.domain.stages import Stage
from relance.recovery import subjects
from relance.recovery.commands import CommandRefusedError
from relance.recovery.owning import signature, switched_by_another
from relance.recovery.subjects import NotKnownError, Own
from relance.serving.identities import Identity
from relance.serving.owners import Owner
from relance.serving.parts import ServerParts
from relance.serving.problems import ProblemError, problem_of

_AN_OWNERS = (None, Stage.OFF, Stage.OBSERVE)
"""What an owner may switch a job to: less, or back to what it has without a switch."""
_ONLY_OWN = "without a token you see your own jobs, once Relance has seen them; with one, add --token-file"


async def meant(who: Identity | Owner, parts: ServerParts, job: str, cluster: str | None = None) -> str:
    """The job as it was named; for an owner the key of an own job. Raises ProblemError for other people's.

    `cluster` says which of an owner's jobs with the same id is meant.
    """
    return str((await _own(who, parts, job, cluster)).job) if isinstance(who, Owner) else job


async def ordered(who: Identity | Owner, parts: ServerParts, job: str) -> tuple[str, str]:
    """The job that an order is about, and who signs it. Raises ProblemError as `meant` does."""
    if not isinstance(who, Owner):
        return job, who.name
    record = await _own(who, parts, job)
    return str(record.job), signature(record, who.uid)


async def check_switch(who: Identity | Owner, parts: ServerParts, job: str, stage: Stage | None) -> None:
    """Raise CommandRefusedError for a switch that is not an owner's to set or to lift."""
    if not isinstance(who, Owner):
        return
    if stage not in _AN_OWNERS:
        raise CommandRefusedError("without a token a job can only be switched off, to observe, or back")
    record = await _own(who, parts, job)
    other = await switched_by_another(parts.history, record, who.uid, parts.clock.now())
    if other:
        raise CommandRefusedError(f"{other} has switched this job; ask them to lift it")


async def _own(who: Owner, parts: ServerParts, job: str, cluster: str | None = None) -> JobRecord:
    try:
        return await subjects.job_meant(parts.history, job, Own(uid=who.uid, clusters=who.clusters), cluster)
    except NotKnownError as error:
        raise ProblemError(replace(problem_of(error), remedy=_ONLY_OWN)) from error
