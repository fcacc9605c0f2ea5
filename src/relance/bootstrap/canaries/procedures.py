"""The procedure of a canary: which trials, at which stage, and what comes between them."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from relance.bootstrap.canaries.grounds import Ground
from relance.bootstrap.canaries.runs import Run
from relance.bootstrap.canaries.trials import NODE, TRIALS, Hope, Trial
from relance.bootstrap.proofs.rows import Level, Row
from relance.client.errors import ClientError
from relance.domain.events import WatchdogActed
from relance.domain.stages import Stage
from relance.domain.views import JobView
from relance.ports.schedulers import SchedulerSilentError
from relance.recovery import wordings
from relance.recovery.rows import HistoryRow

_CLAIMED_S = 15.0
"""So long after a job stands at `act` the controller has written into its ledger that it is its to save."""
_MARGIN_S = 90.0
"""The watchdog acts a minute before Slurm forgets a job; so long after that it has, or will not."""
_SWITCH_S = 60.0
"""How long a command that stops or starts the controller may take."""
_ERRORS = 2
"""The number of our standard error."""
_TOLD_S = 120.0
_LONGEST_S = 6 * 3600.0
"""A scheduler that remembers ended jobs for longer needs no watchdog to save them, and nobody waits for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be proven.

    Attributes:
        acts: Relance acts on the canary's jobs; else it only says what it would do.
        stop_controller: The command that stops the controller; empty: the watchdog is not tried.
        start_controller: The command that starts it again.
    """

    acts: bool = False
    stop_controller: tuple[str, ...] = ()
    start_controller: tuple[str, ...] = ()
    trials: tuple[Trial, ...] = TRIALS


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryReport:
    """What was proven, and what was not."""

    cluster: str
    partition: str
    stage: str
    rows: tuple[Row, ...]

    @property
    def fit(self) -> bool:
        """Whether all that was tried is as it should be."""
        return all(row.level is not Level.BAD for row in self.rows)


async def run_canary(ground: Ground, plan: Plan) -> CanaryReport:
    """Run the whole procedure; it ends at the first trial that fails, and the partition at `observe` after acting."""
    rows: list[Row] = []
    runs = [Run(ground, trial, acts=plan.acts) for trial in plan.trials]
    parts: list[Callable[[], Awaitable[tuple[Row, ...]]]] = [run.whole for run in runs]
    if plan.acts and plan.stop_controller:
        left = [run for run in runs if run.hope is Hope.LEFT]
        parts += [lambda: _without_controller(ground, plan), lambda: _still_left_alone(ground, left)]
    try:
        for part in parts:
            rows += await part()
            if any(row.level is Level.BAD for row in rows):
                break
    finally:
        if plan.acts:
            rows += await _back_to_observe(ground)
    if plan.acts and all(row.level is not Level.BAD for row in rows):
        rows += await Run(ground, NODE, acts=False, name="rollback").whole()
    stage = Stage.ACT if plan.acts else Stage.OBSERVE
    return CanaryReport(cluster=ground.cluster, partition=ground.partition, stage=stage.value, rows=tuple(rows))


async def _back_to_observe(ground: Ground) -> tuple[Row, ...]:
    """Set the partition to `observe`, as whoever wants to stop it would."""
    source, name = "rollback", "observe"
    try:
        await asyncio.to_thread(ground.client.set_stage, Stage.OBSERVE, ground.cluster, ground.partition)
    except ClientError as error:
        remedy = "relance mode observe, as somebody who may set stages; or a file STOP in the controller's folder"
        return (Row(source=source, name=name, level=Level.BAD, read="-", means=str(error), remedy=remedy),)
    text = (
        f"partition {ground.partition} is at observe again; relance mode act lets it act when you have read this report"
    )
    return (Row(source=source, name=name, level=Level.OK, read=Stage.OBSERVE.value, means=text),)


async def _without_controller(ground: Ground, plan: Plan) -> tuple[Row, ...]:
    """A job fails while the controller is stopped: the watchdog has to save it before the scheduler forgets it."""
    run = Run(ground, NODE, acts=True, name="watchdog")
    age_s = await ground.until(lambda: _memory_s(ground))
    if age_s is None:
        text, remedy = "the scheduler does not say how long it knows an ended job", "ask: relance check cluster"
        run.say("saved", Level.BAD, "-", text, remedy)
        return tuple(run.rows)
    if age_s > _LONGEST_S:
        text = "the scheduler forgets no ended job so soon that the watchdog would have to save it: not tried"
        run.say("saved", Level.WARN, "MinJobAge", text, "a MinJobAge below 6 h is needed to try it")
        return tuple(run.rows)
    stopped = False
    try:
        await run.begin()
        if run.failed():
            return tuple(run.rows)
        await ground.clock.sleep(_CLAIMED_S)
        stopped = True
        if not await _switch(run, "controller stopped", plan.stop_controller):
            return tuple(run.rows)
        await run.end()
        if run.failed():
            return tuple(run.rows)
        view = await _saved(ground, run, age_s)
        if view is None:
            return tuple(run.rows)
        after_s = ground.clock.monotonic() - run.ended_s
        text = f"the watchdog had it started again {wordings.duration(after_s)} after its end"
        run.say("saved", Level.OK, f"restarts: {view.restart_count}", text)
        stopped = not await _switch(run, "controller started", plan.start_controller)
        if not stopped:
            await _say_told(ground, run)
    finally:
        if stopped:
            await _switch(run, "controller started", plan.start_controller)
        await run.leave()
    return tuple(run.rows)


async def _memory_s(ground: Ground) -> float | None:
    """How long the scheduler knows a job that has ended; None: it does not answer."""
    with suppress(SchedulerSilentError):
        return (await ground.scheduler.look()).facts.min_job_age_s
    return None


async def _still_left_alone(ground: Ground, runs: Sequence[Run]) -> tuple[Row, ...]:
    """What was to be left alone is so still, now that the scheduler is about to forget it: the watchdog left it too."""
    for run in runs:
        view = await ground.job(run.raw_id)
        if view is not None and (view.restart_count > 0 or not view.state.is_over):
            remedy = f"relance mode observe; see who did it: relance why {run.raw_id}"
            run.say("left alone", Level.BAD, f"restarts: {view.restart_count}", "it was started again since", remedy)
    return tuple(row for run in runs for row in run.rows if row.level is Level.BAD)


async def _saved(ground: Ground, run: Run, age_s: float) -> JobView | None:
    """The job as soon as it is in the queue again, by the watchdog: nobody else is there."""
    limit_s = age_s + _MARGIN_S
    ground.tell(f"watchdog: the scheduler forgets the job after {wordings.duration(age_s)}; waiting")

    async def again() -> JobView | None:
        view = await ground.job(run.raw_id)
        return view if view is not None and view.restart_count > 0 else None

    view = await ground.until(again, limit_s)
    if view is None:
        remedy = "see that relance-watchdog runs, at stage act, on the controller's host: relance check cluster"
        run.say("saved", Level.BAD, f"job {run.raw_id}", "nobody started it again in time", remedy)
    return view


async def _say_told(ground: Ground, run: Run) -> None:
    """The controller that is back hands over what the watchdog did meanwhile."""

    async def told() -> HistoryRow | None:
        rows = await ground.history(run.raw_id)
        return next((row for row in rows if row.event == WatchdogActed.__name__), None)

    found = await ground.until(told, _TOLD_S)
    if found is None:
        remedy = "see that controller and watchdog have the same state folder"
        run.say("told", Level.BAD, "-", "the history does not have what the watchdog did", remedy)
    else:
        run.say("told", Level.OK, found.title, "the history has what the watchdog did")


async def _switch(run: Run, name: str, argv: tuple[str, ...]) -> bool:
    """Run a site's command; gives whether it did it. What it prints goes beside the report, which may be JSON."""
    try:
        process = await asyncio.create_subprocess_exec(*argv, stdin=asyncio.subprocess.DEVNULL, stdout=_ERRORS)
        async with asyncio.timeout(_SWITCH_S):
            code = await process.wait()
    except (OSError, TimeoutError) as error:
        code, said = None, str(error) or f"no end within {_SWITCH_S:.0f} s"
    else:
        said = f"exit code {code}"
    if code == 0:
        run.say(name, Level.OK, shlex.join(argv), "as told")
        return True
    remedy = "run it by hand, and see that the controller is in the state that you want"
    run.say(name, Level.BAD, shlex.join(argv), f"the command failed: {said}", remedy)
    return False
