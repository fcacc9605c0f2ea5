"""One job of a canary, from its submission to what Relance made of its end: a row for each thing that was proven."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

from relance.bootstrap.canaries.grounds import Ground
from relance.bootstrap.canaries.trials import ENOUGH, FAULT, LAST_STEP, PROVEN_STEPS, SCRIPT, Ending, Hope, Trial
from relance.bootstrap.proofs.rows import Level, Row
from relance.domain.events import IncidentEnd
from relance.domain.faults import Remedy
from relance.domain.trials import TRIAL
from relance.domain.views import JobState, JobView
from relance.ports.own_jobs import OwnJob
from relance.ports.schedulers import SchedulerError, SchedulerSilentError
from relance.recovery import wordings
from relance.recovery.rows import IncidentItem
from relance.recovery.stories import IncidentStory, JobStory

_STEPS_SEEN = 3
_STAGE_S = 10.0
"""A job's wish counts within so long after its steps are seen."""
_CLOSED_S = 60.0
"""A step beyond the old ones is reported, and its incident closed, within so long."""
_QUIET_S = 45.0
"""So long nothing is made of a job that its owner cancelled; then nothing will be."""


class Run:
    """A trial under way. What was seen of it is in `rows`; after a red one nothing more is tried."""

    def __init__(self, ground: Ground, trial: Trial, *, acts: bool, name: str = "") -> None:
        """Take the ground and the trial; `acts`: Relance is to act on it, else only to say what it would do."""
        self.rows: list[Row] = []
        self.raw_id = ""
        self.ended_s = 0.0
        self._ground = ground
        self._trial = trial
        self._acts = acts
        self._name = name or trial.name
        self._place = ground.folder / self._name
        self._ended_at = datetime.min.replace(tzinfo=UTC)

    @property
    def hope(self) -> Hope:
        """What should come of it at `act`."""
        return self._trial.hope

    def failed(self) -> bool:
        """Whether something was not as it should be."""
        return any(row.level is Level.BAD for row in self.rows)

    async def whole(self) -> tuple[Row, ...]:
        """The trial from its submission to the end of what can be seen of it."""
        try:
            for part in (self.begin, self.end, self.judged, self.outcome):
                await part()
                if self.failed():
                    break
        finally:
            await self.leave()
        return tuple(self.rows)

    async def begin(self) -> None:
        """Submit the job, and wait until it runs, is seen with its steps, and stands at the stage that is tried."""
        ground = self._ground
        ground.tell(f"{self._name}: {self._trial.about}")
        self._place.mkdir(mode=0o755)
        script = self._place / "job.sh"
        script.write_text(SCRIPT)
        if self._trial.at_once:
            self._note_end()
            (self._place / FAULT).write_text(self._trial.lines)
        job = OwnJob(
            name=f"{TRIAL}-{self._name}", script=str(script), arguments=(str(self._place), str(LAST_STEP)),
            output=str(self._place / "output.log"), comment="relance:act" if self._acts else "relance:observe",
            partition=ground.partition, nodes=ground.nodes,
        )  # fmt: skip
        try:
            self.raw_id = await self._submit(job)
        except SchedulerSilentError as error:
            remedy = f"look for it, and cancel it if it is there: squeue --name={job.name}; scancel --name={job.name}"
            self.say("submitted", Level.BAD, "-", f"whether the job was submitted is not known: {error}", remedy)
            return
        except SchedulerError as error:
            remedy = "run the canary as a user who may submit to this partition"
            self.say("submitted", Level.BAD, "-", f"the job could not be submitted: {error}", remedy)
            return
        view = await ground.until(self._began)
        if view is None:
            remedy = f"see why it waits: squeue --jobs={self.raw_id}; a canary needs {ground.nodes} free nodes"
            self.say("started", Level.BAD, f"job {self.raw_id}", "it did not start in time", remedy)
            return
        if not self._trial.at_once:
            if await ground.until(self._seen) is None:
                await self._say_unseen()
                return
            read = f"job {self.raw_id} on {wordings.nodes(view.nodes)}"
            self.say("seen", Level.OK, read, "Relance follows its steps")
        if self._acts and await ground.until(lambda: ground.acts(self.raw_id), _STAGE_S) is None:
            stage = await ground.stage(self.raw_id)
            why = "; ".join(stage.effective.why) if stage is not None else "the server does not know the job"
            remedy = (
                f"relance mode act --cluster {ground.cluster}; relance check cluster --for act says what is missing"
            )
            self.say("stage", Level.BAD, stage.effective.stage.value if stage is not None else "-", why, remedy)

    async def _submit(self, job: OwnJob) -> str:
        """Submit it. Told to end meanwhile, wait for its id all the same: without it nobody could cancel the job."""
        submitting = asyncio.ensure_future(self._ground.jobs.submit(job))
        try:
            return await asyncio.shield(submitting)
        except asyncio.CancelledError:
            with suppress(SchedulerError):
                self.raw_id = await submitting
            raise

    async def end(self) -> None:
        """Have the job fail, or cancel it."""
        ground = self._ground
        if not self._trial.at_once:
            self._note_end()
        if self._trial.ending is Ending.CANCEL:
            await ground.jobs.cancel(self.raw_id)
        elif not self._trial.at_once:
            (self._place / f"{FAULT}.new").write_text(self._trial.lines)
            (self._place / f"{FAULT}.new").replace(self._place / FAULT)
        if await ground.until(self._over) is None:
            remedy = "the nodes have to see the canary's folder as it changes: name another --folder"
            self.say("ended", Level.BAD, f"job {self.raw_id}", "the job did not end as it was told", remedy)

    async def judged(self) -> None:
        """Wait for the verdict and the advice, and compare them with what is right."""
        ground, trial = self._ground, self._trial
        if trial.ending is Ending.CANCEL:
            await self._respected()
            return
        item = await ground.until(self._decided)
        if item is None:
            remedy = f"ask: relance why {self.raw_id}; relance check {self.raw_id}"
            self.say("judged", Level.BAD, "-", "no advice came in time", remedy)
            return
        seen_s = max(0.0, (item.opened_at - self._ended_at).total_seconds())
        domain = item.domain.value if item.domain is not None else "not judged"
        advice = wordings.name(item.action.value) if item.action is not None else "nothing"
        is_right = item.domain in trial.domains and item.action in trial.remedies
        text = f"seen {wordings.duration(seen_s)} after its end; advised: {advice}"
        remedy = "" if is_right else f"see the lines it rests on: relance explain {item.id}"
        self.say("judged", Level.OK if is_right else Level.BAD, f"{domain}: {item.summary}", text, remedy)

    async def _respected(self) -> None:
        """Nothing is made of what a person decided, but that a person did."""
        item = await self._ground.until(self._closed, _QUIET_S)
        if item is None and await self._ground.incident(self.raw_id) is None:
            self.say("judged", Level.OK, "no incident", "nothing is made of what its owner decided")
        elif item is not None and item.end is IncidentEnd.LEFT:
            self.say("judged", Level.OK, item.next, "what its owner decided is respected")
        else:
            read = item.next if item is not None else "an open incident"
            remedy = f"ask: relance why {self.raw_id}"
            self.say("judged", Level.BAD, read, "it is not taken for the owner's decision", remedy)

    async def outcome(self) -> None:
        """What was done about it: what should be at this stage, and nothing else."""
        if self._acts and self._trial.hope is Hope.AGAIN:
            await self.came_back()
            if not self.failed():
                await self.recovered()
            return
        if self._trial.hope is Hope.AGAIN:
            story = await self._ground.until(self._prepared)
            if story is None:
                remedy = f"see what the controller reports: relance mode; relance why {self.raw_id}"
                self.say("prepared", Level.BAD, "-", "no commands were prepared", remedy)
                return
            self.say("prepared", Level.OK, "; ".join(story.commands), "what it would have run, and did not")
        await self._left_alone()

    async def came_back(self) -> None:
        """The job runs again, and not on what was kept out."""
        ground = self._ground
        view = await ground.until(lambda: ground.runs_again(self.raw_id))
        item = await ground.incident(self.raw_id)
        if view is None:
            remedy = f"see what it waits for: relance why {self.raw_id}"
            read = item.next if item is not None else "-"
            self.say("started again", Level.BAD, read, "it did not run again in time", remedy)
            return
        after_s = ground.clock.monotonic() - self.ended_s
        kept_out = item.excluded if item is not None else ()
        nodes = wordings.nodes(view.nodes)
        if set(kept_out) & set(view.nodes):
            remedy = f"see which exclusion was written: relance explain {self.raw_id}"
            self.say("started again", Level.BAD, nodes, "it runs on a node that was kept out", remedy)
            return
        without = f", without {wordings.nodes(kept_out)}" if kept_out else ""
        self.say("started again", Level.OK, nodes, f"it ran {wordings.duration(after_s)} after its end{without}")
        if not kept_out and Remedy.RESTART_EXCLUDING in self._trial.remedies:
            text = "no node was kept out: too few would be left, or none could be named"
            self.say("kept out", Level.WARN, "no node", text, "give the canary's partition at least three nodes")

    async def recovered(self) -> None:
        """The new attempt went on from the checkpoint, and beyond the old steps."""
        limit_s = self._ground.patience_s + PROVEN_STEPS + _CLOSED_S
        item = await self._ground.until(self._closed, limit_s)
        end = item.end if item is not None else None
        if end is IncidentEnd.RECOVERED:
            self.say("recovered", Level.OK, end.value, "it went on from its checkpoint, and beyond its old steps")
            return
        read = wordings.name(end.value) if end is not None else "open"
        self.say(
            "recovered", Level.BAD, read, "no step beyond the old ones was seen", f"ask: relance why {self.raw_id}"
        )

    async def leave(self) -> None:
        """Leave nothing of the job in the queue."""
        if not self.raw_id:
            return
        with suppress(OSError):
            (self._place / ENOUGH).touch()
        view = await self._ground.job(self.raw_id)
        if view is not None and view.state.is_over:
            return
        try:
            await self._ground.jobs.cancel(self.raw_id)
        except SchedulerError as error:
            text = f"the job could not be cancelled: {error}"
            self.say("left behind", Level.BAD, f"job {self.raw_id}", text, f"scancel {self.raw_id}")

    def say(self, name: str, level: Level, read: str, means: str, remedy: str = "") -> None:
        """Add a row, and tell it."""
        self.rows.append(Row(source=self._name, name=name, level=level, read=read, means=means, remedy=remedy))
        self._ground.tell(f"{self._name}: {name}: {means}")

    def _note_end(self) -> None:
        self._ended_at, self.ended_s = self._ground.clock.now(), self._ground.clock.monotonic()

    async def _began(self) -> JobView | None:
        """The job when it runs; one that fails at once may be over already."""
        view = await self._ground.job(self.raw_id)
        return view if view is not None and (view.state is JobState.RUNNING or view.state.is_over) else None

    async def _left_alone(self) -> None:
        ground = self._ground
        until_s = ground.clock.monotonic() + ground.quiet_s
        while ground.clock.monotonic() < until_s:
            view = await ground.job(self.raw_id)
            if view is not None and (view.restart_count > 0 or not view.state.is_over):
                remedy = f"relance mode observe; see who did it: relance why {self.raw_id}"
                read = f"{wordings.name(view.state.value)}, restarts: {view.restart_count}"
                self.say("left alone", Level.BAD, read, "it was started again, and should not have been", remedy)
                return
            await ground.clock.sleep(1.0)
        self.say("left alone", Level.OK, f"job {self.raw_id}", "it stays as it ended")

    async def _say_unseen(self) -> None:
        story = await self._ground.story(self.raw_id)
        remedy = f"relance check {self.raw_id}; name a --folder below log_roots that the watcher can read"
        read = "not known to the server" if story is None else "; ".join(story.notes) or "no step"
        self.say("seen", Level.BAD, read, "Relance does not see the job's steps", remedy)

    async def _seen(self) -> JobStory | None:
        story = await self._ground.story(self.raw_id)
        return story if story is not None and (story.job.step or 0) >= _STEPS_SEEN else None

    async def _over(self) -> bool | None:
        """Whether the job is over; one that the scheduler has started again since was over too."""
        view = await self._ground.job(self.raw_id)
        return True if view is not None and (view.state.is_over or view.restart_count > 0) else None

    async def _decided(self) -> IncidentItem | None:
        """The incident, once its advice is neither to hold nor to wait, or it is closed.

        The line is often read before the scheduler shows the end: while the job seems to run, the advice is to wait.
        """
        item = await self._ground.incident(self.raw_id)
        if item is None or item.domain is None:
            return None
        is_decided = item.action not in (None, Remedy.WAIT) and not item.hold
        return item if item.end is not None or is_decided else None

    async def _prepared(self) -> IncidentStory | None:
        item = await self._ground.incident(self.raw_id)
        story = await self._ground.incident_story(item.id) if item is not None else None
        return story if story is not None and story.commands else None

    async def _closed(self) -> IncidentItem | None:
        item = await self._ground.incident(self.raw_id)
        return item if item is not None and item.end is not None else None
