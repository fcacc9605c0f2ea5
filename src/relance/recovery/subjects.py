"""Which job, incident or advice a person means by what they typed."""

from __future__ import annotations

from dataclasses import dataclass

from relance.domain.records import JobRecord
from relance.ports.histories import History, IncidentRow


class NotKnownError(LookupError):
    """Nothing goes by that name."""


class AmbiguousError(LookupError):
    """Several things go by that name; `candidates` are the ways to say which."""

    def __init__(self, text: str, candidates: tuple[str, ...]) -> None:
        """Name what was asked for and what it may mean."""
        super().__init__(f"{text!r} may mean {len(candidates)} jobs: {', '.join(candidates)}")
        self.candidates = candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Whose jobs there are for somebody: those of a uid, on the clusters where it is theirs (None: on all)."""

    uid: int
    clusters: frozenset[str] | None = None

    def has(self, record: JobRecord) -> bool:
        """Whether it is a job of theirs."""
        return record.owner_uid == self.uid and (self.clusters is None or record.job.cluster in self.clusters)


async def job_meant(history: History, text: str, own: Own | None = None, cluster: str | None = None) -> JobRecord:
    """The job with this key, else with this raw id, else with this name. An id that was used again means the newest.

    With `own`, other people's jobs are not there at all: nothing tells one from a job that does not exist. A job
    of `cluster` is preferred. Raises NotKnownError, or AmbiguousError when a name is shared, or an id is known on
    several clusters.
    """
    text = text.strip()
    found = await history.find_jobs(text) if text else ()
    if own is not None:
        found = tuple(record for record in found if own.has(record))
    found = tuple(record for record in found if cluster in (None, record.job.cluster)) or found
    if not found:
        raise NotKnownError(f"no job is known by {text!r}")
    by_key = [record for record in found if str(record.job) == text]
    if by_key:
        return by_key[0]
    by_id = [record for record in found if record.job.raw_id == text]
    candidates = _newest_of_each_cluster(by_id) or list(found)
    if len(candidates) > 1:
        raise AmbiguousError(text, tuple(str(record.job) for record in candidates[:8]))
    return candidates[0]


async def incident_meant(history: History, text: str) -> IncidentRow:
    """The incident with this id or a unique beginning of it, or the one with this advice or action.

    Raises NotKnownError.
    """
    text = text.strip()
    found = await history.find_incident(text) if text else None
    if found is None:
        raise NotKnownError(f"no incident, advice or action is known by {text!r}")
    return found


def _newest_of_each_cluster(records: list[JobRecord]) -> list[JobRecord]:
    oldest_first = sorted(records, key=lambda record: record.job.submitted_at)
    return list({record.job.cluster: record for record in oldest_first}.values())
