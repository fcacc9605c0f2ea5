"""The file system of forty jobs of twelve owners is lost for six minutes, on a real Slurm with its usual memory.

What came of it is judged by slurmctld, looked at the whole time by root, and by the jobs' own outputs; Relance is asked
only when its storm opened and cleared.
"""

from __future__ import annotations

import re
import shlex
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measures import Limit, Result, spread
from bench.queue_watches import QueueWatch, Shown, now
from bench.shared_folders import SharedFolder
from bench.sites import until
from bench.slurm_sites import CLUSTER, SlurmSetup, SlurmSite
from relance.simulation.private_slurm import ClusterPlan, RunningCluster, start_cluster
from relance.testing.other_users import user_of

_PROGRAM = Path(__file__).resolve().parent.parent / "programs" / "shared_training.py"
_STEP_S, _CHECKPOINT_EVERY = 2.5, 4
_STEPS_BEFORE = 10
_MINUTE_S = 60.0
_PER_MINUTE = 10
_MOST_RESTARTS = 3
_AT_ONCE_S = 120.0
_BEGINS = re.compile(r"attempt (\d+) begins at (\d+\.\d+)")
_STEP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+)\] iteration +(\d+)/")
_DEATH = "Read-only file system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the storm is. Times in seconds."""

    jobs: int
    owners: int
    nodes: int
    min_job_age_s: int
    outage_s: float
    storms: dict[str, float]
    """Limits of storms that differ from those shipped."""
    deadline_s: float
    """How long after the end of the outage all jobs have to be beyond their old step."""

    @property
    def plan(self) -> ClusterPlan:
        """A cluster on which all jobs just run at once, each on two nodes."""
        return ClusterPlan(
            node_count=self.nodes,
            cpus_per_node=-(-2 * self.jobs // self.nodes) + 2,
            memory_mib=8000,
            owners=tuple(f"owner{number}" for number in range(1, self.owners + 1)),
            min_job_age_s=self.min_job_age_s,
        )


_FULL = Size(jobs=40, owners=12, nodes=8, min_job_age_s=300, outage_s=360.0, storms={}, deadline_s=900.0)
_QUICK = Size(
    jobs=12, owners=6, nodes=4, min_job_age_s=60, outage_s=90.0, storms={"clear_after_s": 60}, deadline_s=360.0
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt as its own output tells it. `first_step_at` None: it came to no step."""

    number: int
    began_at: float
    first_step_at: float | None
    last_step: int
    died_of_it: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What was recorded. Times in seconds since 1970."""

    lost_at: float
    back_at: float
    opened_at: float | None
    cleared_at: float | None
    storms: int
    watch: QueueWatch
    attempts: dict[int, list[Attempt]]
    steps_before: dict[int, int]


def measure(*, quick: bool) -> Result:
    """Take the file system away and bring it back, and look at what came of every job."""
    size = _QUICK if quick else _FULL
    cluster = start_cluster(size.plan)
    try:
        with SharedFolder(Path(cluster.folder) / "shared") as shared:
            return _result(size, _run(cluster, size, shared))
    finally:
        cluster.stop()


def _run(cluster: RunningCluster, size: Size, shared: SharedFolder) -> Storm:
    limits: dict[str, object] = {"grace_after_boot_s": 0, "storms": size.storms}
    setup = SlurmSetup(site={"limits": limits})
    site = SlurmSite(cluster, Path(cluster.folder) / "storm", setup)
    try:
        site.start()
        outputs = _submit(site, size, shared.folder)
        watch = QueueWatch(cluster, tuple(outputs))
        watch.start()
        try:
            return _weather(site, size, shared, watch, outputs)
        finally:
            watch.stop()
    finally:
        site.stop()


def _weather(site: SlurmSite, size: Size, shared: SharedFolder, watch: QueueWatch, outputs: dict[int, Path]) -> Storm:
    def all_beyond(steps: dict[int, int]) -> bool:
        return all(_highest(path) > steps[job] for job, path in outputs.items())

    until(lambda: all_beyond(dict.fromkeys(outputs, _STEPS_BEFORE)), 180.0, "the first steps of all jobs")
    until(lambda: _followed(site) == len(outputs), 60.0, "progress of all jobs at the server")
    shared.lose()
    lost_at = now()
    until(lambda: not any(_is_running(watch, job) for job in outputs), 60.0, "the end of all jobs")
    before = {job: _highest(path) for job, path in outputs.items()}
    storms: dict[str, tuple[float, float | None]] = {}
    back_at: float | None = None
    while back_at is None or now() < back_at + size.deadline_s:
        _note_storm(site, storms)
        if back_at is None and now() - lost_at >= size.outage_s:
            shared.bring_back()
            back_at = now()
        if back_at is not None and all_beyond(before):
            break
        time.sleep(1.0)
    time.sleep(10.0)  # whoever would be started twice would be so about now
    first = min(storms.values(), default=None)
    return Storm(
        lost_at=lost_at,
        back_at=back_at or now(),
        opened_at=first[0] if first else None,
        cleared_at=first[1] if first else None,
        storms=len(storms),
        watch=watch,
        attempts={
            job: attempts_in(path.read_text(encoding="utf-8", errors="replace")) for job, path in outputs.items()
        },
        steps_before=before,
    )


def _submit(site: SlurmSite, size: Size, store: Path) -> dict[int, Path]:
    """All jobs; gives where each writes its output, which lies elsewhere than what is lost."""
    program = str(shutil.copy(_PROGRAM, site.folder / _PROGRAM.name))
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in site.python.environment().items())
    outputs: dict[int, Path] = {}
    for number in range(size.jobs):
        owner = user_of(site.cluster.plan.owners[number % size.owners])
        name = f"storm-{number}"
        place = store / name
        place.mkdir()
        shutil.chown(place, owner.uid, owner.gid)
        words = [
            *("srun", "--label", "--kill-on-bad-exit=1", site.python.program, program, "--store", str(place)),
            *("--steps", "100000", "--step-s", str(_STEP_S), "--checkpoint-every", str(_CHECKPOINT_EVERY)),
        ]
        folder = site.cluster.work_dir(owner.name)
        options = ["--nodes=2", "--ntasks-per-node=1", "--output=%x-%j.out", "--open-mode=append", f"--job-name={name}"]
        job = site.cluster.submit(
            owner.name, f"#!/bin/sh\n{exports}exec {shlex.join(words)}\n", options=options, cwd=folder
        )
        outputs[job] = folder / f"{name}-{job}.out"
    return outputs


def _followed(site: SlurmSite) -> int:
    rows = site.client.jobs(CLUSTER, limit=200)
    return sum(row.progress is not None and (row.progress.step or 0) > 0 for row in rows)


def _is_running(watch: QueueWatch, job: int) -> bool:
    rows = watch.rows[job]
    return not rows or (rows[-1].state in ("RUNNING", "COMPLETING") and rows[-1].restarts == 0)


def _note_storm(site: SlurmSite, storms: dict[str, tuple[float, float | None]]) -> None:
    for storm in site.client.storms(CLUSTER):
        cleared = storm.cleared_at
        storms[storm.storm_id] = (storm.opened_at.timestamp(), cleared.timestamp() if cleared else None)


def _highest(path: Path) -> int:
    if not path.exists():
        return 0
    text = path.read_text(encoding="utf-8", errors="replace")
    return max((int(match[2]) for match in _STEP.finditer(text)), default=0)


def attempts_in(output: str) -> list[Attempt]:
    """The attempts of a job, in order, as its output has them."""
    marks = list(_BEGINS.finditer(output))
    ends = [mark.start() for mark in marks[1:]] + [len(output)]
    found: list[Attempt] = []
    for mark, end in zip(marks, ends, strict=True):
        steps = list(_STEP.finditer(output, mark.end(), end))
        found.append(
            Attempt(
                number=int(mark[1]),
                began_at=float(mark[2]),
                first_step_at=_stamp(steps[0][1]) if steps else None,
                last_step=int(steps[-1][2]) if steps else 0,
                died_of_it=_DEATH in output[mark.end() : end],
            )
        )
    return found


def _result(size: Size, storm: Storm) -> Result:
    watch, jobs = storm.watch, storm.attempts
    opened_at = storm.opened_at or float("inf")
    restarts = [each for attempts in jobs.values() for each in attempts if each.number > 0]
    early = [each for each in restarts if each.began_at < opened_at]
    ages = parking_ages(watch)
    beyond = [job for job, attempts in jobs.items() if attempts and attempts[-1].last_step > storm.steps_before[job]]
    order = order_after(storm)
    held = {row.job for row in watch.all_rows() if row.is_held}
    excluded = {row.job for row in watch.all_rows() if row.excluded}
    limits = (
        Limit(name="restarts before the storm opened", value=len(early), most=_MOST_RESTARTS, unit=""),
        Limit(name="storm opened after the loss", value=_after(storm, storm.opened_at), most=_AT_ONCE_S),
        Limit(name="jobs with an exclusion", value=len(excluded), most=0, unit=""),
        Limit(name="age of an ended job when parked, max", value=max(ages, default=None), most=size.min_job_age_s),
        Limit(name="jobs held at any time", value=len(held), most=0, unit=""),
        Limit(name="jobs lost", value=len(watch.missing), most=0, unit=""),
        Limit(name="healthy attempts ended, or jobs doubled", value=len(doubled(storm)), most=0, unit=""),
        Limit(name="jobs not beyond their old step", value=size.jobs - len(beyond), most=0, unit=""),
        Limit(name="others started before the canary's first step", value=order["before_canary"], most=0, unit=""),
        Limit(
            name="jobs let go in any minute after it, max", value=order["most_per_minute"], most=_PER_MINUTE, unit=""
        ),
    )
    return Result(
        name="slurm_storm",
        measure=f"{size.jobs} jobs of {size.owners} owners lose their file system at once, on a real Slurm",
        limits=limits,
        figures={
            "outage_s": round(storm.back_at - storm.lost_at, 1),
            "storms": storm.storms,
            "opened_after_s": _after(storm, storm.opened_at),
            "cleared_after_s": _after(storm, storm.cleared_at),
            "age_when_parked_s": spread(ages).data,
            "restarts": len(restarts),
            "attempts_per_job": spread([float(len(attempts)) for attempts in jobs.values()]).data,
            "all_beyond_their_old_step_after_the_return_s": _recovered_after(storm),
            "looks": watch.looks,
            **order,
        },
        wrong=tuple(doubled(storm)),
        conditions=_conditions(size),
    )


def _conditions(size: Size) -> str:
    limits = f"limits of storms as shipped but for {size.storms}" if size.storms else "limits of storms as shipped"
    return (
        f"a private Slurm cluster of {size.nodes} nodes on one machine, MinJobAge {size.min_job_age_s} s; trainings of "
        f"two nodes with a step every {_STEP_S:g} s; a mount in memory turned read-only for {size.outage_s:g} s, so "
        "that each attempt dies of EROFS at its next step or at its start; `relance up` at act with polls and settle "
        f"time as shipped, {limits}, no grace after the boot of a scheduler that has just been started; nobody "
        "intervenes; held, lost and excluded as slurmctld showed it every 1.5 s"
    )


def parking_ages(watch: QueueWatch) -> list[float]:
    """For each attempt that failed and was requeued: how long after its end that was, by Slurm's own clock."""
    found: list[float] = []
    for rows in watch.rows.values():
        ended: Shown | None = None
        for row in rows:
            if ended is not None and row.restarts > ended.restarts and row.submit and ended.end:
                found.append(row.submit - ended.end)
                ended = None
            if row.state == "FAILED":
                ended = row
    return found


def order_after(storm: Storm) -> dict[str, Any]:
    """Who went first after the storm cleared, and how many a minute followed."""
    if storm.cleared_at is None:
        return {"before_canary": None, "most_per_minute": None, "canaries": 0}
    starts = sorted(
        (each.began_at, job, each)
        for job, attempts in storm.attempts.items()
        for each in attempts
        if each.began_at > storm.cleared_at
    )
    stepped = [each.first_step_at for _, _, each in starts if each.first_step_at is not None]
    first_step_at = min(stepped, default=float("inf"))
    first = [each for at, _, each in starts if at < first_step_at]
    # One canary after another may come to nothing; that one steps is what lets the others go.
    overlapping = [each for each in first[:-1] if not each.died_of_it]
    later = [at for at, _, _ in starts if at >= first_step_at]
    return {
        "canaries": len(first),
        "before_canary": len(overlapping),
        "canary_first_step_after_clearing_s": round(first_step_at - storm.cleared_at, 1) if stepped else None,
        "most_per_minute": max((sum(at <= other < at + _MINUTE_S for other in later) for at in later), default=0),
        "let_go_after_canary": len(later),
        "last_let_go_after_canary_s": round(later[-1] - first_step_at, 1) if later else None,
    }


def doubled(storm: Storm) -> list[str]:
    """Attempts that ended without having died, attempts that began twice, and jobs that nobody submitted."""
    found = [f"job {job} is nobody's" for job in sorted(storm.watch.strangers)]
    for job, attempts in storm.attempts.items():
        numbers = [each.number for each in attempts]
        if len(set(numbers)) < len(numbers):
            found.append(f"job {job} began an attempt twice: {numbers}")
        found += [f"attempt {each.number} of job {job} was ended in good health" for each in attempts[:-1]
                  if not each.died_of_it]  # fmt: skip
    return found


def _recovered_after(storm: Storm) -> float | None:
    firsts = [
        attempts[-1].first_step_at
        for attempts in storm.attempts.values()
        if attempts and attempts[-1].began_at > storm.lost_at
    ]
    known = [at for at in firsts if at is not None]
    return round(max(known) - storm.back_at, 1) if len(known) == len(storm.attempts) else None


def _after(storm: Storm, at: float | None) -> float | None:
    return round(at - storm.lost_at, 1) if at is not None else None


def _stamp(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
