"""Relance on a private Slurm cluster, as real processes of its own user, with trainings of another."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir

from bench.rigs import folder
from bench.sites import Site
from relance.domain.stages import EndRunning, Stage
from relance.testing.other_users import OpenPython, User, open_python, user_of
from relance.testing.roles import RelanceProcesses, account_of
from relance.testing.slurm_clusters import ClusterPlan, RunningCluster, SlurmTrainings, start_cluster

CLUSTER = "private"
FAST_POLLS: Mapping[str, object] = {"jobs_s": 0.5, "nodes_s": 5, "accounting_s": 5, "requests_per_minute": 3000}
"""Intervals of the engine figure; the defaults are those of the operators' page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSetup:
    """How Relance is set up on the cluster. What is not named has its default.

    `scheduler` and `site` are parts of the settings file; `environment` is added to that of Relance's processes.
    """

    scheduler: Mapping[str, object] = field(default_factory=dict)
    site: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    stage: Stage = Stage.ACT
    end_running: frozenset[EndRunning] = frozenset()
    apart: bool = False
    watchdog: Mapping[str, object] | None = None
    """The watchdog's rules for the cluster, and `every_s`; None: no watchdog."""
    account: str = ""
    """As whom Relance runs; empty: the cluster's operator."""


class SlurmSite(Site):
    """Trainings of an owner on a cluster that runs already, and Relance beside it.

    Args:
        cluster: The cluster.
        folder: A new folder; Relance's settings, state and logs go there.
        setup: How Relance is set up.
        owner: The user whose trainings these are.
        partition: The partition of the trainings; empty: the cluster's default.
    """

    def __init__(
        self, cluster: RunningCluster, folder: Path, setup: SlurmSetup, *, owner: str = "", partition: str = ""
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.cluster = cluster
        self.folder = folder
        self.setup = setup
        self.python: OpenPython = open_python(folder, user_of(cluster.plan.operator))
        self.owner = owner or cluster.plan.owners[0]
        self.partition = partition
        self.trainings = self.trainings_of(self.owner)
        site: dict[str, object] = {
            "name": CLUSTER,
            "scheduler": {"kind": "slurm", **setup.scheduler},
            "kernel_log": self.trainings.kernel_log,
            "log_roots": [cluster.folder],
            "opt_in": "all",
            **setup.site,
        }
        settings = {"clusters": [site], "server": {"port": 0}, **setup.settings}
        account = user_of(setup.account or cluster.plan.operator)
        environment = {**cluster.env, "XDG_CACHE_HOME": _cache_of(account), **setup.environment}
        super().__init__(
            CLUSTER,
            self.trainings,
            RelanceProcesses(
                folder / "relance",
                settings,
                apart=setup.apart,
                account=account_of(account, self.python, environment),
                watchdog=_watchdog(setup.watchdog),
            ),
        )

    def trainings_of(self, owner: str) -> SlurmTrainings:
        """Trainings of another owner, in a folder of this site's own."""
        place = self.cluster.work_dir(owner) / self.folder.name
        return SlurmTrainings(self.cluster, place, owner, self.python, partition=self.partition)

    def start(self) -> None:
        """Start Relance, and set the stage once its controller has reported."""
        self.trainings.start()
        self.start_relance(self.setup.stage, self.setup.end_running)

    def stop(self) -> None:
        """End the trainings and Relance."""
        self.stop_relance()
        self.trainings.stop()


def _watchdog(rules: Mapping[str, object] | None) -> dict[str, object] | None:
    if rules is None:
        return None
    of_cluster = {key: value for key, value in rules.items() if key != "every_s"}
    return {"every_s": rules.get("every_s", 5.0), "clusters": [{"name": CLUSTER, **of_cluster}]}


def _cache_of(user: User) -> str:
    """Where a user without a home keeps compiled rules from one start to the next, as a service's cache folder does."""
    return str(Path(gettempdir()) / f"relance-cache-{user.uid}")


@contextlib.contextmanager
def slurm_site(plan: ClusterPlan, setup: SlurmSetup) -> Iterator[SlurmSite]:
    """A private cluster with Relance on it, both of which are gone afterwards."""
    with folder() as place:
        place.chmod(0o755)  # Relance's own user has its folder below it
        cluster = start_cluster(plan)
        try:
            made = SlurmSite(cluster, place / "site", setup)
            try:
                made.start()
                yield made
            finally:
                made.stop()
        finally:
            cluster.stop()
