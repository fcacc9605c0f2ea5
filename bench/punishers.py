"""A punisher: it kills ranks, nodes and Relance's own processes at random, and a keeper brings back what has to be.

What it does is drawn from a seed: when, of which kind, and which of those that can be hit then. Everything that it did
is kept, so that each attempt that ended can be asked who ended it.
"""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from bench.queue_watches import now
from bench.slurm_sites import SlurmSite
from relance.simulation.private_slurm import PrivateSlurmError
from relance.testing.clusters import ClusterRefusedError


class Deed(Enum):
    """What is done."""

    RANK = "a rank is killed"
    NODE = "a node is lost with all that runs there"
    SLURMD = "a slurmd is killed; the ranks live"
    CONTROLLER = "controller"
    WATCHER = "watcher"
    SERVER = "server"
    WATCHDOG = "watchdog"

    @property
    def is_role(self) -> bool:
        """Whether it is a process of Relance that is killed."""
        return self in (Deed.CONTROLLER, Deed.WATCHER, Deed.SERVER, Deed.WATCHDOG)


WEIGHTS: Mapping[Deed, float] = {
    Deed.RANK: 8,
    Deed.NODE: 2,
    Deed.SLURMD: 2,
    Deed.CONTROLLER: 3,
    Deed.WATCHER: 2,
    Deed.SERVER: 2,
    Deed.WATCHDOG: 1,
}
NODE_AWAY_S = (8.0, 90.0)
"""Some are back before Slurm has noticed, which then takes minutes to see that their jobs are gone."""
SLURMD_AWAY_S = (0.5, 3.0)
ROLE_AWAY_S = (0.2, 6.0)
"""A service manager starts a service again after a moment, sometimes a longer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Something that was done. Times in seconds since 1970; `until` is when the node or process was back."""

    deed: Deed
    at: float
    job: int = 0
    restart_count: int = 0
    node: str = ""
    until: float | None = None


@dataclass(slots=True)
class _Away:
    deed: Deed
    name: str
    at: float
    back_s: float
    """By the monotonic clock."""


@dataclass(slots=True)
class Punisher:
    """Punishes a site, as often as `every_s` says on average. Not of use to two threads.

    Attributes:
        site: Relance, its roles apart, and the cluster.
        jobs: The trainings, with how many ranks each has.
        may_hit: Whether a rank of this job may be killed now.
        seed: What is drawn comes of it.
        every_s: Seconds between two deeds, on average.
        first: What is done first of all, in this order, so that a short run has each kind.
        node_away_s: How long a lost node is away: the shortest and the longest time.
    """

    site: SlurmSite
    jobs: Mapping[int, int]
    may_hit: Callable[[int], bool]
    seed: int
    every_s: float
    first: Sequence[Deed] = ()
    node_away_s: tuple[float, float] = NODE_AWAY_S
    hits: list[Hit] = field(default_factory=list)
    _dice: random.Random = field(init=False)
    _next_s: float = 0.0
    _todo: list[Deed] = field(default_factory=list)
    _away: list[_Away] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Take up the dice."""
        self._dice = random.Random(self.seed)
        self._todo = list(self.first)
        self._next_s = time.monotonic() + self.every_s / 2

    def keep(self) -> None:
        """Bring back what has been away for its time, and what ended by itself."""
        due = [each for each in self._away if time.monotonic() >= each.back_s]
        for each in due:
            self._away.remove(each)
            self._bring_back(each)
        away = {each.name for each in self._away}
        for role in self.site.relance.ended():
            if role not in away:
                # As a service manager does: it ended by itself, such as an agent that found no server at its start.
                self._away.append(_Away(_ROLES[role], role, now(), time.monotonic() + 1.0))

    def punish(self) -> None:
        """Do something, if it is time."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + self._dice.uniform(0.2, 1.8) * self.every_s
        kinds = list(WEIGHTS)
        deed = self._dice.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        which, length = self._dice.random(), self._dice.random()
        if self._todo:
            deed = self._todo[0]
        if self._do(deed, which, length) and self._todo:
            self._todo.pop(0)

    def end(self) -> None:
        """Bring everything back now."""
        for each in self._away:
            self._bring_back(each)
        self._away.clear()

    def _do(self, deed: Deed, which: float, length: float) -> bool:
        if deed is Deed.RANK:
            return self._kill_rank(which, length)
        if deed.is_role:
            return self._kill_role(deed, length)
        return self._lose_node(deed, which, length)

    def _kill_rank(self, which: float, length: float) -> bool:
        running = [job for job in self.jobs if self.may_hit(job) and self._runs(job)]
        if not running:
            return False
        job = running[int(which * len(running))]
        with contextlib.suppress(ClusterRefusedError):
            count = int(self.site.trainings.job(job)["restart_count"])
            at = now()
            self.site.trainings.kill_rank(job, int(length * self.jobs[job]))
            self.hits.append(Hit(deed=Deed.RANK, at=at, job=job, restart_count=count))
            return True
        return False

    def _lose_node(self, deed: Deed, which: float, length: float) -> bool:
        away = {each.name for each in self._away}
        used = {node for job in self.jobs if self._runs(job) for node in self.site.trainings.job(job)["node_list"]}
        nodes = sorted(used - away)
        if not nodes:
            return False
        node = nodes[int(which * len(nodes))]
        shortest, longest = self.node_away_s if deed is Deed.NODE else SLURMD_AWAY_S
        at = now()
        self.site.cluster.stop_node(node, and_its_jobs=deed is Deed.NODE)
        self._away.append(_Away(deed, node, at, time.monotonic() + shortest + length * (longest - shortest)))
        return True

    def _kill_role(self, deed: Deed, length: float) -> bool:
        if any(each.name == deed.value for each in self._away):
            return False
        running = self.site.relance.role(deed.value)
        running.signal(signal.SIGKILL)
        running.wait(10.0)
        shortest, longest = ROLE_AWAY_S
        back_s = time.monotonic() + shortest + length * (longest - shortest)
        self._away.append(_Away(deed, deed.value, now(), back_s))
        return True

    def _bring_back(self, each: _Away) -> None:
        if each.deed.is_role:
            self.site.relance.start_role(each.name, wait=False)
            self.hits.append(Hit(deed=each.deed, at=each.at, until=now()))
            return
        try:
            self.site.cluster.start_node(each.name, wait=False)
        except PrivateSlurmError:
            self._away.append(_Away(each.deed, each.name, each.at, time.monotonic() + 1.0))
            return
        self.hits.append(Hit(deed=each.deed, at=each.at, node=each.name, until=now()))

    def _runs(self, job: int) -> bool:
        try:
            return bool(self.site.trainings.job(job)["state"] == "RUNNING")
        except ClusterRefusedError:
            return False


_ROLES = {deed.value: deed for deed in Deed if deed.is_role}
