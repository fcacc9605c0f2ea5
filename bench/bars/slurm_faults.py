"""Everything around a restart fails, at every point of it, on a real Slurm: processes, wires, database.

Each case is one restart: a rank is killed, and at a point of the recovery something is struck: a role of Relance, a
daemon of Slurm, the wire between agents and server or between commands and slurmctld, the database. Some seconds later
it is mended, as a service manager or a person would. What is judged comes from Slurm first: one new attempt at most,
which runs; nobody holds the job; then from the history: every step told, once.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.faults import AWAY_S, TROUBLES, Stand, Trouble, Way, can_be_read_only, stand, wait_for_cluster
from bench.measures import Limit, Result, spread
from bench.rigs import folder
from bench.shims import Fault, Kind
from bench.sites import TooLateError, until
from bench.stories import story_gaps
from relance.domain.events import IncidentEnd
from relance.ports.clocks import SystemClock
from relance.simulation.private_slurm import PrivateSlurmError
from relance.simulation.slurm_ranks import rank_file
from relance.testing.clusters import Training

SEED = 20261203
_ON_SQLITE = 3
"""So many stands work side by side with the history in SQLite, and one on MariaDB."""
_STEPS, _STEP_S, _BEFORE_STEP = 3000, 0.1, 12
_PAUSED_S = 90.0
_RUNS_S = 300.0
"""A slurmctld that lost its newest state may show a job as running for 160 s before it requeues it by itself."""
_STORY_S = 200.0
_LOOK_S = 0.5
_LIVING = ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of a recovery: `fault` says at which call; None: the moment in which the rank dies."""

    name: str
    fault: Fault | None = None


POINTS = (
    Point(name="as the rank dies"),
    *(
        Point(
            name=f"{'before' if kind is Kind.PAUSE_BEFORE else 'after'} {operation} {number}",
            fault=Fault(operation=operation, number=number, kind=kind),
        )
        for operation, number, kind in (
            ("read", 1, Kind.PAUSE_BEFORE),
            ("requeue", 1, Kind.PAUSE_BEFORE),
            ("requeue", 1, Kind.PAUSE_AFTER),
            ("update", 1, Kind.PAUSE_BEFORE),
            ("update", 1, Kind.PAUSE_AFTER),
        )
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A trouble at a point."""

    trouble: Trouble
    point: Point

    @property
    def name(self) -> str:
        """For reports."""
        return f"{self.trouble.name}, {self.point.name}"

    @property
    def is_long(self) -> bool:
        """Whether slurmctld loses what it had just been told: it takes it 160 s to find out what runs."""
        is_after = self.point.fault is not None and self.point.name not in ("before read 1", "before requeue 1")
        return self.trouble.target == "slurmctld" and self.trouble.way is Way.KILL and is_after


@dataclass(slots=True)
class Findings:
    """What came out, from all stands."""

    cases: int = 0
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    none: list[str] = field(default_factory=list)
    """Cases in which the job was not restarted, which is allowed where that is told."""
    running_s: list[float] = field(default_factory=list)
    """From the end of the trouble to the new attempt's start; 0 where it was sooner."""
    by_target: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


def all_cases() -> list[Case]:
    """Every trouble at every point, in an order that is the same each time."""
    found = [Case(trouble=trouble, point=point) for trouble in TROUBLES for point in POINTS]
    random.Random(SEED).shuffle(found)
    return found


def tenth(number: int = 0) -> list[Case]:
    """A seeded tenth of them: the `number`-th of ten."""
    return all_cases()[number::10]


def quick_tenth() -> list[Case]:
    """The first tenth, without those in which Slurm itself needs minutes."""
    return [case for case in tenth() if not case.is_long]


def measure(*, quick: bool) -> Result:
    """All cases, or a tenth of them when quick."""
    wanted, found = quick_tenth() if quick else all_cases(), Findings()
    cases = _possible(wanted)
    groups = list(_shared_out(cases))
    with ExitStack() as running:
        stands = [running.enter_context(stand(on_mariadb=group[0].trouble.on_mariadb)) for group in groups]
        threads = [
            threading.Thread(target=run_all, args=(made, group, found))
            for made, group in zip(stands, groups, strict=True)
        ]
        # Threads that start a role again have to outlive it: both stay until all is over.
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return Result(
        name="slurm_faults",
        measure="every process, wire and database around a restart fails at every point of it, on a real Slurm",
        limits=(
            Limit(name="cases that came out wrong", value=len(found.wrong) if found.cases else None, most=0, unit=""),
        ),
        figures={
            "cases": found.cases,
            "cases that this machine's files do not allow": len(wanted) - len(cases),
            "points that did not come": found.missed,
            "not restarted, and told": found.none,
            "mended -> new attempt running": spread(found.running_s).data,
            "cases by what was struck": dict(found.by_target),
        },
        wrong=tuple(found.wrong),
        conditions=(
            "private Slurms of three nodes, Relance's roles apart, on SQLite and on MariaDB, a watchdog at act; polls "
            "every second, settle 1 s; a rank is killed, and at the point something is struck: killed and started "
            f"again {AWAY_S[Way.KILL]:g} s later, stopped for {AWAY_S[Way.STOP]:g} s, a wire refused or silent, the "
            "database read-only; at most one new attempt, nothing held, the incident ends, the action has an end, each "
            "step is told once and in order"
        ),
    )


def _possible(cases: Sequence[Case]) -> list[Case]:
    """The cases that can be had here: not every file system lets a file be made read-only for its writers."""
    with folder() as place:
        may = can_be_read_only(place)
    return [case for case in cases if may or case.trouble.way is not Way.READ_ONLY or case.trouble.on_mariadb]


def _shared_out(cases: Sequence[Case]) -> Iterator[list[Case]]:
    """The cases by the stand that has them, as evenly as it goes: those on MariaDB have one of their own."""
    for on_mariadb, stands in ((False, _ON_SQLITE), (True, 1)):
        of_kind = [case for case in cases if case.trouble.on_mariadb is on_mariadb]
        yield from filter(None, (of_kind[number::stands] for number in range(stands)))


def run_all(made: Stand, cases: Sequence[Case], found: Findings) -> None:
    """Run cases on a stand, one after another; raises nothing."""
    for case in cases:
        try:
            wrong = run(made, case, found)
        except Exception as error:  # noqa: BLE001 -- a bench reports what happened
            wrong = [f"{type(error).__name__}: {error}"]
        with found.lock:
            found.cases += 1
            found.by_target[case.trouble.name] += 1
            found.wrong += [f"{case.name}: {sentence}" for sentence in wrong]


def run(made: Stand, case: Case, found: Findings) -> list[str]:
    """Let a case happen; gives what came out wrong. Raises TooLateError when it could not begin."""
    _ready(made)
    job = _training(made)
    node = str(made.site.trainings.job(job)["node_list"][0])
    made.shims.watch(job, made.site.relance.role("controller").pid, case.point.fault)
    if case.point.fault is None:
        # Found out before: with munged or slurmctld struck nobody could ask any more.
        rank = int(rank_file(made.site.trainings.work_dir, job, 0, 1).read_text(encoding="ascii"))
        with made.befallen(case.trouble, node):
            os.kill(rank, signal.SIGKILL)
            held = _look_on(made, job, AWAY_S[case.trouble.way])
    else:
        made.site.trainings.kill_rank(job, 1)
        try:
            until(lambda: made.shims.is_paused, _PAUSED_S, f"the point {case.point.name}")
        except TooLateError:
            found.missed.append(case.name)
            _clear(made, job)
            return []
        with made.befallen(case.trouble, node):
            made.shims.go_on()
            held = _look_on(made, job, AWAY_S[case.trouble.way])
    mended_at = SystemClock().now().timestamp()
    wrong = [*held, *_outcome(made, job, case, mended_at, found)]
    wrong += _story(made, job, case, found)
    _clear(made, job)
    return wrong


def _ready(made: Stand) -> None:
    made.mend_roles()
    made.site.reconnect()
    wait_for_cluster(made)
    calmly(lambda: _caps_nothing(made), _RUNS_S, "a stage of act")


def _caps_nothing(made: Stand) -> bool:
    """Whether nothing lowers the stage after the case before."""
    return all(
        not row.caps and not row.problems and row.report_age_s is not None and row.report_age_s < 5.0
        for row in made.site.client.stages()
    )


def _training(made: Stand) -> int:
    made.jobs += 1
    training = Training(name=f"f{made.jobs}", nodes=2, ranks_per_node=1, steps=_STEPS, step_s=_STEP_S)
    job = made.site.trainings.submit(training)
    calmly(lambda: made.site.step(job) >= _BEFORE_STEP, 90.0, f"step {_BEFORE_STEP} of job {job}")
    return job


def _look_on(made: Stand, job: int, for_s: float) -> list[str]:
    """Let the trouble last, and look whether somebody holds the job meanwhile."""
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        time.sleep(_LOOK_S)
        if held := _held(made, job):
            return [held]
    return []


def _held(made: Stand, job: int) -> str:
    """Who holds the job; empty when nobody does, or Slurm does not say."""
    try:
        done = made.cluster.run_as("root", ["scontrol", "show", "job", "--oneliner", str(job)], time_limit_s=3.0)
    except Exception:  # noqa: BLE001 -- it is what was struck
        return ""
    fields = dict(word.partition("=")[::2] for word in done.stdout.split())
    reason = fields.get("Reason", "")
    is_held = fields.get("JobState") == "PENDING" and ("Held" in reason or "held" in reason)
    return f"the job is held: {reason}" if is_held else ""


def _outcome(made: Stand, job: int, case: Case, mended_at: float, found: Findings) -> list[str]:
    """Wait until the job runs again; gives what is wrong with it."""
    wait_for_cluster(made)
    made.mend_roles()
    made.site.reconnect()
    end = time.monotonic() + _RUNS_S
    while time.monotonic() < end:
        made.mend_roles()
        try:
            fields = made.cluster.job_fields(job)
        except PrivateSlurmError:
            time.sleep(_LOOK_S)
            continue
        if held := _held(made, job):
            return [held]
        state, restarts = fields["JobState"], int(fields.get("Restarts", "0"))
        if restarts > 1 and (doubled := _doubled(made, job)):
            return [doubled]
        if state == "RUNNING" and restarts >= 1:
            row = made.site.trainings.attempts(job)[-1]
            with found.lock:
                found.running_s.append(max(0.0, (row["start_time"] or mended_at) - mended_at))
            return []
        if state == "FAILED" and restarts == 0 and _is_told(made, job):
            found.none.append(case.name)
            return []
        time.sleep(_LOOK_S)
    fields = made.cluster.job_fields(job)
    return [f"not running {_RUNS_S:.0f} s after it was mended: {fields['JobState']}, {fields.get('Reason')}"]


def _doubled(made: Stand, job: int) -> str:
    """Whether there is a new attempt too many: one more is right only where Slurm itself gave up the one before."""
    rows = made.site.trainings.attempts(job)
    ended = [row["state"] for row in rows[1:-1]]
    return f"new attempts in accounting beside the one: {ended}" if any(each != "NODE_FAIL" for each in ended) else ""


def _is_told(made: Stand, job: int) -> bool:
    """Whether the incident of a job that was not restarted has ended, so that a person knows."""
    items = made.site.incidents(job)
    return bool(items) and all(item.end is not None for item in items)


def _story(made: Stand, job: int, case: Case, found: Findings) -> list[str]:
    """What is wrong with what was told."""
    made.site.reconnect()
    try:
        calmly(lambda: _is_told(made, job), _STORY_S, f"the end of the incidents of job {job}")
    except TooLateError:
        items = made.site.incidents(job)
        return [f"no end in the story: {items[-1].state.value}, {items[-1].next}" if items else "no incident"]
    items = made.site.incidents(job)
    ends = [item.end for item in items]
    wrong = []
    good = (IncidentEnd.RECOVERED, IncidentEnd.RUNNING_UNPROVEN)
    if case.name not in found.none and ends[-1] not in good:
        wrong.append(f"the incident ended as {[end.value for end in ends if end]}: {items[-1].end_reason}")
    events = made.site.client.job_history(str(job))
    begun = Counter(row.incident_id for row in events if row.event == "ActionStarted")
    wrong += [f"{number} restarts begun in one incident" for number in begun.values() if number > 1]
    if doubled := _doubled(made, job):
        wrong.append(doubled)
    for item in items:
        if made.site.client.incident_story(item.id).action is not None:
            wrong += story_gaps(made.site, item, asked_again=True)
    return wrong


def _clear(made: Stand, job: int) -> None:
    """End the job, whatever it does, and wait until it is gone. Raises TooLateError."""
    made.shims.go_on()
    made.shims.watch(0, 0)
    wait_for_cluster(made)

    def is_gone() -> bool:
        if made.site.state(job) not in _LIVING:
            return True
        made.cluster.run_as("root", ["scancel", str(job)])
        time.sleep(_LOOK_S)
        return False

    until(is_gone, 90.0, f"the end of job {job}")


def calmly(ask: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Ask now and then: several stands share a machine, and a story costs the server a moment. Raises TooLateError."""

    def now_and_then() -> bool:
        if ask():
            return True
        time.sleep(_LOOK_S)
        return False

    until(now_and_then, timeout_s, what)
