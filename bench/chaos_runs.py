"""A chaos run: real trainings on a private Slurm, Relance's roles apart beside them, and a punisher of all of them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.chaos_books import RankAttempt, read_book
from bench.punishers import NODE_AWAY_S, Deed, Hit, Punisher
from bench.queue_watches import QueueWatch
from bench.rigs import NO_STORM
from bench.sites import free_port
from bench.slurm_sites import FAST_POLLS, SlurmSetup, SlurmSite
from relance.domain.stages import EndRunning
from relance.simulation.private_slurm import RunningCluster
from relance.testing.clusters import Training

_PROGRAM = Path(__file__).resolve().parent / "programs" / "chaos_rank.py"
_MANY = 1000
CHAOS_LIMITS: Mapping[str, object] = {
    "settle_s": 1,
    "grace_after_boot_s": 0,
    "storms": NO_STORM,
    # A job is hit a dozen times in minutes, also before its first step: by the shipped limits that is a hopeless one.
    "restarts": {
        "without_progress": _MANY,
        "per_day": _MANY,
        "in_all": _MANY,
        "before_first_step_first": _MANY,
        "before_first_step_later": _MANY,
        "unknown_without_progress": _MANY,
        "once_without_progress": _MANY,
        "wall_time_times": _MANY,
        "progress_s": 1,
        "backoff_first_s": 1,
        "backoff_max_s": 4,
    },
    "exclusions": {"per_partition_share": 1},
}
_LOOK_S = 0.25
_SEEN_S = 180.0
_STORY_S = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a run is. Times in seconds."""

    jobs: int
    nodes_each: int
    steps: int
    step_s: float
    checkpoint_every: int
    punished_s: float
    every_s: float
    finish_s: float
    """How long after the last deed all jobs have to have finished."""
    seed: int
    first: tuple[Deed, ...] = ()
    node_away_s: tuple[float, float] = NODE_AWAY_S


@dataclass(slots=True, kw_only=True)
class Record:
    """What is left of a run, to be judged."""

    size: Size
    jobs: dict[int, Path]
    """Each job, and the folder of its ranks' books."""
    hits: list[Hit]
    watch: QueueWatch
    unfinished: list[int] = field(default_factory=list)
    """Jobs that were not over in time."""
    open_incidents: list[int] = field(default_factory=list)
    """Jobs whose incidents had no end in time after the last of them was over."""
    duration_s: float = 0.0


@contextmanager
def chaos_site(cluster: RunningCluster, folder: Path, partition: str, database: str = "") -> Iterator[SlurmSite]:
    """Relance at act, its roles apart, with every consent; for a partition of a cluster that runs."""
    setup = SlurmSetup(
        scheduler={**FAST_POLLS, **({"partitions": [partition]} if partition else {})},
        site={"limits": CHAOS_LIMITS},
        # The same port after each restart of the server, as at a site.
        settings={"server": {"port": free_port(), **({"database": database} if database else {})}},
        end_running=frozenset(EndRunning),
        apart=True,
        watchdog={"stage": "act", "every_s": 2.0},
    )
    site = SlurmSite(cluster, folder, setup, partition=partition)
    try:
        site.start()
        yield site
    finally:
        site.stop()


def run(site: SlurmSite, size: Size) -> Record:
    """Submit the jobs, punish them and all around them, and wait until all are over."""
    begun = time.monotonic()
    jobs = dict(_submit(site, size, number) for number in range(size.jobs))
    ranks = dict.fromkeys(jobs, size.nodes_each)
    punisher = Punisher(
        site=site,
        jobs=ranks,
        may_hit=lambda job: _may_hit(read_book(jobs[job] / "rank-0.log"), size.checkpoint_every),
        seed=size.seed,
        every_s=size.every_s,
        first=size.first,
        node_away_s=size.node_away_s,
    )
    watch = QueueWatch(site.cluster, tuple(jobs))
    watch.start()
    record = Record(size=size, jobs=jobs, hits=punisher.hits, watch=watch)
    try:
        _wait_for_steps(jobs, size)
        end = time.monotonic() + size.punished_s
        while time.monotonic() < end and not all(_is_over(watch, job) for job in jobs):
            punisher.punish()
            punisher.keep()
            time.sleep(_LOOK_S)
        punisher.end()
        end = time.monotonic() + size.finish_s
        while time.monotonic() < end and not all(_is_over(watch, job) for job in jobs):
            punisher.keep()  # an agent that found no server at its start
            time.sleep(_LOOK_S)
        record.unfinished = [job for job in jobs if not _is_over(watch, job)]
        record.open_incidents = _open_incidents(site, jobs, punisher)
    finally:
        watch.stop()
        record.duration_s = time.monotonic() - begun
    return record


def _submit(site: SlurmSite, size: Size, number: int) -> tuple[int, Path]:
    """A training whose ranks keep books; gives its id, and where the books are."""
    name = f"chaos-{number}"
    program = site.folder / _PROGRAM.name
    if not program.exists():
        shutil.copy(_PROGRAM, program)
    book = site.trainings.work_dir / name / "book"
    training = Training(
        name=name,
        nodes=size.nodes_each,
        ranks_per_node=1,
        steps=size.steps,
        step_s=size.step_s,
        checkpoint_every=size.checkpoint_every,
        options=("--book", str(book)),
        program=str(program),
    )
    return site.trainings.submit(training), book


def _may_hit(book: Sequence[RankAttempt], checkpoint_every: int) -> bool:
    """Whether a rank may be killed: not twice in a row before a new checkpoint, because a third time is hopeless.

    By design a job that ends the same way for the third time without progress is left to its owner.
    """
    return any(len(attempt.steps) > checkpoint_every for attempt in book[-2:])


def _wait_for_steps(jobs: Mapping[int, Path], size: Size) -> None:
    """Return when every rank has begun, so that the first deed finds somebody."""
    end = time.monotonic() + _SEEN_S
    books = [book / f"rank-{rank}.log" for book in jobs.values() for rank in range(size.nodes_each)]
    while not all(book.exists() for book in books) and time.monotonic() < end:
        time.sleep(_LOOK_S)


def _is_over(watch: QueueWatch, job: int) -> bool:
    """Whether the job has finished; any other end has to be restarted."""
    rows = watch.rows[job]
    return bool(rows) and rows[-1].state == "COMPLETED"


def _open_incidents(site: SlurmSite, jobs: Mapping[int, Path], punisher: Punisher) -> list[int]:
    """Wait until no incident is open; gives the jobs of those that are."""
    end = time.monotonic() + _STORY_S
    waiting = list(jobs)
    while waiting and time.monotonic() < end:
        punisher.keep()
        try:
            site.reconnect()
            waiting = [job for job in waiting if _has_open(site, job)]
        except Exception:  # noqa: BLE001 -- the server is just being started
            time.sleep(1.0)
        time.sleep(_LOOK_S)
    return waiting


def _has_open(site: SlurmSite, job: int) -> bool:
    story = site.story(job)
    return story is None or not story.attempts or story.attempts[-1].outcome is None or bool(story.job.incident_id)
