"""Questions to Slurm: run, counted, kept within the budget, and answered in the port's terms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from relance.controllers.slurm.budgets import Budget
from relance.controllers.slurm.ways import Way, silent
from relance.ports.clocks import Clock
from relance.ports.schedulers import JobGoneError, SchedulerRefusedError, SchedulerSilentError
from relance.slurm import commands
from relance.slurm.errors import RefusedError, SlurmError, UnknownJobError
from relance.slurm.parsing.accounting import knows_restarts, parse_accounting
from relance.slurm.parsing.briefs import parse_brief, parse_exclusions
from relance.slurm.parsing.glances import Glance, parse_glances
from relance.slurm.parsing.jobs import parse_jobs, parse_some_jobs
from relance.slurm.parsing.replies import checked
from relance.slurm.parsing.settings import parse_federation, parse_settings
from relance.slurm.parsing.sites import parse_nodes, parse_reservations
from relance.slurm.parsing.steps import parse_steps
from relance.slurm.records import AccountedJob, SlurmJob, SlurmStep
from relance.slurm.running import Commands, Output, new_mark, run
from relance.slurm.site_records import ControlFacts, Reservation, SlurmNode
from relance.telemetry.schedulers import SchedulerMeter

_T = TypeVar("_T")
ANSWER_S = 8.0
"""How long a question may take; less than a command may, so that a transaction hears of it."""
READS_PER_S = 2.0
"""Reads of single jobs outside transactions (operators.md 3)."""
_READS_AT_ONCE = 4.0
LONG_BYTES = 256 << 10
"""A longer answer is parsed in a thread: the records of 4,000 jobs (12 MiB) would hold the event loop up for 0.66 s,
from a thread they do for 0.03 s; of 80 jobs (250 KiB) it is 0.02 s either way (22.05, two cores, measured)."""
_MINUTE_S = 60.0


class Questions:
    """Asks one cluster. Every method raises SchedulerSilentError when there is no answer that can be read."""

    def __init__(self, runner: Commands, clock: Clock, meter: SchedulerMeter, *, per_minute: float) -> None:
        """Take how commands are run, and how many may be run in a minute outside transactions."""
        self.way = Way(runner, clock, meter)
        self._runner = runner
        self._clock = clock
        self._meter = meter
        self._has_restarts: bool | None = None
        self._all = Budget(per_s=per_minute / _MINUTE_S, burst=per_minute / 2, clock=clock, meter=meter)
        self._reads = Budget(per_s=READS_PER_S, burst=_READS_AT_ONCE, clock=clock, meter=meter)

    async def glances(self, *, urgent: bool) -> tuple[Glance, ...]:
        """The whole queue at a glance."""
        mark = new_mark()
        return await self._ask(
            "glance", commands.glance(mark=mark), lambda answer: parse_glances(answer, mark=mark), urgent=urgent
        )

    async def jobs(self, *, urgent: bool) -> tuple[SlurmJob, ...]:
        """The whole queue in full."""
        return await self._ask("jobs", commands.all_jobs(), parse_jobs, urgent=urgent)

    async def some_jobs(self, ids: Sequence[str], *, urgent: bool) -> tuple[SlurmJob, ...]:
        """Some jobs in full. Raises JobGoneError where Slurm knows none of them."""
        wanted = frozenset(ids)
        asked = commands.some_jobs(ids)
        return await self._ask("jobs", asked, lambda answer: parse_some_jobs(answer, wanted), urgent=urgent)

    async def job(self, parts: Sequence[str], *, urgent: bool) -> tuple[SlurmJob, ...]:
        """One job in full, with all the records of which it consists. Raises JobGoneError.

        Outside transactions single reads have a budget of their own: that of the looks is not theirs to use up.
        """
        await self._may_read(urgent=urgent)
        asked, wanted = commands.some_jobs(parts), frozenset(parts)
        return await self._answer("job", asked, lambda answer: parse_some_jobs(answer, wanted))

    async def brief(self, former: SlurmJob, *, urgent: bool) -> SlurmJob | None:
        """One job as it is now, over what was read of it before; None: only its full record tells.

        Raises JobGoneError. The budget is that of `job`.
        """
        await self._may_read(urgent=urgent)
        raw_id, mark = str(former.job_id), new_mark()

        def parse(answer: bytes) -> SlurmJob | None:
            return parse_brief(answer, mark=mark, former=former)

        def parse_excluded(answer: bytes) -> tuple[str, ...] | None:
            return parse_exclusions(answer, mark=mark, job_id=former.job_id)

        found, excluded = await asyncio.gather(
            self._answer("job", commands.brief(raw_id, mark=mark), parse),
            self._answer("job", commands.exclusions(raw_id, mark=mark), parse_excluded),
        )
        return None if found is None or excluded is None else replace(found, excluded_nodes=excluded)

    async def steps(self, ids: Sequence[str], *, urgent: bool) -> tuple[SlurmStep, ...]:
        """The living steps of some jobs."""
        mark = new_mark()
        asked = commands.living_steps(mark=mark, ids=ids)
        return await self._ask("steps", asked, lambda answer: parse_steps(answer, mark=mark), urgent=urgent)

    async def accounting(self, ids: Sequence[str], *, urgent: bool) -> tuple[AccountedJob, ...]:
        """What accounting has of some jobs, all their attempts."""
        mark = new_mark()
        asked = commands.accounting_of(ids, mark=mark, has_restarts=await self._numbers_attempts())
        return await self._ask("accounting", asked, lambda answer: parse_accounting(answer, mark=mark), urgent=urgent)

    async def nodes(self, *, urgent: bool) -> tuple[SlurmNode, ...]:
        """All nodes."""
        return await self._ask("nodes", commands.nodes(), parse_nodes, urgent=urgent)

    async def reservations(self, *, urgent: bool) -> tuple[Reservation, ...]:
        """All reservations."""
        return await self._ask("reservations", commands.reservations(), parse_reservations, urgent=urgent)

    async def settings(self, *, urgent: bool) -> ControlFacts:
        """What the site set."""
        return await self._ask("settings", commands.settings(), parse_settings, urgent=urgent)

    async def federation(self, *, urgent: bool) -> str:
        """The federation that the cluster is part of; empty: none."""
        return await self._ask("settings", commands.federation(), parse_federation, urgent=urgent)

    async def rights(self, argv: Sequence[str], parse: Callable[[bytes], _T], *, urgent: bool) -> _T:
        """What accounting says of our own account."""
        return await self._ask("rights", argv, parse, urgent=urgent)

    async def change(self, argv: Sequence[str], time_limit_s: float) -> None:
        """Have something changed. Raises SchedulerRefusedError and JobGoneError too."""
        self._all.note()
        output = await self._run(argv, time_limit_s)
        try:
            checked(output)
        except SlurmError as error:
            self._meter.asked("change", output.wall_s, failed=True)
            if isinstance(error, UnknownJobError):
                raise JobGoneError(str(error)) from error
            if isinstance(error, RefusedError):
                raise SchedulerRefusedError(error.text or str(error)) from error
            raise silent(error) from error
        self._meter.asked("change", output.wall_s, failed=False)

    async def _run(self, argv: Sequence[str], time_limit_s: float) -> Output:
        """Run a command. Raises SchedulerUnreachedError where what it needs is known to be missing."""
        self.way.check()
        output = await run(self._runner, argv, time_limit_s=time_limit_s)
        self.way.note(output)
        return output

    async def _numbers_attempts(self) -> bool:
        """Whether accounting shows the number of each attempt; the command itself is asked, once."""
        if self._has_restarts is None:
            try:
                self._has_restarts = await self._answer("fields", commands.accounting_fields(), knows_restarts)
            except SchedulerSilentError:
                return False
        return self._has_restarts

    async def _may_read(self, *, urgent: bool) -> None:
        if urgent:
            self._all.note()
        else:
            await self._reads.take()

    async def _ask(self, kind: str, argv: Sequence[str], parse: Callable[[bytes], _T], *, urgent: bool) -> _T:
        if urgent:
            self._all.note()
        else:
            await self._all.take()
        return await self._answer(kind, argv, parse)

    async def _answer(self, kind: str, argv: Sequence[str], parse: Callable[[bytes], _T]) -> _T:
        output = await self._run(argv, ANSWER_S)
        is_answered = False
        try:
            shown = checked(output)
            answer = parse(shown) if len(shown) <= LONG_BYTES else await asyncio.to_thread(parse, shown)
            is_answered = True
        except UnknownJobError as error:
            is_answered = True
            raise JobGoneError(str(error)) from error
        except SlurmError as error:
            # A question that is refused is one that was not answered.
            raise silent(error) from error
        finally:
            self._meter.asked(kind, output.wall_s, failed=not is_answered)
        return answer
