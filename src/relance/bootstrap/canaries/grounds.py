"""Where a canary's jobs run, and what scheduler and server say of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from relance.client.errors import ClientError
from relance.client.people import ApiClient
from relance.domain.stages import Stage
from relance.domain.views import JobState, JobView
from relance.ports.clocks import Clock
from relance.ports.own_jobs import OwnJobs
from relance.ports.schedulers import JobGoneError, Scheduler, SchedulerSilentError
from relance.recovery.rows import HistoryRow, IncidentItem, JobStage
from relance.recovery.stories import IncidentStory, JobStory

_T = TypeVar("_T")
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where a canary's jobs run, and who is asked about them.

    Attributes:
        folder: A folder that the nodes and the watcher see; each trial has one of its own in it.
        nodes: Nodes of each job.
        patience_s: How long each thing is waited for.
        quiet_s: How long a job that is to be left alone is watched.
        tell: Says what goes on.
    """

    cluster: str
    partition: str
    folder: Path
    nodes: int
    patience_s: float
    quiet_s: float
    jobs: OwnJobs
    scheduler: Scheduler
    client: ApiClient
    clock: Clock
    tell: Callable[[str], None]
    keys: dict[str, str] = field(default_factory=dict)
    """The key of each job by its raw id, which another cluster of the server may know too."""

    async def until(self, ask: Callable[[], Awaitable[_T | None]], limit_s: float | None = None) -> _T | None:
        """What is asked for, once there is an answer; None when there was none in time."""
        end_s = self.clock.monotonic() + (self.patience_s if limit_s is None else limit_s)
        while (found := await ask()) is None and self.clock.monotonic() < end_s:
            await self.clock.sleep(_LOOK_S)
        return found

    async def job(self, raw_id: str) -> JobView | None:
        """The job as the scheduler shows it; None: it does not answer, or knows it no more."""
        with suppress(JobGoneError, SchedulerSilentError):
            view = await self.scheduler.read(raw_id)
            self.keys[raw_id] = str(view.job_key(self.cluster))
            return view
        return None

    async def job_in(self, raw_id: str, *states: JobState) -> JobView | None:
        """The job when it is in one of these states."""
        view = await self.job(raw_id)
        return view if view is not None and view.state in states else None

    async def over(self, raw_id: str) -> JobView | None:
        """The job when it is over."""
        view = await self.job(raw_id)
        return view if view is not None and view.state.is_over else None

    async def runs_again(self, raw_id: str) -> JobView | None:
        """The job when a later attempt of it runs."""
        view = await self.job_in(raw_id, JobState.RUNNING)
        return view if view is not None and view.restart_count > 0 else None

    async def story(self, raw_id: str) -> JobStory | None:
        """What the server knows of the job."""
        return await self._ask(lambda: self.client.job_story(self._name(raw_id)))

    async def incident(self, raw_id: str) -> IncidentItem | None:
        """The job's first incident, once there is one."""
        story = await self.story(raw_id)
        return story.incidents[-1] if story is not None and story.incidents else None

    async def incident_story(self, incident_id: str) -> IncidentStory | None:
        """The whole story of an incident."""
        return await self._ask(lambda: self.client.incident_story(incident_id))

    async def stage(self, raw_id: str) -> JobStage | None:
        """The stage of the job."""
        return await self._ask(lambda: self.client.job_stage(self._name(raw_id)))

    async def acts(self, raw_id: str) -> JobStage | None:
        """The stage of the job when it is `act`."""
        found = await self.stage(raw_id)
        return found if found is not None and found.effective.stage is Stage.ACT else None

    async def history(self, raw_id: str) -> tuple[HistoryRow, ...]:
        """All that the history has of the job."""
        return await self._ask(lambda: self.client.job_history(self._name(raw_id))) or ()

    def _name(self, raw_id: str) -> str:
        return self.keys.get(raw_id, raw_id)

    async def _ask(self, ask: Callable[[], _T]) -> _T | None:
        """The server's answer; None where it has none, or is away: then it is asked again."""
        with suppress(ClientError):
            return await asyncio.to_thread(ask)
        return None
