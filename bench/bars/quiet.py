"""A quiet half hour that only looks bad: long pauses, rotation, scary words. Then five real faults."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.measures import Limit, Result
from bench.rigs import NO_STORM, Rig, Setup, injected_at, rig, until, wish
from relance.domain.stages import EndRunning
from relance.testing.clusters import Training

_QUIET_S, _QUICK_QUIET_S = 1800.0, 180.0
_STEP_S = 0.5
_PAUSE_STEPS = 20
_PAUSE_EVERY_S = 45.0
_ROTATE_EVERY_S = 20.0
_SEED = 7
_HANG_AFTER_S = 20.0
_USUAL_S = 4.0
_NAMES = ("kill", "hang", "node", "bug", "memory")
_WORDS = (
    "INFO error rate over the last 100 batches: 0.000, 0 failures, 0 timeouts",
    "INFO health check: no Xid, no ECC error, no link down, nothing has fallen off the bus",
    "WARNING: NCCL_DEBUG=WARN is set; a watchdog timeout would abort the process after 600000 ms",
    "INFO killed 0 stale processes, freed 0 bytes, out of memory was not reached",
    "WARNING: the data loader is slow, retrying; connection reset by peer was handled",
    "INFO last run ended with Traceback (most recent call last), this one has none",
    "INFO grad norm is not NaN, loss is not inf, no spike, no divergence",
    "DEBUG srun: error is what the launcher would say here; the exit code is 0",
    "INFO signal handlers for SIGTERM, SIGKILL and SIGSEGV are none of our business",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """A training that stays calm until the end."""

    name: str
    job: int
    side_log: Path


def measure(*, quick: bool) -> Result:
    """Let five trainings run through pauses, rotations and scary words, then break each of them."""
    quiet_s = _QUICK_QUIET_S if quick else _QUIET_S
    setup = Setup(
        cluster={"nodes": 12, "kill_wait_s": 1.0},
        site={"limits": {"grace_after_boot_s": 0, "storms": NO_STORM}},
        end_running=frozenset({EndRunning.HANG}),
    )
    with rig(setup) as made:
        jobs = [_submit(made, name) for name in _NAMES]
        for each in jobs:
            made.wait_for_step(each.job, 3)
        counts = _stay_quiet(made, jobs, quiet_s)
        early = [f"{each.name}: {item.cause}: {item.summary}" for each in jobs for item in made.incidents(each.job)]
        delays = {each.name: _break(made, each) for each in jobs}
    return Result(
        name="quiet",
        measure="quiet run with long pauses, rotation and scary words; then five real faults",
        limits=(
            Limit(name="incidents before the faults", value=len(early), most=0, unit=""),
            *(Limit(name=f"{name} found", value=delay, most=_USUAL_S) for name, delay in delays.items()),
        ),
        figures={"quiet_s": quiet_s, "found_after_s": delays, **counts},
        wrong=tuple(early),
        conditions=(
            f"five trainings of 2 nodes x 2 ranks, {_STEP_S:g} s a step, each paused for {_PAUSE_STEPS} steps' time "
            f"({_PAUSE_STEPS * _STEP_S:g} s) about every {_PAUSE_EVERY_S:g} s, with a log that is rotated by renaming "
            f"and one that is truncated; all limits as shipped; the hang counts from its hang_after_s "
            f"({_HANG_AFTER_S:g} s), the others from the injection"
        ),
    )


def _submit(made: Rig, name: str) -> Quiet:
    folder = made.cluster.work_dir / f"quiet-{name}"
    folder.mkdir(parents=True)
    side_log = folder / "side.log"
    side_log.touch()
    keys: dict[str, object] = {"logs": [str(side_log)]}
    if name == "hang":
        keys["hang_after_s"] = _HANG_AFTER_S
    job = made.cluster.submit(
        Training(
            name=f"quiet-{name}",
            nodes=2,
            ranks_per_node=2,
            steps=100_000,
            step_s=_STEP_S,
            comment=wish(**keys),
        )
    )
    return Quiet(name=name, job=job, side_log=side_log)


def _stay_quiet(made: Rig, jobs: list[Quiet], quiet_s: float) -> dict[str, int]:
    """Pauses, rotations, truncations and words for so long; gives how many there were."""
    chance = random.Random(_SEED)
    counts = {"pauses": 0, "rotations": 0, "truncations": 0, "scary_words": 0}
    begun = time.monotonic()
    next_pause = {each.name: begun + chance.uniform(5.0, _PAUSE_EVERY_S) for each in jobs}
    next_rotation = begun + _ROTATE_EVERY_S
    while (now := time.monotonic()) - begun < quiet_s:
        for each in jobs:
            with each.side_log.open("a", encoding="utf-8") as log:
                log.write(chance.choice(_WORDS) + "\n")
            counts["scary_words"] += 1
            if now >= next_pause[each.name]:
                step = made.step(each.job) + 4
                made.cluster.befall(f"quiet-{each.name}", "pause", at=step, s=_PAUSE_STEPS * _STEP_S)
                next_pause[each.name] = now + chance.uniform(0.7, 1.3) * _PAUSE_EVERY_S
                counts["pauses"] += 1
        if now >= next_rotation:
            next_rotation = now + _ROTATE_EVERY_S
            _rotate(made, jobs, chance, counts)
        time.sleep(0.5)
    # the last pause is to end before anything is broken
    time.sleep(_PAUSE_STEPS * _STEP_S + 5 * _STEP_S)
    return counts


def _rotate(made: Rig, jobs: list[Quiet], chance: random.Random, counts: dict[str, int]) -> None:
    each = chance.choice(jobs)
    each.side_log.rename(each.side_log.with_suffix(".log.1"))
    each.side_log.touch()
    counts["rotations"] += 1
    other = chance.choice(jobs)
    with Path(made.cluster.job(other.job)["std_out"]).open("r+b") as output:
        output.truncate(0)
    counts["truncations"] += 1


def _break(made: Rig, each: Quiet) -> float | None:
    """Break one training; gives the seconds until the finding was stored, None when there was none in time."""
    faults: dict[str, Callable[[], Any]] = {
        "kill": lambda: made.cluster.ask("kill_rank", job_id=each.job, rank=1),
        "hang": lambda: made.cluster.ask("stop_rank", job_id=each.job, rank=1),
        "memory": lambda: made.cluster.ask("oom_rank", job_id=each.job, rank=1),
        "node": lambda: made.cluster.ask(
            "break_node", node=made.cluster.job(each.job)["node_list"][1], kind="xid79", after_steps=1
        ),
        "bug": lambda: _bug(made, each),
    }
    at = injected_at(faults[each.name]())
    extra_s = _HANG_AFTER_S if each.name == "hang" else 0.0

    def stored_at() -> datetime | None:
        return _confirmed_at(made, each.job) if each.name == "hang" else _found_at(made, each.job)

    stored = until(stored_at, 60.0 + extra_s, f"a finding of {each.name}")
    return round((stored - at).total_seconds() - extra_s, 3)


def _found_at(made: Rig, job: int) -> datetime | None:
    """When the first finding was stored."""
    for item in made.incidents(job):
        if item.times.detect is not None:
            return item.times.detect.at
    return None


def _confirmed_at(made: Rig, job: int) -> datetime | None:
    """When the finding was stored that confirms the hang, whether or not another had suspected it before."""
    for item in made.incidents(job):
        story = made.client.incident_story(item.id)
        told = [entry for entry in story.entries if entry.event == "FindingReported"]
        return next((entry.recorded_at for entry in told if "suspected" not in entry.title.lower()), None)
    return None


def _bug(made: Rig, each: Quiet) -> dict[str, Any]:
    """A bug beyond the steps that are not handed over yet. The fault is the step: it begins after the one before it."""
    step = made.step(each.job) + 20
    made.cluster.befall(f"quiet-{each.name}", "bug", at=step)
    until(lambda: made.state(each.job) != "RUNNING", 30.0, "the bug")

    def last_step_at() -> float | None:
        story = made.story(each.job)
        progress = story.job.progress if story is not None else None
        at = progress.step_at if progress is not None and progress.step == step - 1 else None
        return at.timestamp() if at is not None else None

    return {"at": until(last_step_at, 30.0, "the step before the bug")}
