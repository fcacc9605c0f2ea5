"""The watch over one cluster: a look at ledger and scheduler each round, and what follows of it.

Everything is read anew in every round, and once more within a second of a command. So it does no harm when this process
is stopped for a while, killed, or started twice in a row: what it did is in the spool before it is done.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from relance.domain.deeds import DeedState, WatchdogDeed, deed_id
from relance.domain.keys import AttemptKey
from relance.domain.ledgers import LedgerState, Verb
from relance.domain.stages import Stage
from relance.domain.views import JobView
from relance.domain.watchdogs import MARK_FILE, WatchdogMark, mark_text
from relance.slurm import commands
from relance.slurm.errors import RefusedError, SilentError, SlurmError, UnknownJobError
from relance.watchdog.alarms import Alarms, Subject, listed
from relance.watchdog.clocks import Clock
from relance.watchdog.decisions import Ground, Left, Want, decide, next_number
from relance.watchdog.ledgers import LedgerReader, LedgerView
from relance.watchdog.schedulers import Scheduler
from relance.watchdog.settings import WatchedCluster
from relance.watchdog.settling import settled, who_decided, why_not_now
from relance.watchdog.spools import Spool, SpoolUnusableError
from relance.watchdog.views import shown_id

READ_AGE_S = 1.0
"""A command follows the read that allows it by less (design 10)."""
_LOOK_AGE_S = 2.0
"""A look older than this may lack a copy that somebody submitted since: before a command there is another."""
_SETTINGS_S = 60.0
_SETTINGS_KEPT_S = 600.0
_REFUSED_S = 3600.0
_QUIET_S = 60.0
"""While there is nothing to watch over, the scheduler is asked so often, to know that it answers."""


class Watch:
    """One cluster's watch; `round` is one of its rounds."""

    def __init__(
        self,
        cluster: WatchedCluster,
        every_s: float,
        alarms: Alarms,
        clock: Clock,
        scheduler: Scheduler | None = None,
    ) -> None:
        """Take what it works with; nothing is read yet. `scheduler` None: as the cluster's settings say."""
        self.cluster = cluster
        self.alarms = alarms
        self.rounds = 0
        self.spool = Spool(cluster.folder)
        self.ledger = LedgerView(state=LedgerState(), problem="not read yet")
        self.overdue = 0
        """How many jobs the controller holds and has not gone on with."""
        self.round_at: datetime | None = None
        self._every_s = every_s
        self._clock = clock
        self._reader = LedgerReader(cluster.folder, cluster.name)
        self._scheduler = scheduler or Scheduler(cluster.commands)
        self._jobs: Mapping[str, JobView] = {}
        self._min_job_age_s: float | None = None
        self._settings_at_s = float("-inf")
        self._settings_asked_s = float("-inf")
        self._looked_s = float("-inf")
        self._decided: dict[str, str] = {}
        """Attempts of which accounting said that somebody decided."""
        self._markless = ""
        self._untold: list[str] = []
        """What accounting did not tell in this round."""
        self._is_ending = False

    async def run(self) -> None:
        """Round after round until cancelled; a command that is out is awaited first."""
        try:
            while True:
                began_s = self._clock.monotonic()
                await self.round()
                await asyncio.sleep(max(0.0, self._every_s - (self._clock.monotonic() - began_s)))
        finally:
            await self._scheduler.close()

    async def round(self) -> None:
        """Look once, and do what is to be done; whatever goes wrong is an alarm."""
        try:
            await self._round()
        except SpoolUnusableError as error:
            self._alarm(Subject.SPOOL, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the next round looks anew
            self._alarm(Subject.ERROR, f"{type(error).__name__}: {error}"[:500])
        else:
            self._alarm(Subject.ERROR, "")
        self.rounds += 1
        self.round_at = self._clock.now()
        self._leave_mark()

    async def _round(self) -> None:
        self.ledger = self._read_ledger()
        self.spool.read(self._clock.now())
        self._alarm(Subject.SPOOL, "")
        if self.cluster.rules.stage is Stage.OFF:
            return
        wanted = _wanted(self.ledger.state, self.spool)
        if not wanted and self._clock.monotonic() - self._looked_s < _QUIET_S:
            self._say_left(())
            return
        try:
            await self._ask_settings()
            self._jobs = await self._scheduler.jobs(wanted)
        except SlurmError as error:
            self._alarm(Subject.SCHEDULER, str(error)[:500])
            return
        self._looked_s = self._clock.monotonic()
        self._alarm(Subject.SCHEDULER, "")
        self._settle()
        # With a ledger that is not to be relied on the state is empty: then nothing is wanted.
        found = decide(self._ground())
        self.overdue = sum(item.verb is Verb.RELEASE for item in found)
        left = [item for item in found if isinstance(item, Left)]
        self._untold.clear()
        for item in found:
            if isinstance(item, Want):
                left += await self._want(item, wanted)
        self._say_left(left)
        self._say_refused()
        self._alarm(Subject.ACCOUNTING, listed(self._untold))

    def _read_ledger(self) -> LedgerView:
        """The ledger as it is now; an empty one where it must not be relied on."""
        now = self._clock.now()
        view = self._reader.read(now)
        age_s = None if view.alive_at is None else (now - view.alive_at).total_seconds()
        most_s = self.cluster.rules.ledger_max_age_s
        old = ""
        if not view.problem and (age_s is None or age_s > most_s):
            old = f"the controller has given no sign of life for more than {most_s:.0f} s: start it; nothing is done"
        self._alarm(Subject.LEDGER, view.problem)
        self._alarm(Subject.LEDGER_OLD, old)
        self._alarm(Subject.STOP, view.stop)
        return replace(view, state=LedgerState(), problem=view.problem or old) if old else view

    async def _ask_settings(self) -> None:
        """Learn now and then how long Slurm remembers an ended job; what was learnt holds for a while."""
        now_s = self._clock.monotonic()
        if now_s - self._settings_asked_s < _SETTINGS_S:
            return
        self._settings_asked_s = now_s
        try:
            self._min_job_age_s = await self._scheduler.min_job_age_s()
            self._settings_at_s = now_s
        except SlurmError:
            if now_s - self._settings_at_s > _SETTINGS_KEPT_S:
                self._min_job_age_s = None
            self._settings_asked_s = float("-inf")
        unknown = self._min_job_age_s is None
        self._alarm(Subject.SETTINGS, "MinJobAge of slurm.conf is not known: nothing is requeued" if unknown else "")

    def _ground(self) -> Ground:
        return Ground(
            now=self._clock.now(),
            cluster=self.cluster.name,
            rules=self.cluster.rules,
            ledger=self.ledger.state,
            alive_at=self.ledger.alive_at,
            jobs=self._jobs,
            deeds=tuple(self.spool.deeds.values()),
            min_job_age_s=self._min_job_age_s,
        )

    def _settle(self) -> None:
        """Look what became of the deeds that nobody answered for."""
        for deed in list(self.spool.deeds.values()):
            now = self._clock.now()
            told = settled(deed, self._jobs.get(deed.attempt.job.raw_id), now)
            if told is not deed:
                self._keep(told)

    async def _want(self, want: Want, wanted: Mapping[str, datetime]) -> list[Left]:
        """Do it, or say it, unless something speaks against it; gives that."""
        if self.ledger.stop:
            return [Left(attempt=want.attempt, verb=want.verb, reason=self.ledger.stop)]
        against = await self._who_decided(want) if want.verb is Verb.REQUEUE else ""
        if against or (against := await self._look_anew(wanted)):
            return [Left(attempt=want.attempt, verb=want.verb, reason=against)]
        deed = self._deed(want)
        self._keep(deed)
        if deed.state is DeedState.WOULD:
            return []
        # A command that is out is waited for, whatever happens to us: its answer belongs into the spool.
        carrying = asyncio.ensure_future(self._carry_out(want, deed, wanted))
        try:
            await asyncio.shield(carrying)
        except asyncio.CancelledError:
            self._is_ending = True
            await asyncio.gather(carrying, return_exceptions=True)
            raise
        return []

    async def _who_decided(self, want: Want) -> str:
        """Why accounting speaks against a requeue; asked once where its answer is final."""
        key = str(want.attempt)
        if key in self._decided:
            return self._decided[key]
        try:
            rows = await self._scheduler.attempts(want.job.raw_id)
        except SlurmError as error:
            self._untold.append(f"accounting cannot be read: {error}"[:500])
            return "accounting cannot be read: that nobody cancelled a step is not known"
        told = who_decided(want.job, rows)
        if told.is_final:
            self._decided[key] = told.reason
        elif told.reason:
            self._untold.append(f"{key}: {told.reason}")
        return told.reason

    async def _look_anew(self, wanted: Mapping[str, datetime]) -> str:
        """Look again where the newest look is old by now; gives why that cannot be."""
        if self._clock.monotonic() - self._looked_s < _LOOK_AGE_S:
            return ""
        try:
            self._jobs = await self._scheduler.jobs(wanted)
        except SlurmError as error:
            return f"whether there is a copy of it by now is not known: {error}"[:500]
        self._looked_s = self._clock.monotonic()
        return ""

    def _deed(self, want: Want) -> WatchdogDeed:
        stage = self.cluster.rules.stage
        number = next_number(tuple(self.spool.deeds.values()), want.attempt, want.verb)
        job = shown_id(want.job)
        return WatchdogDeed(
            id=deed_id(want.attempt, want.verb, number),
            attempt=want.attempt,
            verb=want.verb,
            number=number,
            state=DeedState.INTENDED if stage is Stage.ACT else DeedState.WOULD,
            stage=stage,
            argv=commands.release(job) if want.verb is Verb.RELEASE else commands.requeue(job),
            restart_count=want.restart_count,
            reason=want.reason,
            at=self._clock.now(),
        )

    async def _carry_out(self, want: Want, deed: WatchdogDeed, wanted: Mapping[str, datetime]) -> None:
        """The last look, and the command within a second of its begin."""
        read_s = self._clock.monotonic()
        try:
            job = await self._scheduler.job(want.job.raw_id, wanted)
            self.ledger = self._read_ledger()
            against = self.ledger.problem or self.ledger.stop
            ground = self._ground()
            others = tuple(item for item in ground.deeds if item.id != deed.id)
            against = against or why_not_now(want, replace(ground, deeds=others), job)
        except SlurmError as error:
            against = f"the scheduler did not answer the last look: {error}"[:500]
        if self._is_ending:
            against = "the watchdog was told to end"
        if not against and self._clock.monotonic() - read_s >= READ_AGE_S:
            against = "the last look took too long for a command to follow"
        if against:
            self._keep(replace(deed, state=DeedState.NOT_SENT, answered_at=self._clock.now(), text=against))
            return
        state, text = await self._send(deed)
        self._keep(replace(deed, state=state, answered_at=self._clock.now(), text=text))

    async def _send(self, deed: WatchdogDeed) -> tuple[DeedState, str]:
        try:
            await self._scheduler.send(deed.argv)
        except (RefusedError, UnknownJobError) as error:
            return DeedState.REFUSED, (error.text or str(error))[:500]
        except SilentError as error:
            return DeedState.SILENT, str(error)[:500]
        return DeedState.DONE, ""

    def _keep(self, deed: WatchdogDeed) -> None:
        """Put a deed on the disk, count it and say it. Raises SpoolUnusableError."""
        self.spool.write(deed)
        self.alarms.counts[deed.verb.value, deed.state.value] += 1
        facts = {"attempt": str(deed.attempt), "verb": deed.verb.value, "state": deed.state.value}
        self.alarms.say(self._clock.now(), "deed", **facts, reason=deed.reason, text=deed.text)

    def _say_left(self, left: list[Left] | tuple[()]) -> None:
        texts = {
            limit: [f"{item.attempt}: {item.reason}" for item in left if item.is_limit is limit]
            for limit in (True, False)
        }
        self._alarm(Subject.LIMIT, listed(texts[True]))
        self._alarm(Subject.LEFT, listed(texts[False]))

    def _say_refused(self) -> None:
        """Name what came to nothing lately, while the scheduler still shows its job."""
        now = self._clock.now()
        failed = [
            f"{' '.join(deed.argv)}: {deed.text}"
            for deed in self.spool.deeds.values()
            if deed.state in (DeedState.REFUSED, DeedState.LOST)
            and deed.attempt.job.raw_id in self._jobs
            and (now - (deed.answered_at or deed.at)).total_seconds() < _REFUSED_S
        ]
        self._alarm(Subject.REFUSED, listed(failed))

    def _alarm(self, subject: Subject, text: str) -> None:
        self.alarms.set(self._clock.now(), subject, text)

    def _leave_mark(self) -> None:
        """Let others see that we watch. What hinders it shows in the mark that grows old."""
        rules = self.cluster.rules
        mark = WatchdogMark(
            cluster=self.cluster.name,
            at=self._clock.now(),
            every_s=self._every_s,
            stage=rules.stage,
            partitions=rules.partitions,
            alarms=tuple(self.alarms.now.values()),
        )
        try:
            write_whole(self.cluster.folder / MARK_FILE, mark_text(mark))
        except OSError as error:
            problem = f"{error.filename}: {error.strerror}"
        else:
            problem = ""
        if problem != self._markless:
            self._markless = problem
            self.alarms.say(
                self._clock.now(), "no mark can be left" if problem else "a mark is left again", why=problem
            )


def write_whole(path: Path, text: str, mode: int = 0o600) -> None:
    """Put a file in place of the one that is there, all or nothing. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        os.write(number, text.encode("utf-8"))
    finally:
        os.close(number)
    new.replace(path)


def _wanted(state: LedgerState, spool: Spool) -> dict[str, datetime]:
    """The raw ids of the jobs to look at, and when each was first submitted."""
    keys = list(state.taken)
    keys += [intent.attempt for record in state.actions.values() for intent in record.intents]
    attempts = [deed.attempt for deed in spool.deeds.values() if not deed.state.is_final]
    for key in keys:
        try:
            attempts.append(AttemptKey.parse(key))
        except ValueError:
            continue
    return {attempt.job.raw_id: attempt.job.submitted_at for attempt in attempts}
