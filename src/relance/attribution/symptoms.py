"""Symptoms that the fusion treats apart, by their names in the rule pack (signatures.md, sections 8, 12 and 20)."""

from __future__ import annotations

from collections.abc import Mapping

from relance.domain import names
from relance.domain.faults import FaultDomain

FROM_SCHEDULER = frozenset({
    "command_not_executable", "launch_failed", "launch_revoked", "node_failed", "preempted", "requeued",
    "step_cancelled", "step_create_failed", "step_teardown", "step_teardown_stuck", "task_crash", "task_exit",
    "task_killed", "task_terminated", "time_limit", "user_cancelled",
})  # fmt: skip
"""What srun and slurmstepd write, into the job's own output as a rule: the node that they name is the scheduler's."""

PERSONS_WISH = frozenset({"user_cancelled", "interrupted", "operator_reboot", "drain", "user_exclusion"})
"""A person's decision, as against a person's mistake in a setting, which has the same domain."""

CANCELLED_BY_TEXT = frozenset({"user_cancelled"})
"""The scheduler also writes this when it takes down a step that has failed: its books must not say otherwise."""

TOLD_SIGNALS = frozenset({"agent_signalled", "signal_received"})
"""The program's own word that it got a signal to end."""

TERM_SIGNALS = TOLD_SIGNALS | {"task_terminated", "terminated"}
"""SIGTERM that reached the job's processes."""

PROCESS_DEATHS = frozenset({
    "aborted", "bus_error", "cpu_fault_or_build", "dataloader_killed", "engine_died", "killed_sigkill", "mpi_rank_died",
    "native_check_failed", "native_crash", "native_panic", "pool_worker_died", "process_sigkill", "segfault",
    "task_crash", "task_killed", "worker_exit",
})  # fmt: skip
"""Ends of processes, as the launcher or the scheduler tells them; told after the shut-down has begun, meant before."""

NEVER_A_FAULT = frozenset({
    "compile_hint", "cpp_exception_text", "data_worker_exception", "exception_ignored", "job_failed", "library_hint",
    "ray_task_error", "stacks_shown", "state_left_out", "thread_exception",
})  # fmt: skip
"""Lines that only frame or repeat what another line says."""

PROCESS_EXITS = frozenset({"task_exit", "worker_exit"})
"""Processes that ended with a code of their own."""

CLASSLESS_KILLS = frozenset({"killed_sigkill", "process_sigkill", "task_killed", "exited_by_signal_9"})
"""A kill that needs an oom-killer line, an operator's sign or a node's sign to get a class (20.11)."""

IN_JOB_RESTARTS = frozenset({
    "agent_restarting", "in_job_restart", "in_job_restart_follower", "inproc_exception", "inproc_hang",
    "inproc_terminated", "membership_changed", "nvrx_cycle_event",
})  # fmt: skip
"""A restarter inside the job is at work (P050, V002, V007)."""

IN_JOB_RESTARTS_OVER = frozenset({"in_job_restarts_exhausted", "no_progress_stop", "nvrx_no_restart"})
"""The restarter inside the job has given up."""

ORDERS_OF_THE_DRIVER = frozenset({
    "gpu_drain_p2p", "gpu_needs_reboot", "gpu_needs_reset", "gpu_recovery_action",
})  # fmt: skip
"""Xid 154: overrides what the companion beside it would ask for (20.11)."""

RECOVERIES: Mapping[str, frozenset[str]] = {
    "nfs_recovered": frozenset({"nfs_stall"}),
    "lustre_recovered": frozenset(
        {
            "lustre_call_failed",
            "lustre_evicted",
            "lustre_lock_timeout",
            "lustre_lost",
            "lustre_slow",
        }
    ),
    "pod_started": frozenset({"image_pull", "mount_failed", "sandbox_failed"}),
    "image_pulled": frozenset({"image_pull", "registry_throttle", "registry_down"}),
    "gpu_recovery_none": ORDERS_OF_THE_DRIVER,
    "port_up": frozenset({"port_down"}),
    "power_smoothing_on": frozenset({"power_smoothing_off_or_worn"}),
}
"""For each recovery row the rows that it cancels (20.14); any other `x_recovered` cancels rows that begin with `x_`."""

ANNOUNCED = frozenset({"capacity_block_ends", "host_maintenance", "preempted", "spot_reclaimed"})
"""What is told some minutes before it happens: the job trains on until then."""

FLAPPING = frozenset({"port_down"})
"""A link that comes back: once is an event, again and again is a fault."""

SAME_DEVICE_ONLY = frozenset({"gpu_page_fault", "gpu_sm_exception", "illegal_memory_access"})
"""Xid 13 and 31 and their echo in the program: the application's, unless the same GPU repeats (20.9)."""

NOT_FAULTS = frozenset({"cold_start_unwanted", "cold_start"})
"""A first attempt finds no checkpoint either; a new attempt that did not resume has a finding of its own."""

WRAPPERS = frozenset({"fr_cuda_error", "nccl_cuda_failure", "watchdog_exception"})
"""Lines that repeat an error that somebody else had."""

PRECURSORS: Mapping[str, frozenset[str]] = {
    "loss_scale_exhausted": frozenset({"loss_scale_drop"}),
}
"""Rows that are no fault by themselves, and where a fault first shows all the same."""

WAITED_IN_COLLECTIVE = frozenset({
    "collective_timeout", "watchdog_state", "watchdog_exception", "gloo_timeout",
})  # fmt: skip
"""A rank that waited in a collective."""

WAITED_FOR_OTHERS = frozenset({
    "barrier_rank_missing", "hang", "jax_barrier_timeout", "nccl_bootstrap_timeout", "nccl_init_rank0_lost",
    "rendezvous_failed", "store_clients_missing", "store_connect_timeout", "store_key_timeout", "store_unreachable",
    "xla_rendezvous_wait",
})  # fmt: skip
"""Somebody who waited for others, not in a collective: most often before the first."""

UNANSWERED = frozenset({
    "efa_peer_unresponsive", "ib_retry_exceeded", "ib_rnr_exceeded", "nccl_connect_failed", "ofi_unresponsive",
    "peer_unreachable",
})  # fmt: skip
"""A peer, or the way to it, did not answer; it did not close the connection, as a process does that ends."""

ODD_ON_ONE_NODE = frozenset({"gdr_off", "ib_not_found", "nccl_nvls_unavailable"})
"""Usual where all nodes are like that, and a fault where one alone is (C017, C042, C051)."""

MAY_BE_THE_NODES = frozenset({
    "gpu_page_fault", "gpu_sm_exception", "illegal_memory_access", "launch_failure", "nan_detected", "native_crash",
    "result_unexpected", "segfault",
})  # fmt: skip
"""Faults of the program by themselves that a broken device shows as well."""

NO_PROGRESS = frozenset({"no_progress_reported"})
"""What a monitor says of a job that stands still."""

SLOW = frozenset({"job_slow"})
"""What a monitor says of a job that is slow."""

STANDSTILLS = frozenset({"job_idle_power", "nccl_kernel_spin", "spin_wait_hang"})
"""GPUs that all wait or idle: the job does not compute (M024, M026, M027)."""

OUT_OF_MEMORY = frozenset({"cgroup_oom", "cuda_oom", "device_oom", "host_oom", "nccl_gpu_oom", "dataloader_killed"})
"""Memory that ran out: the next try may fit, so that all ranks ran out is no proof that it will again."""

DEVICE_MEMORY = frozenset({"cuda_oom", "device_oom"})
"""Of these, memory that nobody but the program's own processes takes."""

TORN = frozenset({"checkpoint_corrupt"})
"""What is read again, and torn again, by the next start, if it was met before the first step."""

ON_ONE_NODE: Mapping[str, FaultDomain] = {
    "path_missing": FaultDomain.STORAGE,
    "permission": FaultDomain.STORAGE,
    "import_error": FaultDomain.SYSTEM,
    "library_missing": FaultDomain.SYSTEM,
    "dns_failure": FaultDomain.SYSTEM,
    "driver_too_old": FaultDomain.SYSTEM,
    "nccl_no_interface": FaultDomain.SYSTEM,
    "tls_failure": FaultDomain.SYSTEM,
    "fd_limit": FaultDomain.SYSTEM,
    "ib_gid_misconfig": FaultDomain.SYSTEM,
    "ib_memlock": FaultDomain.SYSTEM,
    "nccl_version_mismatch": FaultDomain.SYSTEM,
}
"""Everybody's mistake where all ranks show it, and a node's fault where only its ranks do (A001, A006, T032)."""

MISTAKES = frozenset({
    "bad_data_record", "bad_index_or_label", "bad_token", "device_assert", "device_mismatch", "math_error",
    "not_supported", "shape_mismatch",
})  # fmt: skip
"""Mistakes in code or data by their kind: the same program meets them again at the same place (A003, A008, U710)."""

MISTAKEN_EXCEPTIONS = frozenset({
    "AssertionError", "AttributeError", "IndexError", "KeyError", "NameError", "NotImplementedError", "TypeError",
    "UnboundLocalError", "ValueError", "ZeroDivisionError",
})  # fmt: skip
"""Classes of Python's exceptions that tell of a mistake, as against what the world around did."""

OF_THE_HOST = frozenset({"driver_too_old", "fd_limit", "ib_gid_misconfig", "ib_memlock", "nccl_no_interface"})
"""Of these, what one rank's word is enough for: it tells of limits and devices of its host, not of the program."""

FINISHED = frozenset({"done"})
"""The program's own word that it reached its end."""


def words(symptom: str) -> str:
    """A symptom as words for a sentence."""
    return names.words(symptom)


def cancels(recovery: str, symptom: str) -> bool:
    """Whether a recovery row takes back a symptom."""
    partners = RECOVERIES.get(recovery)
    if partners is not None:
        return symptom in partners
    stem = recovery.removesuffix("_recovered")
    return stem != recovery and symptom.startswith(f"{stem}_")
