"""Which attempts are effectively at `act`: asked every second or two of a whole queue, so no unchanged job is read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from relance.domain.events import IncidentEnd
from relance.domain.keys import JobKey
from relance.domain.quiet_hours import quiet_now
from relance.domain.records import ClusterRecord, JobRecord
from relance.domain.stages import Stage
from relance.domain.streams import Stream
from relance.domain.views import ClusterReport, JobView
from relance.ports.histories import History
from relance.recovery.ordering import job_stage
from relance.recovery.sites import ClusterRules

_PAGE = 500
_MOST_PAGES = 10
"""Behind by more events than these pages hold, everything is loaded anew: that takes no longer."""
_SETTLED = (IncidentEnd.STOPPED, IncidentEnd.LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """Whether a job acts, and what that rests on; `record` without what its stage does not depend on.

    `settled` are the restart counts of attempts on which it was decided to stop, or to leave them as they ended.
    """

    record: JobRecord
    settled: frozenset[int]
    view: JobView
    stages: ClusterRecord
    acts: bool

    def holds_for(self, view: JobView, stages: ClusterRecord) -> bool:
        """Whether asking again would give the same; a switch that ends by itself may end at any moment."""
        same_stages = self.stages is stages or self.stages == stages
        return self.view is view and same_stages and self.record.switch_until is None


class Actors:
    """Remembers each job's answer until its stream, its view or the cluster's stages change."""

    def __init__(self, history: History) -> None:
        """Begin with nothing remembered."""
        self._history = history
        self._position: int | None = None
        self._answers: dict[JobKey, _Answer] = {}

    async def of(
        self, report: ClusterReport, stages: ClusterRecord, rules: ClusterRules, now: datetime
    ) -> tuple[str, ...]:
        """The attempts in this look at the cluster that are at `act`, in its order."""
        await self._drop_changed()
        keys = {view.job_key(stages.cluster): view for view in report.jobs}
        self._forget(stages.cluster, keys)
        found: list[str] = []
        for key, view in keys.items():
            known = self._answers.get(key)
            if known is None or not known.holds_for(view, stages):
                loaded = (known.record, known.settled) if known is not None else await self._load(key)
                if loaded is None:
                    continue
                record, settled = loaded
                # What was stopped or left is not the controller's to save any more, nor the watchdog's after it.
                is_settled = view.state.is_over and view.restart_count in settled
                acts = not is_settled and job_stage(record, stages, rules, now, view).stage is Stage.ACT
                known = self._answers[key] = _Answer(
                    record=record, settled=settled, view=view, stages=stages, acts=acts
                )  # fmt: skip
            # In quiet hours nothing begins, and what nobody parks then the watchdog is not to start either.
            if known.acts and quiet_now(rules.quiet, tuple(view.partition.split(",")), now) is None:
                found.append(str(view.attempt_key(stages.cluster)))
        return tuple(found)

    async def _load(self, key: JobKey) -> tuple[JobRecord, frozenset[int]] | None:
        record = (await self._history.load(Stream.of_job(key))).record
        if not isinstance(record, JobRecord) or not record.name:
            return None
        settled = frozenset(item.attempt.restart_count for item in record.incidents if item.end in _SETTLED)
        small = replace(record, attempts=(), incidents=(), finding_ids=frozenset(), outside=(), requeues=())
        return small, settled

    async def _drop_changed(self) -> None:
        """Forget the jobs to which anything was appended, by this process or by another on the same history."""
        head = await self._history.head()
        for _ in range(_MOST_PAGES):
            if self._position is None or self._position >= head:
                break
            page = await self._history.follow(self._position, _PAGE)
            for item in page:
                if item.stream.kind == "job":
                    self._answers.pop(JobKey.parse(item.stream.subject), None)
            self._position = page[-1].position if page else head
        else:
            self._answers.clear()
        if self._position is None or self._position < head:
            self._answers.clear()
            self._position = head

    def _forget(self, cluster: str, keep: Collection[JobKey]) -> None:
        for key in [key for key in self._answers if key.cluster == cluster and key not in keep]:
            del self._answers[key]
