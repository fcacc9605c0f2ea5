"""What a private cluster shall look like: a value, written down before anything is started."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """A partition of slurm.conf.

    Attributes:
        name: Its name.
        nodes: Its nodes by name; empty means all nodes of the cluster.
        options: More words of its line, as slurm.conf spells them: `Default=YES PriorityTier=10 GraceTime=20`.
    """

    name: str
    nodes: tuple[str, ...] = ()
    options: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """A whole cluster. The defaults are six small nodes and times short enough for tests.

    Attributes:
        node_prefix: Nodes are called by this and a number of three digits: `gpu001`, `gpu002`, …
        node_count: How many nodes there are; each is one slurmd process (about 10 MiB).
        cpus_per_node: CPUs that each node claims, whatever the machine has.
        memory_mib: Memory that each node claims, likewise.
        features: Features of single nodes, by node name; nodes that are not named have none.
        partitions: The partitions. One of them should be the default.
        cluster_name: ClusterName, and the name in accounting.
        operator: The system user with Slurm's admin level Operator, which Relance runs as.
        owners: The system users who own jobs.
        account: The account that operator and owners belong to.
        min_job_age_s: MinJobAge: how long a finished job can still be requeued. Slurm's default is 300.
        slurmd_timeout_s: SlurmdTimeout: silence after which a node is DOWN. Slurm's default is 300.
        kill_wait_s: KillWait: time between TERM and KILL. Slurm's default is 30.
        cred_expire_s: cred_expire of AuthInfo: a requeued job waits for so long, and a second. None: Slurm's 120.
        scheduler_parameters: SchedulerParameters; the default looks at the queue every two seconds.
        accounting_store_flags: AccountingStoreFlags; empty leaves comments of jobs out of accounting.
        preempt_type: PreemptType. With the default, a partition of a higher PriorityTier takes nodes from a lower one.
        preempt_mode: PreemptMode; a partition's own options may set another.
        extra_lines: Lines added to the end of slurm.conf.
        prefix: Where Slurm is installed (the folder with its bin, sbin and lib); empty means the programs of PATH.
    """

    node_prefix: str = "gpu"
    node_count: int = 6
    cpus_per_node: int = 2
    memory_mib: int = 2000
    features: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    partitions: tuple[PartitionPlan, ...] = (PartitionPlan(name="gpu", options="Default=YES"),)
    cluster_name: str = "private"
    operator: str = "relance"
    owners: tuple[str, ...] = ("owner1", "owner2")
    account: str = "research"
    min_job_age_s: int = 300
    slurmd_timeout_s: int = 30
    kill_wait_s: int = 5
    cred_expire_s: int | None = None
    scheduler_parameters: str = "sched_interval=2,bf_interval=2"
    accounting_store_flags: tuple[str, ...] = ("job_comment", "job_script")
    preempt_type: str = "preempt/partition_prio"
    preempt_mode: str = "REQUEUE"
    extra_lines: tuple[str, ...] = ()
    prefix: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes, in order."""
        return tuple(f"{self.node_prefix}{number:03d}" for number in range(1, self.node_count + 1))

    @property
    def users(self) -> tuple[str, ...]:
        """All system users that the cluster needs: the operator, then the owners."""
        return (self.operator, *self.owners)

    def to_json(self) -> dict[str, Any]:
        """The plan as a value for `json.dumps`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The plan that `to_json` gave."""
        tuples = ("owners", "accounting_store_flags", "extra_lines")
        known = {**value, **{name: tuple(value[name]) for name in tuples}}
        known["features"] = {node: tuple(names) for node, names in value["features"].items()}
        known["partitions"] = tuple(
            PartitionPlan(name=each["name"], nodes=tuple(each["nodes"]), options=each["options"])
            for each in value["partitions"]
        )
        return cls(**known)
