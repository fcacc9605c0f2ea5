"""A look at a cluster for people, before anything is decided on: settings and rights, and what only a try can tell."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from relance.controllers.slurm import rights as rights_of
from relance.controllers.slurm.accesses import accesses
from relance.controllers.slurm.budgets import SLOW_S
from relance.controllers.slurm.fitness import Fitness, Level, Rights, fitness
from relance.controllers.slurm.kinds import shows_all_for_one
from relance.controllers.slurm.powers import asked_for, refused_commands
from relance.controllers.slurm.settings import SlurmSettings
from relance.controllers.slurm.skews import skew, time_of
from relance.ports.clocks import Clock
from relance.slurm import commands
from relance.slurm.errors import SlurmError, UnknownJobError
from relance.slurm.munge import Asked, Munge, MungeError, credential
from relance.slurm.parsing.accounting import parse_accounting
from relance.slurm.parsing.glances import Glance, parse_glances
from relance.slurm.parsing.jobs import parse_some_jobs
from relance.slurm.parsing.replies import checked
from relance.slurm.parsing.settings import parse_federation, parse_settings
from relance.slurm.running import leave, new_mark, run
from relance.slurm.site_records import ControlFacts

_T = TypeVar("_T")
ANSWER_S = 10.0
_GRACE = timedelta(minutes=5)
"""Nothing is restarted for so long after slurmctld started (operators.md 3)."""
COUNTS = ("sdiag",)
_RUNNING = re.compile(rb"^\s*Jobs running:\s*(\d+)", re.MULTILINE)
_MISSED_SHARE = 0.9
"""Counts of two commands differ by what ends between them; a tenth is more than that."""
_MISSED_LEAST = 3
MOST_READ_S = 0.8
"""A command goes out less than 1 s after the read of its job began (design 10), and is written to the disk between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What was found on one cluster, by which account. `release` is empty where slurmctld did not answer."""

    release: str
    account: str
    findings: tuple[Fitness, ...]


@dataclass(slots=True)
class _Asker:
    """Runs commands and keeps how long each took."""

    settings: SlurmSettings
    walls: dict[str, float] = field(default_factory=dict)
    seen: tuple[Glance, ...] = ()
    account: tuple[str, int] | None = None

    async def ask(self, argv: Sequence[str], parse: Callable[[bytes], _T]) -> _T:
        """The answer. Raises SlurmError."""
        output = await run(self.settings.commands, argv, time_limit_s=ANSWER_S)
        self.account = output.account or self.account
        self.walls[" ".join(argv[:2]) if argv[0] == "scontrol" else argv[0]] = output.wall_s
        return parse(checked(output))


async def inspect(settings: SlurmSettings, log_roots: tuple[Path, ...], clock: Clock, munge: Munge) -> Inspection:
    """Ask the cluster what it is, as the account that its commands run as; nothing is changed."""
    try:
        return await _inspect(settings, log_roots, clock, munge)
    finally:
        await leave(settings.commands)


async def _inspect(settings: SlurmSettings, log_roots: tuple[Path, ...], clock: Clock, munge: Munge) -> Inspection:
    asker = _Asker(settings)
    ways = await accesses(settings.commands, clock)
    try:
        facts = await asker.ask(commands.settings(), parse_settings)
    except SlurmError as error:
        user, _ = settings.account or asker.account or ("", 0)
        is_reached = all(each.level.allows_observe for each in ways)
        findings = (*ways, _unanswered(str(error))) if is_reached else ways
        return Inspection(release="", account=user, findings=findings)
    user, uid = settings.account or asker.account or ("", -1)
    facts = replace(facts, federation=await _federation(asker))
    rights = await _rights(asker, user, uid)
    found = [*ways, *fitness(facts, rights), refused_commands(facts, rights), asked_for(settings.requests, rights)]
    asked_at = clock.now()
    counts = await _counts(asker)
    found.append(skew(time_of(counts), asked_at, clock.now()))
    found.append(await _jobs(asker, facts, rights, _running_of(counts)))
    found.append(await _one_job(asker, facts))
    found.append(await _accounting(asker, clock))
    found += [_answers(asker), _uptime(facts, clock.now()), *(_log_root(root) for root in log_roots)]
    found.append(_munge(munge))
    return Inspection(release=facts.release, account=user, findings=tuple(found))


def _unanswered(why: str) -> Fitness:
    remedy = "run it where slurmctld can be reached; name its slurm.conf in the settings (scheduler.conf)"
    text = "slurmctld could not be asked, so nothing can be observed"
    return Fitness(name="slurmctld", level=Level.BLOCKS_OBSERVE, text=text, remedy=remedy, read=why)


async def _rights(asker: _Asker, user: str, uid: int) -> Rights:
    try:
        return await asker.ask(rights_of.question(user), lambda answer: rights_of.parse(answer, user, uid))
    except SlurmError:
        return Rights(user=user, uid=uid, admin_level=None)


async def _counts(asker: _Asker) -> bytes:
    """What slurmctld says of itself; nothing where this account may not ask, or it does not answer."""
    try:
        return await asker.ask(COUNTS, bytes)
    except SlurmError:
        return b""


async def _jobs(asker: _Asker, facts: ControlFacts, rights: Rights, every: int | None) -> Fitness:
    """Whether we see as many running jobs as slurmctld counts, `every`; None: it does not say."""
    mark = new_mark()
    try:
        seen = await asker.ask(commands.glance(mark=mark), lambda answer: parse_glances(answer, mark=mark))
    except SlurmError as error:
        text, read = "the queue cannot be read, so nothing can be observed", str(error)
        return Fitness(name="queue", level=Level.BLOCKS_OBSERVE, text=text, read=read)
    asker.seen = seen
    running = sum(job.state == "RUNNING" for job in seen)
    read = f"{_count(seen)}; running {running} of {'not known' if every is None else every}"
    hides = bool({"jobs", "all"}.intersection(facts.private_data)) and not rights.may_act_everywhere
    if every is not None and every - running >= _MISSED_LEAST and running < _MISSED_SHARE * every:
        text = f"only {running} of {every} running jobs are shown to us"
        remedy = "take jobs out of PrivateData in slurm.conf, or make the account an operator"
        level = Level.BLOCKS_OBSERVE if hides else Level.WARN
        return Fitness(name="queue", level=level, text=text, remedy=remedy, read=read)
    text = "the queue is shown to us" if every is None else "slurmctld counts no more running jobs than are shown to us"
    return Fitness(name="queue", level=Level.OK, text=text, read=read)


async def _one_job(asker: _Asker, facts: ControlFacts) -> Fitness:
    """How long one job takes to read, in the way in which it is read before a command."""
    if not asker.seen:
        return Fitness(name="one_job", level=Level.OK, text="there is no job with which a read could be tried")
    raw_id, mark = str(asker.seen[-1].job_id), new_mark()
    begun_s = time.monotonic()
    try:
        if shows_all_for_one(facts.release, len(asker.seen)):
            tables = (commands.brief(raw_id, mark=mark), commands.exclusions(raw_id, mark=mark))
            await asyncio.gather(*(asker.ask(table, bytes) for table in tables))
        else:
            await asker.ask(commands.some_jobs((raw_id,)), lambda answer: parse_some_jobs(answer, (raw_id,)))
    except UnknownJobError:
        pass  # it was forgotten in between, and was answered about all the same
    except SlurmError as error:
        text = "a single job cannot be read, so nothing is restarted"
        return Fitness(name="one_job", level=Level.UNREADABLE, text=text, read=str(error))
    return one_job(time.monotonic() - begun_s, len(asker.seen))


def one_job(took_s: float, count: int) -> Fitness:
    """What it means that one job of so many took so long to read."""
    read = f"one of {count} jobs read in {1000 * took_s:.0f} ms"
    if took_s < MOST_READ_S:
        return Fitness(name="one_job", level=Level.OK, text="a job is read just before a command about it", read=read)
    text = "a job takes too long to read: no command is sent by news of more than a second, so nothing is restarted"
    remedy = "look at sdiag for what keeps slurmctld busy, and run Relance on a host near it"
    return Fitness(name="one_job", level=Level.BLOCKS_ACT, text=text, remedy=remedy, read=read)


async def _accounting(asker: _Asker, clock: Clock) -> Fitness:
    mark, since_s = new_mark(), int(clock.now().timestamp()) - 3600
    try:
        rows = await asker.ask(
            commands.accounting_since(since_s, mark=mark), lambda answer: parse_accounting(answer, mark=mark)
        )
    except SlurmError as error:
        text = "steps cannot be read: who decided on a job is not known, so nothing is restarted"
        remedy = "see that slurmdbd runs and answers sacct, for this account too"
        return Fitness(name="sacct", level=Level.UNREADABLE, text=text, remedy=remedy, read=str(error))
    read = f"{len(rows)} attempts in the last hour"
    return Fitness(name="sacct", level=Level.OK, text="accounting answers", read=read)


async def _federation(asker: _Asker) -> str | None:
    try:
        return await asker.ask(commands.federation(), parse_federation)
    except SlurmError:
        return None


def _answers(asker: _Asker) -> Fitness:
    worst, wall_s = max(asker.walls.items(), key=lambda item: item[1])
    read = f"{worst} took {1000 * wall_s:.0f} ms, the longest of {len(asker.walls)}"
    if wall_s <= SLOW_S:
        return Fitness(name="answers", level=Level.OK, text="Slurm answers fast enough to be asked often", read=read)
    text = "slower than 300 ms: Relance asks half as often while it lasts, and sees the end of a job later"
    return Fitness(
        name="answers", level=Level.WARN, text=text, remedy="look at sdiag for what keeps it busy", read=read
    )


def _uptime(facts: ControlFacts, now: datetime) -> Fitness:
    if facts.booted_at is None:
        return Fitness(name="uptime", level=Level.WARN, text="when slurmctld started is not shown")
    booted = datetime.fromtimestamp(facts.booted_at, UTC)
    read = f"slurmctld started {booted:%Y-%m-%d %H:%M:%S} UTC"
    if now - booted < _GRACE:
        text = "nothing is restarted in the first 5 minutes after a start, whatever the stage"
        return Fitness(name="uptime", level=Level.WARN, text=text, remedy="it passes by itself", read=read)
    return Fitness(name="uptime", level=Level.OK, text="slurmctld has been up for more than 5 minutes", read=read)


def _log_root(root: Path) -> Fitness:
    read = f"log_roots: {root}"
    if root.is_dir() and os.access(root, os.R_OK | os.X_OK):
        text = "can be entered by this account; each job's own log is checked by `relance check JOB`"
        return Fitness(name="log_root", level=Level.OK, text=text, read=read)
    text = "cannot be read by this account: where the watcher runs as another one or elsewhere, check it there"
    remedy = "mount it here, give the account's group access, or run the watcher where the logs are"
    return Fitness(name="log_root", level=Level.WARN, text=text, remedy=remedy, read=read)


def _munge(munge: Munge) -> Fitness:
    try:
        credential(Asked(method="GET", target="/", host="check"), munge)
    except MungeError as error:
        text = "researchers cannot prove who they are by munge: they need tokens for `relance why`"
        remedy = error.remedy or "start munged here, as on the login nodes"
        return Fitness(name="munge", level=Level.WARN, text=text, remedy=remedy, read=str(error))
    text = "researchers can ask about their own jobs without a token"
    return Fitness(name="munge", level=Level.OK, text=text, read="munge made a credential")


def _running_of(answer: bytes) -> int | None:
    found = _RUNNING.search(answer)
    return int(found[1]) if found else None


def _count(seen: Sequence[Glance]) -> str:
    return f"{len(seen)} {'job' if len(seen) == 1 else 'jobs'} shown"
