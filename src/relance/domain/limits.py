"""The site's limits: everything policy and detectors are tuned by, with the shipped defaults.

Times are seconds, shares are fractions. Defaults come from the operators' page (section 3) and design 8.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HangLimits:
    """When silence is a hang (design 8)."""

    suspected_min_s: float = 12.0
    suspected_medians: float = 4.0
    lasting_min_s: float = 150.0
    """A suspected hang that lasts for so long is an incident; one that passes before is only shown. Early enough for
    evidence collected then (20 s) to be weighed when signs may confirm it."""
    lasting_times: float = 2.0
    """And so many times as long as the attempt is known to pause; where steps are slow, at least 4.5 usual gaps."""
    signed_min_s: float = 180.0
    """With an independent sign: node silent, Xid, dead rank."""
    signed_medians: float = 5.0
    start_limit_s: float = 3600.0
    """How long an attempt may take to its first step."""
    phase_limit_s: float = 1800.0
    """How long an announced save or evaluation may take."""
    phase_min_s: float = 1200.0
    """The same, at least, once it is known how long others of its kind took in this attempt."""
    phase_times: float = 3.0
    """And in multiples of the longest of them."""
    start_times: float = 3.0
    """An attempt may take this many times as long to its first step as the longest of its workflow took."""
    start_min_s: float = 300.0
    """And at least so long: an attempt that loads a checkpoint is later than one that began from nothing."""
    gpu_min_s: float = 1200.0
    """With the GPUs' picture as the only sign: it is that of a save by one rank, too."""
    gpu_pause_times: float = 3.0
    """The same, in multiples of the longest pause that this workflow got over by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownLimits:
    """When longer steps are a slowdown: told, never acted on."""

    share: float = 0.1
    """Steps have to take longer by at least this share than the job's own usual ones."""
    steps: int = 40
    """Over at least so many steps."""
    for_s: float = 45.0
    """And for at least so long: short enough to tell within 60 steps of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergenceLimits:
    """When a loss that has run away is told."""

    without_number: int = 5
    """Steps in a row whose loss or gradient norm is no number (operators.md 3)."""
    spike_times: float = 5.0
    """A loss or gradient norm of so many times its usual level is a spike (numbers.md 4.4); a loss is a logarithm."""
    heal_steps: int = 60
    """A spike that is over within so many steps has healed: BLOOM's took some 30 (numbers.md 4.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartLimits:
    """How often a job is started again."""

    without_progress: int = 3
    per_day: int = 8
    in_all: int = 20
    at_once: int = 16
    """Recoveries under way at the same time on one cluster: as many as a controller carries out side by side."""
    progress_s: float = 1200.0
    """Progress means a new durable checkpoint and this long of steps."""
    before_first_step_first: int = 0
    """Restarts of a first attempt that died before its first step with no node or system sign."""
    before_first_step_later: int = 1
    unknown_without_progress: int = 2
    """Unknown cause: stop on the third time without progress (design 7)."""
    once_without_progress: int = 1
    backoff_first_s: float = 30.0
    backoff_max_s: float = 1800.0
    wall_time_times: float = 3.0
    """Wall time over all attempts, in multiples of the job's limit."""
    wall_time_left_share: float = 0.1
    """With less than this share of one limit left of it, another attempt is no use (operators.md 2)."""
    array_share: float = 0.2
    """More than this share of an array's tasks failed in the same way: no more restarts of them."""
    array_tasks: int = 3
    """So many tasks have to have failed in the same way for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionLimits:
    """How many nodes may be kept out."""

    per_decision: int = 2
    per_job_nodes: int = 2
    per_job_share: float = 0.03
    per_partition_share: float = 0.05
    for_s: float = 86400.0
    weak_window_s: float = 604800.0
    """Weak evidence excludes at the second time within this window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StormLimits:
    """When many failures are one, and how restarts are metered."""

    window_s: float = 120.0
    owners: int = 4
    workflows: int = 8
    bucket_burst: int = 3
    bucket_refill_s: float = 10.0
    after_storm_s: float = 3600.0
    """How long after a storm restarts are metered more slowly."""
    after_storm_refill_s: float = 6.0
    park_s: float = 1800.0
    park_max_s: float = 14400.0
    park_refill_s: float = 1.0
    """Parking is metered apart from restarts: it must reach every ended job before the scheduler forgets it."""
    clear_after_s: float = 300.0
    """A storm clears by itself when nothing new of its kind came for this long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """All limits of one site."""

    settle_s: float = 15.0
    """A verdict is final this long after the end, or after the last new root line."""
    read_wait_s: float = 5.0
    """An ended attempt whose logs are not read to their end is waited for so much longer."""
    self_requeue_grace_s: float = 60.0
    """How long an ended job that requeues by itself is given to do so."""
    in_job_restart_grace_s: float = 900.0
    """How long a restarter inside a running job is given before the job is looked at as if it had none."""
    view_max_age_s: float = 10.0
    """A scheduler's view older than this is not fresh."""
    logs_max_age_s: float = 90.0
    """Nothing that runs is ended when its logs were last read to their end longer ago: it may have gone on since.
    Longer than a network file system lags (60 s)."""
    dead_rank_min_s: float = 60.0
    dead_rank_medians: float = 5.0
    advice_running_s: float = 60.0
    """Expiry of an advice on a running attempt."""
    expiry_margin_s: float = 30.0
    """An advice on an ended attempt expires this long before MinJobAge."""
    approval_s: float = 1800.0
    settled_running_s: float = 2.0
    unproven_s: float = 600.0
    """A new attempt without step lines is left as unproven after this long."""
    pending_reason_s: float = 60.0
    """After this long pending for a new reason, our exclusions are taken back."""
    stop_cancels_running: bool = False
    grace_after_boot_s: float = 300.0
    """No action for this long after the scheduler restarted."""
    hang: HangLimits = HangLimits()
    slowdown: SlowdownLimits = SlowdownLimits()
    divergence: DivergenceLimits = DivergenceLimits()
    restarts: RestartLimits = RestartLimits()
    exclusions: ExclusionLimits = ExclusionLimits()
    storms: StormLimits = StormLimits()
