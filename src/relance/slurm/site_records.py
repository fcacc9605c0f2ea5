"""Nodes, reservations and slurmctld itself as Slurm's commands show them; None means "not shown"."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node. `states` holds the base state first (IDLE, MIXED, ALLOCATED, DOWN, …), then flags.

    Flags are in Slurm's long words: DRAIN, MAINTENANCE, PLANNED, REBOOT_ISSUED, REBOOT_REQUESTED, POWERED_DOWN,
    NOT_RESPONDING (the `*` behind a short state), RESERVED, COMPLETING. `reason_by` is a user's name, and its uid
    where that is what is shown.
    """

    name: str
    states: tuple[str, ...]
    reason: str | None = None
    reason_by: str | None = None
    reason_at: int | None = None
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    active_features: tuple[str, ...] = ()
    gres: str | None = None

    def is_state(self, word: str) -> bool:
        """Whether Slurm shows this state or flag."""
        return word in self.states


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A reservation: nodes that are kept for some users, or for maintenance (flag MAINT), between two times."""

    name: str
    starts_at: int | None
    ends_at: int | None
    nodes: tuple[str, ...]
    flags: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    partition: str | None = None
    state: str | None = None
    node_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlFacts:
    """What the site set and which slurmctld answers, from `scontrol show config`.

    `release` is as shown, such as "22.05.8". `min_job_age_s` is how long slurmctld remembers an ended job, which is
    the time in which it can be requeued; 0 means that the purge is off. `cred_expire_s` is the site's `cred_expire`;
    None is Slurm's default, 120 s. `scheduler_parameters` maps each word to its value, "" for a word that has none;
    `dependency_parameters` are the words of the setting of that name, `controller_parameters` those of
    SlurmctldParameters.
    `has_federation` says that federation parameters are set. `federation` is the name of the one that the cluster is
    part of, which is asked apart from the settings: "" for none, None: not readable.
    """

    release: str
    booted_at: int | None
    cluster: str
    slurm_user: str
    slurm_uid: int | None
    min_job_age_s: int | None
    job_requeue: bool | None
    job_file_append: bool | None
    accounting_type: str | None
    accounting_store_flags: tuple[str, ...] = ()
    cred_expire_s: int | None = None
    requeue_exit: str | None = None
    requeue_exit_hold: str | None = None
    kill_wait_s: int | None = None
    unkillable_s: int | None = None
    private_data: tuple[str, ...] = ()
    preempt_mode: str | None = None
    preempt_type: str | None = None
    scheduler_parameters: dict[str, str] = field(default_factory=dict)
    dependency_parameters: tuple[str, ...] = ()
    controller_parameters: tuple[str, ...] = ()
    has_federation: bool = False
    federation: str | None = ""
